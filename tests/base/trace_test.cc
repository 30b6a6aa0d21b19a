#include "yoke/base/trace.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/support/temp_folder.h"
#include "yoke/base/document.h"

namespace yoke::base {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

TEST(Trace, WritesWhatViewersRead) {
  const yoke::testing::TempFolder folder;
  Trace trace;
  trace.name_process(0, "node0:0");
  trace.name_thread({0, 1}, "compute \"main\"");
  trace.span({0, 1}, "forward", "compute", nanoseconds(1'234'567), microseconds(10), "worker 3");
  trace.mark({0, 1}, "step", microseconds(2));
  trace.counter(0, "memory", microseconds(3), 1.5e9);
  ASSERT_TRUE(trace.write(folder.file("trace.json")).ok());

  const auto document = load_document(folder.file("trace.json"));
  ASSERT_TRUE(document.ok()) << document.error().to_string();
  Reader reader(*document);
  auto events = reader.root().field("traceEvents").items();
  ASSERT_EQ(events.size(), 5U);
  EXPECT_EQ(events[0].field("name").text(), "process_name");
  EXPECT_EQ(events[1].field("args").field("name").text(), "compute \"main\"");
  EXPECT_EQ(events[2].field("ph").text(), "X");
  EXPECT_DOUBLE_EQ(events[2].field("ts").number(), 1234.567);
  EXPECT_DOUBLE_EQ(events[2].field("dur").number(), 10.0);
  EXPECT_EQ(events[2].field("args").field("detail").text(), "worker 3");
  EXPECT_EQ(events[3].field("ph").text(), "i");
  EXPECT_DOUBLE_EQ(events[4].field("args").field("value").number(), 1.5e9);
  EXPECT_TRUE(reader.ok()) << reader.error().to_string();
}

TEST(Trace, ThreadsMayAddAtOnce) {
  Trace trace;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&trace, i] {
        for (int event = 0; event < 250; ++event) trace.mark({i, 0}, "x", nanoseconds(event));
      });
    }
  }
  EXPECT_EQ(trace.size(), 1000U);
}

TEST(Trace, RanksMergeIntoOneTimeline) {
  Trace first;
  first.name_process(7, "engine");
  first.span({7, 1}, "forward", "compute", microseconds(1), microseconds(2));
  Trace second;
  second.mark({0, 0}, "step", microseconds(3));
  const auto merged = merge_traces({first.to_json_as(0, "rank 0"), Trace().to_json(), second.to_json_as(1, "rank 1")});
  ASSERT_TRUE(merged.ok()) << merged.error().to_string();
  const auto document = parse_json(*merged, "merged");
  ASSERT_TRUE(document.ok()) << document.error().to_string();
  Reader reader(*document);
  std::vector<std::string> found;
  for (auto& event : reader.root().field("traceEvents").items()) {
    const auto args = event.find("args");
    found.push_back(std::to_string(event.field("pid").integer()) + " " +
                    (args ? View(*args).field("name").text() : event.field("name").text()));
  }
  EXPECT_EQ(found, (std::vector<std::string>{"0 rank 0", "0 forward", "1 rank 1", "1 step"}));
  EXPECT_TRUE(reader.ok()) << reader.error().to_string();
  EXPECT_FALSE(merge_traces({"{}"}).ok());
  EXPECT_TRUE(merge_traces({}).ok());
}

}  // namespace
}  // namespace yoke::base
