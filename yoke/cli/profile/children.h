// The other processes of a profiling: steps under a memory limit, and neighbours that keep the machine busy. Each is
// this program again, with a hidden command, and ends with this one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "yoke/cli/command.h"
#include "yoke/profiler/profiler.h"

namespace yoke::cli {

/// One thread. `neighbours`: the devices of this machine that train beside the one that is measured.
class ProfilingChildren final : public profiler::Helpers {
 public:
  ProfilingChildren(std::vector<engine::DeviceSpec> neighbours, Context& context)
      : neighbours_(std::move(neighbours)), context_(context) {}

  base::Result<profiler::Trial> try_steps(const profiler::Subject& subject, int lbs, int vsw,
                                          std::int64_t memory_bytes) override;
  base::Result<std::shared_ptr<void>> keep_company(const profiler::Subject& subject, int lbs) override;

 private:
  std::vector<std::string> command(const profiler::Subject& subject, const engine::DeviceSpec& device, int lbs) const;

  const std::vector<engine::DeviceSpec> neighbours_;
  Context& context_;
};

/// The hidden commands that these processes run.
void add_profile_children(CLI::App& group, Action& chosen);

}  // namespace yoke::cli
