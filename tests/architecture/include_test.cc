// Reads every #include of the project and cmake/layers.txt, and fails on one that the table does not allow.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/support/paths.h"
#include "yoke/base/files.h"
#include "yoke/base/text.h"

namespace yoke {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Layer {
  int number = 0;
  bool torch = false;
  std::set<std::string> allowed;
};

using Layers = std::map<std::string, Layer>;

Layers read_layers() {
  Layers layers;
  const std::string text = *base::read_file(std::string(yoke::testing::kSourceDir) + "/cmake/layers.txt");
  for (const auto line : base::split(text, "\n")) {
    if (line.empty() || line.front() == '#') continue;
    const auto halves = base::split(line, ":");
    std::vector<std::string> words;
    for (const auto word : base::split(halves.at(0), " ")) {
      if (!word.empty()) words.emplace_back(word);
    }
    Layer& layer = layers[words.at(0)];
    layer.number = std::stoi(words.at(1));
    layer.torch = words.at(2) == "torch";
    for (const auto word : base::split(halves.at(1), " ")) {
      if (!word.empty()) layer.allowed.emplace(word);
    }
  }
  return layers;
}

struct Include {
  std::string target;  // what stands between the brackets or quotes
  int line = 0;
};

std::vector<Include> includes_of(std::string_view source) {
  std::vector<Include> found;
  int number = 0;
  for (auto line : base::split(source, "\n")) {
    ++number;
    line = base::trim(line);
    if (!line.starts_with("#include")) continue;
    const auto open = line.find_first_of("<\"");
    const auto close = line.find_last_of(">\"");
    if (open != std::string_view::npos && close > open) {
      found.push_back({std::string(line.substr(open + 1, close - open - 1)), number});
    }
  }
  return found;
}

bool is_torch(std::string_view target) {
  for (const auto* prefix : {"torch/", "ATen/", "c10/", "caffe2/"}) {
    if (target.starts_with(prefix)) return true;
  }
  return false;
}

/// The reason why a file of `module` may not include `target`; empty when it may.
std::string objection(const Layers& layers, const std::string& module, std::string_view target) {
  const Layer& own = layers.at(module);
  if (is_torch(target)) return own.torch ? "" : "is above the torch line and may not include libtorch";
  if (!target.starts_with("yoke/")) return "";
  const std::string used(base::split(target, "/").at(1));
  if (used == module || used == "base" || own.allowed.contains("*") || own.allowed.contains(used)) return "";
  return layers.contains(used) ? fmt::format("may not use {}", used) : fmt::format("uses {}, which has no layer", used);
}

/// Every objection in the tree, as `file:line: ...`.
std::vector<std::string> objections_in_tree(const Layers& layers) {
  std::vector<std::string> objections;
  for (const auto& entry : fs::recursive_directory_iterator(std::string(yoke::testing::kSourceDir) + "/yoke")) {
    const auto extension = entry.path().extension();
    if (extension != ".h" && extension != ".cc") continue;
    const std::string relative = fs::relative(entry.path(), yoke::testing::kSourceDir).string();
    const std::string module(base::split(relative, "/").at(1));
    if (!layers.contains(module)) {
      objections.push_back(fmt::format("{}: its folder has no row in cmake/layers.txt", relative));
      continue;
    }
    for (const auto& include : includes_of(*base::read_file(entry.path().string()))) {
      const std::string reason = objection(layers, module, include.target);
      if (!reason.empty())
        objections.push_back(fmt::format("{}:{}: {} {} ({})", relative, include.line, module, reason, include.target));
    }
  }
  return objections;
}

TEST(Architecture, EveryIncludeIsAllowedByTheLayerTable) {
  EXPECT_THAT(objections_in_tree(read_layers()), IsEmpty());
}

TEST(Architecture, TheTableAllowsOnlyLowerOrEqualLayers) {
  const Layers layers = read_layers();
  ASSERT_GE(layers.size(), 16U);
  for (const auto& [name, layer] : layers) {
    for (const auto& used : layer.allowed) {
      if (used == "*") continue;
      ASSERT_TRUE(layers.contains(used)) << name << " may use " << used << ", which has no row";
      EXPECT_LE(layers.at(used).number, layer.number) << name << " may use " << used;
      EXPECT_TRUE(layer.torch || !layers.at(used).torch) << name << " is torch-free but may use " << used;
    }
  }
}

// The check itself must be able to fail.
TEST(Architecture, ForbiddenIncludesAreFound) {
  const Layers layers = read_layers();
  EXPECT_THAT(objection(layers, "plan", "torch/torch.h"), HasSubstr("torch line"));
  EXPECT_THAT(objection(layers, "cluster", "yoke/plan/plan.h"), HasSubstr("may not use plan"));
  EXPECT_THAT(objection(layers, "plan", "yoke/sim/sim.h"), HasSubstr("may not use sim"));
  EXPECT_THAT(objection(layers, "plan", "yoke/nowhere/x.h"), HasSubstr("no layer"));
  EXPECT_EQ(objection(layers, "plan", "yoke/cluster/cluster.h"), "");
  EXPECT_EQ(objection(layers, "cli", "yoke/plan/plan.h"), "");
  EXPECT_EQ(objection(layers, "engine", "torch/torch.h"), "");
  const auto includes = includes_of("#include <a/b.h>\n\n  #include \"yoke/x.h\"  // why\n");
  ASSERT_EQ(includes.size(), 2U);
  EXPECT_EQ(includes[1].target, "yoke/x.h");
  EXPECT_EQ(includes[1].line, 3);
}

}  // namespace
}  // namespace yoke
