// What `yoke profile show` makes of text from strangers, of estimates and of spreads.
#include <gmock/gmock.h>

#include "tests/cli/run_yoke.h"
#include "tests/support/temp_folder.h"
#include "yoke/base/text.h"
#include "yoke/profile/profile_folder.h"

namespace yoke::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using yoke::testing::TempFolder;

TEST(ProfileShow, LayerTextIsCutBetweenCharactersAndCannotMoveTheCursor) {
  const TempFolder folder;
  const auto graph = profile::LayerGraph::make(
      {{.id = "a", .description = std::string(39, 'x') + "\u00e9\u00e9"},  // byte 40 lies inside of a character
       {.id = "b\x1b[2J", .description = "red \x1b[31m and \u202e back"},
       {.id = "c", .description = std::string(38, 'y') + "\u00fc!"}},
      {{0, 1}, {1, 2}});
  ASSERT_TRUE(graph.ok()) << graph.error().to_string();
  ASSERT_TRUE(profile::save_layers(folder.path(), *graph).ok());
  const Outcome shown = yoke({"profile", "show", folder.path()});
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_EQ(base::valid_utf8_prefix(shown.out), shown.out.size());
  EXPECT_THAT(shown.out, AllOf(HasSubstr(std::string(39, 'x') + "..."), HasSubstr("red \\x1b[31m and \\xe2\\x80\\xae"),
                               HasSubstr(std::string(38, 'y') + "\u00fc..."), HasSubstr("b\\x1b[2J")));
  EXPECT_THAT(shown.out, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\u202e"))));
}

profile::ProfileSet small_set() {
  profile::ProfileSet set{.model = "m",
                          .nodes = {{.node = "real", .device_type = "cpu"}, {.node = "guess", .device_type = "x\x07"}}};
  for (auto& node : set.nodes) node.by_lbs[8].compute = {{.vsw = 1, .total_ms = 3, .forward_ms = 1, .backward_ms = 2}};
  return set;
}

TEST(ProfileShow, EstimatesAreCalledEstimates) {
  const TempFolder folder;
  profile::ProfileSet set = small_set();
  ASSERT_TRUE(profile::save_profiles(folder.path(), set).ok());
  EXPECT_THAT(yoke({"profile", "show", folder.path()}).out, Not(HasSubstr("estimate")));
  set.nodes[1].source = profile::Source::kEstimate;
  set.comm = {.intra = {{1, 2}}, .inter = {}, .source = profile::Source::kEstimate};
  ASSERT_TRUE(profile::save_profiles(folder.path(), set).ok());
  const Outcome shown = yoke({"profile", "show", folder.path()});
  EXPECT_THAT(shown.out, AllOf(HasSubstr("not measured: guess"), HasSubstr("guess (estimate)"),
                               HasSubstr("estimated ms"), HasSubstr("x\\x07"), Not(HasSubstr("real (estimate)"))));
  const base::Document document = yoke_json({"profile", "show", folder.path()});
  base::Reader reader(document);
  base::View root = reader.root();
  EXPECT_EQ(root.field("source").text(), "estimate");
  for (auto& node : root.field("nodes").items()) {
    EXPECT_EQ(node.field("source").text(), node.field("node").text() == "guess" ? "estimate" : "measured");
  }
  EXPECT_EQ(root.field("comm").field("source").text(), "estimate");
}

TEST(ProfileShow, SpreadsAndLinksAreShown) {
  const TempFolder folder;
  profile::ProfileSet set = small_set();
  set.comm.intra = {{1, 2, 4096, 0.5}};
  set.comm.links = {{.backend = "shm",
                     .ranks = 3,
                     .latency_ms = 0.25,
                     .bandwidth = {2e9},
                     .error = 0.12,
                     .points = {{4096, 2, 0.5, 100}, {8192, 4, 0.4, 50}}}};
  ASSERT_TRUE(profile::save_profiles(folder.path(), set).ok());
  const Outcome shown = yoke({"profile", "show", folder.path()});
  EXPECT_THAT(shown.out, AllOf(HasSubstr("4.1 kB"), HasSubstr("25%"), HasSubstr("shm"), HasSubstr("2.0 GB/s"),
                               HasSubstr("12%"), HasSubstr("250.0 us"), HasSubstr("10%")));
  const base::Document document = yoke_json({"profile", "show", folder.path()});
  base::Reader reader(document);
  EXPECT_EQ(reader.root().field("comm").field("links").items().size(), 1U);
  EXPECT_TRUE(reader.ok());
}

}  // namespace
}  // namespace yoke::cli
