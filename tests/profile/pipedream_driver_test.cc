#include "yoke/profile/pipedream/driver.h"

#include "tests/support/files.h"
#include "tests/support/paths.h"

namespace yoke::profile::pipedream {
namespace {

using ::testing::ElementsAre;
using yoke::testing::expect_input_error;

const std::string kSample = std::string(yoke::testing::kSourceDir) + "/tests/profile/data/driver.yml";

const std::string kRequired =
    "log_directory: out\nmodule: m\ndata_dir: d\ncontainer: c\nmodel_type: translation\ndistributed_backend: gloo\n";

TEST(PipedreamDriver, GoldenSampleIsReadAndWritten) {
  const auto imported = parse_driver(yoke::testing::read_text(kSample), "driver.yml");
  ASSERT_TRUE(imported.ok()) << imported.error().to_string();
  const Driver& driver = imported->driver;
  EXPECT_EQ(driver.module, "models.tiny.gpus=3");
  EXPECT_THAT(driver.machines, ElementsAre(Machine{"east", 0}, Machine{"east", 1}, Machine{"fe80::1", 2}));
  EXPECT_EQ(driver.config_file, "models/tiny/conf.json");
  EXPECT_EQ(driver.batch_size, 64);
  EXPECT_EQ(driver.learning_rate, 0.0003);
  EXPECT_EQ(driver.learning_rate_policy, "polynomial");
  EXPECT_EQ(driver.weight_decay, 0);
  EXPECT_EQ(driver.epochs, 10);
  EXPECT_EQ(driver.print_frequency, 100);
  EXPECT_EQ(driver.verbose_frequency, 50);
  EXPECT_EQ(driver.no_input_pipelining, true);
  EXPECT_EQ(driver.lr_warmup, false);
  EXPECT_EQ(driver.synthetic_data, true);
  EXPECT_EQ(driver.recompute, false);
  EXPECT_EQ(driver.macrobatch, std::nullopt);
  EXPECT_EQ(driver.model_type, "translation");
  EXPECT_EQ(driver.distributed_backend, "gloo");
  EXPECT_THAT(imported->ignored, ElementsAre("driver.yml: `compress_activations`", "driver.yml: `compress_in_gpu`"));
  const auto again = parse_driver(to_driver_yaml(driver), "again");
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(again->driver, driver);
}

TEST(PipedreamDriver, OddTextsSurvive) {
  Driver driver{"it's", "1", "true", "a: b # c", {{"h", 0}}, "", " x "};
  const auto again = parse_driver(to_driver_yaml(driver), "again");
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(again->driver, driver);
}

TEST(PipedreamDriver, BadInputIsOneErrorWithItsPlace) {
  const auto parse = [](const std::string& more) { return parse_driver(kRequired + more, "d.yml"); };
  ASSERT_TRUE(parse("machines: ['a:0']").ok());
  expect_input_error(parse(""), "required key `machines` is missing");
  expect_input_error(parse("machines: []"), "d.yml:7: machines: found no machine");
  expect_input_error(parse("machines: a:0"), "d.yml:7: machines: found the text `a:0`, expected a list");
  for (const std::string& machine :
       std::vector<std::string>{"a", "a:", ":0", "a:x", "a:-1", "a b:0", "a:0.5", "a:99999999"}) {
    expect_input_error(parse("machines: ['" + machine + "']"), "d.yml:7: machines[0]: found `" + machine + "`");
  }
  expect_input_error(parse("machines: ['a:0', 'a:0']"), "d.yml:7: machines[1]: the machine `a:0` is given twice");
  expect_input_error(parse("machines: ['a:0']\nbatch_size: 0"), "d.yml:8: batch_size: found `0`");
  expect_input_error(parse("machines: ['a:0']\nlearning_rate: .nan"), "d.yml:8: learning_rate: found the text `.nan`");
  expect_input_error(parse("machines: ['a:0']\nlearning_rate: -1"), "d.yml:8: learning_rate: found `-1`");
  expect_input_error(parse("machines: ['a:0']\nmacrobatch: 1"),
                     "d.yml:8: macrobatch: found `1`, expected true or false");
  expect_input_error(parse("machines: ['a:0']\nconfig_file: \"a\\nb\""), "d.yml:8: config_file: found `a\\x0ab`");
  expect_input_error(parse("machines: ['a:0'"), "d.yml:");
  expect_input_error(parse("module: twice"), "d.yml:7: the key `module` is given twice");
  expect_input_error(parse_driver("", "d.yml"), "d.yml: the file is empty");
  expect_input_error(parse_driver("- 1", "d.yml"), "d.yml:1: found a list of 1, expected a map");
}

}  // namespace
}  // namespace yoke::profile::pipedream
