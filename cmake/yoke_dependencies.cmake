# Everything comes from the system (setup.sh installs it); nothing is fetched or vendored.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
if(NOT TARGET yaml-cpp::yaml-cpp)
  # yaml-cpp 0.7 (Debian 12) exports the target without a namespace.
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)
endif()
find_package(CLI11 REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
if(YOKE_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
if(YOKE_TORCH)
  find_package(Torch REQUIRED)
  # TORCH_LIBRARIES is a bare list of variables in Debian's package; give it one imported face.
  add_library(yoke_torch INTERFACE)
  target_link_libraries(yoke_torch INTERFACE ${TORCH_LIBRARIES})
  target_include_directories(yoke_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})

  # <torch/torch.h> takes half a minute to read: it is precompiled once, and every module below the torch line uses it.
  file(WRITE "${PROJECT_BINARY_DIR}/torch_pch.cc" "")
  add_library(yoke_torch_pch OBJECT "${PROJECT_BINARY_DIR}/torch_pch.cc")
  target_link_libraries(yoke_torch_pch PRIVATE yoke_compile_options yoke_torch fmt::fmt)
  target_precompile_headers(yoke_torch_pch PRIVATE <torch/torch.h>)
endif()
