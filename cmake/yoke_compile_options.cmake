# One interface target carries what every translation unit of ours is compiled with.
add_library(yoke_compile_options INTERFACE)
target_compile_features(yoke_compile_options INTERFACE cxx_std_20)
target_compile_options(yoke_compile_options INTERFACE
  # Designated initialisers that leave fields at their defaults are how we write options: no warning for those.
  -Wall -Wextra -Wno-missing-field-initializers -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual
  $<$<BOOL:${YOKE_WERROR}>:-Werror>
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
  # gcc 12-14 report false positives deep inside std::string and std::variant at -O2.
  # -fpch-preprocess is what ccache needs to cache a file that uses a precompiled header.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict -Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow -fpch-preprocess>)

if(YOKE_SANITIZE)
  target_compile_options(yoke_compile_options INTERFACE -fsanitize=${YOKE_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(yoke_compile_options INTERFACE -fsanitize=${YOKE_SANITIZE})
endif()

set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

find_program(YOKE_CCACHE ccache)
if(YOKE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Sloppiness that ccache's manual asks for with precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${YOKE_CCACHE})
endif()
