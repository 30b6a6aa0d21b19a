// The job that a command was given: the file, the changes of --set, and paths that mean the same everywhere.
#pragma once

#include <string>
#include <vector>

#include "yoke/base/document.h"
#include "yoke/base/result.h"
#include "yoke/plan/job.h"

namespace yoke::cli {

/// `a.b=value`: puts a value, written as in YAML, at a key; maps on the way are made where there are none. Input errors
/// name `--set` and the key.
base::Status apply_setting(base::Document& document, const std::string& setting);

/// Relative paths in the file count from the folder it is in, those in settings from the current one; the job has them
/// absolute. Faults of settings are reported at `--set KEY`, faults of the file at its lines.
base::Result<plan::Job> load_job(const std::string& path, const std::vector<std::string>& settings);

/// `lenet` for `jobs/lenet.yaml`; of a file `job.yaml`, the name of its folder.
std::string job_name(const std::string& path);

}  // namespace yoke::cli
