// Whole lines of a stream of bytes that comes in pieces.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace yoke::cli {

/// One thread only. What a line has beyond `longest` bytes is dropped: a rank that never ends its line must not fill
/// the memory of who listens to it.
class LineSplitter {
 public:
  explicit LineSplitter(std::size_t longest) : longest_(longest) {}

  /// Calls `take` with every line that ends in these bytes, without its end.
  template <typename Take>
  void feed(std::string_view bytes, Take take) {
    for (auto end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
      keep(bytes.substr(0, end));
      take(std::string_view(rest_));
      rest_.clear();
      bytes.remove_prefix(end + 1);
    }
    keep(bytes);
  }
  /// What came behind the last end of a line.
  std::string take_rest() { return std::exchange(rest_, {}); }

 private:
  void keep(std::string_view bytes) { rest_ += bytes.substr(0, std::min(bytes.size(), longest_ - rest_.size())); }

  const std::size_t longest_;
  std::string rest_;  // never longer than longest_
};

}  // namespace yoke::cli
