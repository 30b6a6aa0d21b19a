#include <iostream>

#include "yoke/cli/command.h"

int main(int argc, char** argv) {
  return yoke::cli::run_yoke(argc, argv, std::cout, std::cerr);
}
