#include <vector>

#include "fuzz/fuzz.h"
#include "yoke/base/text.h"
#include "yoke/cli/launch/line_splitter.h"
#include "yoke/cli/launch/reports.h"

namespace {

/// The lines of a stream that comes in pieces of this size.
std::vector<std::string> lines_of(std::string_view stream, std::size_t piece, std::size_t longest) {
  yoke::cli::LineSplitter splitter(longest);
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < stream.size(); at += piece) {
    splitter.feed(stream.substr(at, piece), [&](std::string_view line) { lines.emplace_back(line); });
  }
  lines.push_back(splitter.take_rest());
  return lines;
}

}  // namespace

/// What `yoke run` reads from a rank: lines, however they come, and a report in each.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace yoke;
  const std::string_view stream = fuzz::text_of(data, size);
  constexpr std::size_t kShort = 16;
  const auto whole = base::split(stream, "\n");
  const auto pieces = lines_of(stream, 7, size + 1);
  const auto cut = lines_of(stream, 7, kShort);
  fuzz::expect(pieces.size() == whole.size() && cut.size() == whole.size(), "lines are lost");
  for (std::size_t i = 0; i < whole.size(); ++i) {
    fuzz::expect(pieces[i] == whole[i] && cut[i] == whole[i].substr(0, kShort), "a line is another");
    const auto report = cli::parse_report(whole[i]);
    if (!fuzz::answered(report)) continue;
    if (const auto* error = std::get_if<base::Error>(&*report)) fuzz::expect_one_line(error->to_string());
    // As text: a loss that is not a number is not equal to itself.
    const std::string line = cli::to_line(*report);
    const auto again = cli::parse_report(line);
    if (!again.ok()) fuzz::expect(false, "cannot read what was written: " + again.error().to_string() + "\n" + line);
    fuzz::expect(line.find('\n') == line.size() - 1 && cli::to_line(*again) == line,
                 "reads back differently:\n" + line);
  }
  return 0;
}
