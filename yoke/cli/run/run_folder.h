// The folder of a run: who may write to it, what is in it, and when it may be begun, gone on with or refused.
//
//   .lock           held by the process that owns the run
//   job.yaml        the job as it runs: --set applied, paths absolute
//   cluster.yaml    the cluster it runs on
//   plan.json       the plan in force
//   metrics.jsonl, events.jsonl, result.json, events.out.tfevents.*, checkpoints/, logs/, trace/, trace.json
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "yoke/base/document.h"
#include "yoke/base/result.h"
#include "yoke/comm/store/socket.h"
#include "yoke/plan/job.h"

namespace yoke::cli {

struct RunFolderOptions {
  std::string path;      // empty: runs/<job name>-<date>-<n>, or with `resume` the newest of these
  std::string job_name;  // of the file, without folder and ending
  std::string date;      // today as 2024-05-31
  bool resume = false;
};

/// One difference between two job files.
struct JobChange {
  std::string key;  // `optimizer.lr`
  std::string before;
  std::string after;
};
/// In the order of the keys of `after`, then what only `before` has.
std::vector<JobChange> job_changes(const plan::Job& before, const plan::Job& after);

/// An owned run folder. The lock is held as long as this lives (and ends with the process, however it ends).
class RunFolder {
 public:
  /// Makes or takes over the folder. Input errors that say what to do: the folder cannot be read or written, is another
  /// run's at this moment (names the pid), is not empty and no run folder, holds a run and `resume` is not set, holds
  /// none and it is set. A run that never made a step is begun anew either way.
  static base::Result<RunFolder> open(const RunFolderOptions& options);

  /// Absolute.
  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const;
  /// There are steps to go on from.
  bool resumes() const { return resumes_; }

  /// Writes job.yaml, after a comparison with the one of a run that is resumed: changes of `model`, `data` (but its
  /// threads) and `seed` are input errors, for the run could not go on at its exact sample; others are returned.
  base::Result<std::vector<JobChange>> put_job(const plan::Job& job) const;

 private:
  RunFolder(std::string path, comm::Descriptor lock, bool resumes)
      : path_(std::move(path)), lock_(std::move(lock)), resumes_(resumes) {}

  std::string path_;
  comm::Descriptor lock_;
  bool resumes_;
};

/// As people would type it: relative where it is below the working directory.
std::string as_typed(const std::string& absolute_path);

}  // namespace yoke::cli
