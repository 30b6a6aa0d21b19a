// TensorBoard event files: scalars over steps, appended one by one. The format is a chain of checked records
// (TFRecord), each a protocol buffer of a few fields, which are encoded here so that no library is needed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "yoke/base/files.h"
#include "yoke/base/result.h"

namespace yoke::base {

/// CRC-32C (Castagnoli) of the bytes.
std::uint32_t crc32c(std::string_view bytes);
/// A record as it is in the file: length, checksum of the length, data, checksum of the data. The checksums are masked
/// as TFRecord wants it, so that data may hold records itself.
std::string tf_record(std::string_view data);

struct Scalar {
  std::string tag;
  double value = 0;  // stored as float: TensorBoard draws no more
};

/// One event file. Every call appends whole records in one write, so that a killed process leaves at most one torn
/// record, which readers skip. One thread only.
class TensorBoardWriter {
 public:
  /// Creates `folder/events.out.tfevents.<time>.<suffix>`. `seconds` is the time of day since 1970; the suffix must
  /// keep the name unique among writers of that second, e.g. host and process.
  static Result<TensorBoardWriter> create(const std::string& folder, const std::string& suffix, double seconds);

  /// Tells readers that this file goes on at `step`: what older files say of it and of later steps is void.
  Status restart(std::int64_t step, double seconds);
  Status add(std::int64_t step, const std::vector<Scalar>& scalars, double seconds);
  const std::string& path() const { return file_.path(); }

 private:
  explicit TensorBoardWriter(AppendFile file) : file_(std::move(file)) {}

  AppendFile file_;
};

}  // namespace yoke::base
