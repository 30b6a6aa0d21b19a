#include <filesystem>
#include <iostream>

#include "yoke/cli/command.h"

int main(int argc, char** argv) {
  std::error_code unknown;  // then nothing is started again
  const auto program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  return yoke::cli::run_yoke(argc, argv, std::cout, std::cerr, program);
}
