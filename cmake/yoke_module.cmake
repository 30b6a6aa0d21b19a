# yoke_module(NAME
#   HEADERS a.h b.h        headers, relative to yoke/NAME; each must compile alone
#   SOURCES a.cc b.cc      sources, relative to yoke/NAME
#   DEPS cluster profile   yoke modules; checked against cmake/layers.txt (base is implied)
#   LIBS fmt::fmt          libraries visible in the headers
#   PRIVATE_LIBS x::x      libraries used only in the sources
#   TESTS a_test.cc        tests, relative to tests/NAME; one binary per module
#   TEST_DEPS plan         further yoke modules that only the tests use
#   SLOW Suite.*           tests that take seconds each or want a process of their own: not in the quick run (see yoke_test)
#   TEST_SUPPORT x.h       helpers beside the tests, compiled into nothing by themselves
#   OTHER main.cc no_x.cc) files of the folder that this build compiles elsewhere or not at all
#
# One folder = one library target yoke_NAME = one namespace yoke::NAME. A source, header or test that lies in the
# folder but is not listed fails the configuration, so nothing can be forgotten.

file(STRINGS "${PROJECT_SOURCE_DIR}/cmake/layers.txt" yoke_layer_rows REGEX "^[a-z]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/layers.txt")

function(yoke_layer_row module out_tier out_allowed)
  foreach(row IN LISTS yoke_layer_rows)
    if(row MATCHES "^${module} +[0-9]+ +(torch|core) *:(.*)$")
      set(${out_tier} "${CMAKE_MATCH_1}" PARENT_SCOPE)
      string(REGEX MATCHALL "[a-z*]+" allowed "${CMAKE_MATCH_2}")
      set(${out_allowed} ${allowed} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "module `${module}` has no row in cmake/layers.txt: add one (see docs/architecture.md)")
endfunction()

function(yoke_require_listed folder)
  file(GLOB_RECURSE present RELATIVE "${folder}" CONFIGURE_DEPENDS "${folder}/*.cc" "${folder}/*.h")
  list(REMOVE_ITEM present ${ARGN})
  if(present)
    list(JOIN present ", " names)
    message(FATAL_ERROR "${folder}: not listed in its yoke_module(): ${names}. List each file, or delete it.")
  endif()
endfunction()

function(yoke_module name)
  cmake_parse_arguments(arg "" "" "HEADERS;SOURCES;DEPS;LIBS;PRIVATE_LIBS;TESTS;TEST_DEPS;SLOW;TEST_SUPPORT;OTHER" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "yoke_module(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  yoke_layer_row(${name} tier allowed)
  foreach(dep IN LISTS arg_DEPS)
    if(NOT dep STREQUAL "base" AND NOT "*" IN_LIST allowed AND NOT dep IN_LIST allowed)
      message(FATAL_ERROR "yoke_module(${name}): may not use `${dep}`; cmake/layers.txt allows: base ${allowed}")
    endif()
  endforeach()
  yoke_require_listed("${CMAKE_CURRENT_SOURCE_DIR}" ${arg_HEADERS} ${arg_SOURCES} ${arg_OTHER})

  set(target yoke_${name})
  add_library(${target} STATIC)
  add_library(yoke::${name} ALIAS ${target})
  target_sources(${target} PRIVATE ${arg_SOURCES})
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${arg_HEADERS})
  if(tier STREQUAL "core")
    set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
  endif()
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:yoke_compile_options> ${arg_PRIVATE_LIBS})
  target_link_libraries(${target} PUBLIC ${arg_LIBS})
  target_compile_features(${target} PUBLIC cxx_std_20)
  if(NOT name STREQUAL "base")
    list(APPEND arg_DEPS base)
  endif()
  list(TRANSFORM arg_DEPS PREPEND yoke::)
  target_link_libraries(${target} PUBLIC ${arg_DEPS})
  if(tier STREQUAL "torch")
    target_link_libraries(${target} PUBLIC yoke_torch)
    target_precompile_headers(${target} REUSE_FROM yoke_torch_pch)
    yoke_torch_headers(${target} ${arg_HEADERS})
  endif()

  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS ${target} EXPORT yoke FILE_SET HEADERS)

  set(tests_dir "${PROJECT_SOURCE_DIR}/tests/${name}")
  if(YOKE_TESTS AND arg_TESTS)
    yoke_require_listed("${tests_dir}" ${arg_TESTS} ${arg_TEST_SUPPORT})
    list(TRANSFORM arg_TESTS PREPEND "${tests_dir}/")
    list(TRANSFORM arg_TEST_DEPS PREPEND yoke::)
    if(tier STREQUAL "torch")
      set(with_torch TORCH)
    endif()
    yoke_test(${target}_test ${with_torch} SOURCES ${arg_TESTS} LIBS ${target} ${arg_TEST_DEPS} SLOW ${arg_SLOW})
  endif()
endfunction()

# Lets a program use the precompiled <torch/torch.h> of a target. With -fPIC, as that was made: compilers refuse one that
# was made with other options.
function(yoke_use_torch_header program from)
  set_target_properties(${program} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${program} PRIVATE -fPIC)
  target_precompile_headers(${program} REUSE_FROM ${from})
endfunction()

# Checks that the headers of a module below the torch line compile alone, as CMake's own check does for the others, but
# with the precompiled <torch/torch.h>: reading that anew for each would take half a minute. Target `yoke_torch_headers`.
function(yoke_torch_headers target)
  set(stubs)
  foreach(header IN LISTS ARGN)
    file(RELATIVE_PATH path "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}/${header}")
    set(stub "${CMAKE_CURRENT_BINARY_DIR}/headers/${header}.cc")
    file(CONFIGURE OUTPUT "${stub}" CONTENT "#include \"${path}\"\n")
    list(APPEND stubs "${stub}")
  endforeach()
  add_library(${target}_headers OBJECT EXCLUDE_FROM_ALL ${stubs})
  target_link_libraries(${target}_headers PRIVATE yoke_compile_options ${target})
  target_precompile_headers(${target}_headers REUSE_FROM yoke_torch_pch)
  if(NOT TARGET yoke_torch_headers)
    add_custom_target(yoke_torch_headers)
  endif()
  add_dependencies(yoke_torch_headers ${target}_headers)
endfunction()

if(YOKE_TESTS)
  configure_file("${PROJECT_SOURCE_DIR}/tests/support/paths.cc.in" "${PROJECT_BINARY_DIR}/tests/paths.cc" @ONLY)
  add_library(yoke_test_paths STATIC "${PROJECT_BINARY_DIR}/tests/paths.cc")
  target_include_directories(yoke_test_paths PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(yoke_test_paths PRIVATE yoke_compile_options)
endif()

# yoke_test(NAME SOURCES ... LIBS ... [LABELS l] [TORCH] [SLOW patterns]): one GoogleTest binary whose cases ctest lists
# one by one. It is listed once more as `quick.NAME`, with the label `quick`: all its cases in one process but those whose
# names match SLOW, which take seconds each. Loading libtorch for every case is most of what short tests take.
# TORCH: its sources include <torch/torch.h>, which is precompiled for them; labelled `torch` unless LABELS says otherwise.
# What tests know of this machine is in tests/support/paths.h.
function(yoke_test name)
  cmake_parse_arguments(arg "TORCH" "" "SOURCES;LIBS;LABELS;SLOW" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE yoke_compile_options ${arg_LIBS} yoke_test_paths GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  if(arg_TORCH)
    yoke_use_torch_header(${name} yoke_torch_test_pch)
    if(NOT arg_LABELS)
      set(arg_LABELS torch)  # gtest_discover_tests takes one label
    endif()
  else()
    target_precompile_headers(${name} PRIVATE <gmock/gmock.h>)
  endif()
  # Tests are compiled often and run for seconds: build them quickly.
  target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300 LABELS "${arg_LABELS}")
  if(NOT arg_SLOW STREQUAL "*")
    list(JOIN arg_SLOW ":" slow)
    add_test(NAME quick.${name} COMMAND ${name} --gtest_brief=1 "--gtest_filter=-${slow}")
    set_tests_properties(quick.${name} PROPERTIES TIMEOUT 300 LABELS quick)
  endif()
endfunction()
