#include "yoke/profile/pipedream/graph_text.h"

#include <regex>

#include "tests/support/files.h"

namespace yoke::profile::pipedream {
namespace {

using ::testing::ElementsAre;
using yoke::testing::expect_input_error;

const std::string kNumbers = "forward_compute_time=1.5, backward_compute_time=2.25, activation_size=8.000, ";

std::string layer_line(const std::string& id, const std::string& layer = "ReLU()") {
  return id + " -- " + layer + " -- " + kNumbers + "parameter_size=4.000\n";
}

TEST(PipedreamGraphText, ReadsLayersEdgesListsAndStages) {
  const auto graph = parse_graph_text(
      "node1 -- Input0 -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=0.0, "
      "parameter_size=0.000\n"
      "node2 -- LSTM(2, bias=True, a=(1, 2)) -- forward_compute_time=3.190, backward_compute_time=5.348, "
      "activation_size=[6291456.0; 131072.0; 131072.5], parameter_size=50364416.000 -- stage_id=3\n"
      "\tnode1 -- node2\n",
      "g.txt");
  ASSERT_TRUE(graph.ok()) << graph.error().to_string();
  ASSERT_EQ(graph->size(), 2);
  const Layer& lstm = graph->layers()[1];
  EXPECT_EQ(lstm.id, "node2");
  EXPECT_EQ(lstm.description, "LSTM(2, bias=True, a=(1, 2))");
  EXPECT_EQ(lstm.forward_ms, 3.190);
  EXPECT_EQ(lstm.backward_ms, 5.348);
  EXPECT_THAT(lstm.output_bytes, ElementsAre(6291456.0, 131072.0, 131072.5));
  EXPECT_EQ(lstm.parameter_bytes, 50364416.0);
  EXPECT_EQ(lstm.stage, 3);
  EXPECT_EQ(graph->layers()[0].stage, std::nullopt);
  EXPECT_THAT(graph->edges(), ElementsAre(Edge{0, 1}));
}

TEST(PipedreamGraphText, LayerTextMayHoldAnythingOnOneLine) {
  for (const std::string& text : std::vector<std::string>{"", "a -- b", "-- x --", " padded ", "f(x=1, y=[2; 3])",
                                                          "\xc3\xa9t\xc3\xa9", "stage_id=9"}) {
    const auto graph = parse_graph_text(layer_line("a", text), "g.txt");
    ASSERT_TRUE(graph.ok()) << graph.error().to_string();
    EXPECT_EQ(graph->layers()[0].description, text);
    const auto again = parse_graph_text(to_graph_text(*graph), "again");
    ASSERT_TRUE(again.ok()) << again.error().to_string();
    EXPECT_EQ(*again, *graph);
  }
}

TEST(PipedreamGraphText, WindowsLineEndsBlankLinesAndEarlyEdgesAreFine) {
  const auto graph =
      parse_graph_text("\ta -- b\r\n\r\n" + layer_line("a") + "\n" + layer_line("b") + "\ta -- b\n", "g.txt");
  ASSERT_TRUE(graph.ok()) << graph.error().to_string();
  EXPECT_THAT(graph->edges(), ElementsAre(Edge{0, 1}, Edge{0, 1})) << "parallel edges are kept";
}

TEST(PipedreamGraphText, WritesNumbersThatReadBackExactly) {
  const double third = 1.0 / 3;
  const auto graph = LayerGraph::make(
      {{.id = "a", .description = "A", .forward_ms = third, .output_bytes = {1e300, 0.1}, .parameter_bytes = 1e-9},
       {.id = "b", .description = "B", .output_bytes = {}, .stage = 0}},
      {{0, 1}});
  ASSERT_TRUE(graph.ok());
  const auto again = parse_graph_text(to_graph_text(*graph), "again");
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(*again, *graph);
}

TEST(PipedreamGraphText, RealProfilesRoundTrip) {
  YOKE_NEEDS_SHARED_DATA();
  const std::string folder = yoke::testing::shared_data() + "/pipedream/profiles";
  const auto names = base::list_folder(folder);
  ASSERT_TRUE(names.ok());
  ASSERT_GE(names->size(), 13U);
  // Some profiles write sizes as `8.0`, others as `8.000`; but for that the text is the same, byte for byte.
  const std::regex one_decimal(R"((\.0)([,;\]]))");
  for (const auto& name : *names) {
    SCOPED_TRACE(name);
    const std::string text = yoke::testing::read_text(folder + "/" + name);
    const auto graph = parse_graph_text(text, name);
    ASSERT_TRUE(graph.ok()) << graph.error().to_string();
    const std::string written = to_graph_text(*graph);
    EXPECT_EQ(written, std::regex_replace(text, one_decimal, ".000$2") + "\n");
    const auto again = parse_graph_text(written, name);
    ASSERT_TRUE(again.ok()) << again.error().to_string();
    EXPECT_EQ(*again, *graph);
  }
}

TEST(PipedreamGraphText, BadInputIsOneErrorWithItsLine) {
  const std::string good = layer_line("a");
  const auto parse = [](const std::string& text) { return parse_graph_text(text, "g.txt"); };
  expect_input_error(parse(""), "g.txt: found no layer");
  expect_input_error(parse(" \n\t\n"), "g.txt: found no layer");
  expect_input_error(parse("garbage"), "g.txt:1: found `garbage`, expected `id -- layer --");
  expect_input_error(parse(good + "b -- ReLU"), "g.txt:2: found `b -- ReLU`");
  expect_input_error(parse(good + "b -- ReLU -- stage_id=1"), "g.txt:2: found `b -- ReLU -- stage_id=1`");
  expect_input_error(parse(good + "b -- ReLU -- forward_compute_time=1"), "g.txt:2: found 1 numbers");
  expect_input_error(parse(good + "b -- ReLU -- 1, 2, 3, 4"), "g.txt:2: found `1`, expected `forward_compute_time=");
  for (const std::string& number : std::vector<std::string>{"nan", "inf", "-1", "1e999", "", "x", "1 2", "[1; 2"}) {
    expect_input_error(parse(good + "b -- ReLU -- " + kNumbers + "parameter_size=" + number),
                       "g.txt:2: found parameter_size=`" + number + "`");
  }
  expect_input_error(parse("b -- R -- " + kNumbers + "parameter_size=[1; 2]"),
                     "g.txt:1: found a list as parameter_size");
  expect_input_error(parse("b -- R -- " + kNumbers + "parameter_size=1 -- stage_id=-1"),
                     "g.txt:1: found stage_id `-1`");
  expect_input_error(parse(good + good), "g.txt:2: the layer `a` is given twice");
  expect_input_error(parse(good + "\ta"), "g.txt:2: found `a`, expected an edge");
  expect_input_error(parse(layer_line("node10") + "\tnode10 -- node1"),
                     "g.txt:2: the edge names the layer `node1`, which no line declares, did you mean `node10`?");
  expect_input_error(parse(good + "\ta -- a"), "g.txt: edges: found the cycle `a -> a`");
  expect_input_error(parse(good + layer_line("b") + "\ta -- b\n\tb -- a"), "g.txt: edges: found the cycle");
}

TEST(PipedreamGraphText, EveryTruncationIsReadOrRefused) {
  const std::string text = layer_line("a") + layer_line("b") + "\ta -- b\n";
  for (std::size_t length = 0; length < text.size(); ++length) {
    const auto graph = parse_graph_text(text.substr(0, length), "g.txt");
    EXPECT_TRUE(graph.ok() || graph.error().kind == base::ErrorKind::kInput);
  }
}

}  // namespace
}  // namespace yoke::profile::pipedream
