// Where things lie on the machine that built the tests. The values are in a source file that the build writes: as
// macros on the command line they would make every test a new one for the compiler's cache in every clone.
#pragma once

#include <string>

namespace yoke::testing {

extern const char* const kSourceDir;
extern const char* const kSharedData;  // the reference data; absent on many machines, where tests that need it skip
extern const char* const kProgramDir;

/// The path of a program of this build.
inline std::string program(const std::string& name) {
  return std::string(kProgramDir) + "/" + name;
}

}  // namespace yoke::testing
