#include "yoke/plan/job.h"

#include <gmock/gmock.h>

namespace yoke::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kFull = R"(
model: {name: resnet50, classes: 1000}
data: {name: imagenet, path: /data/imagenet}
batch: {global: 256, local: [32, 64], min: 256, max: 32768,
        adapt: {policy: similarity, target: 0.1, rate: 0.1, interval: 100, lr_rule: sqrt}}
optimizer: {name: sgd, lr: 0.1, momentum: 0.9, weight_decay: 1.0e-4, clip_norm: 0}
lr: {policy: step, milestones: [30, 60, 80], gamma: 0.1, warmup_steps: 0}
parallel: {mode: auto}
precision: fp32
epochs: 90
profiles: profiles/
checkpoint: {every_steps: 500, keep: 3}
scale: {objective: time, unit: 4}
reproducible: false
seed: 1
)";

base::Error error_of(const std::string& yaml) {
  const auto job = parse_job(yaml, "job.yaml");
  return job.ok() ? base::Error{base::ErrorKind::kInternal, "no error"} : job.error();
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = kFull;
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(Job, ReadsEveryKey) {
  const auto job = parse_job(kFull, "job.yaml");
  ASSERT_TRUE(job.ok()) << job.error().to_string();
  EXPECT_EQ(job->model.name, "resnet50");
  EXPECT_EQ(job->model.classes, 1000);
  EXPECT_THAT(job->batch.local, ElementsAre(32, 64));
  EXPECT_EQ(job->batch.max, 32768);
  EXPECT_EQ(job->batch.adapt->lr_rule, LrRule::kSqrt);
  EXPECT_DOUBLE_EQ(job->optimizer.weight_decay, 1e-4);
  EXPECT_EQ(job->lr.policy, LrPolicy::kStep);
  EXPECT_EQ(job->scale->unit, 4);
  EXPECT_EQ(job->profiles, "profiles/");
}

TEST(Job, ShortJobsHaveDefaults) {
  const auto job = parse_job("model: {name: mlp}\ndata: {name: synthetic}\nbatch: {global: 64, local: 16}\n", "j");
  ASSERT_TRUE(job.ok()) << job.error().to_string();
  EXPECT_THAT(job->batch.local, ElementsAre(16));
  EXPECT_FALSE(job->batch.adapt.has_value());
  EXPECT_EQ(job->epochs, 1);
  EXPECT_EQ(job->checkpoint.keep, 3);
}

TEST(Job, WritesWhatItReads) {
  for (const std::string& text :
       {std::string(kFull), with("objective: time, unit: 4", "objective: cost, unit: 4, deadline: 8h"),
        with("name: imagenet, path: /data/imagenet", "name: \"a: 'odd' #\\\\ name\", path: \"1e5\", limit: 5")}) {
    const auto job = parse_job(text, "job.yaml");
    ASSERT_TRUE(job.ok()) << job.error().to_string();
    const auto again = parse_job(to_yaml(*job), "again.yaml");
    ASSERT_TRUE(again.ok()) << again.error().to_string() << "\n" << to_yaml(*job);
    EXPECT_EQ(*again, *job);
  }
}

TEST(Job, NamesTheNearestKey) {
  const auto error = error_of(with("model:", "modle:"));
  EXPECT_EQ(error.kind, base::ErrorKind::kInput);
  EXPECT_THAT(error_of(with("epochs", "epoch")).to_string(),
              HasSubstr("job.yaml:10: unknown key `epoch`, did you mean `epochs`?"));
  EXPECT_THAT(error_of(with("momentum", "momentun")).to_string(),
              HasSubstr("job.yaml:6: optimizer: unknown key `momentun`, did you mean `momentum`?"));
  EXPECT_THAT(error_of(with("name: sgd", "name: sdg")).message, HasSubstr("did you mean `sgd`?"));
}

TEST(Job, RefusesContradictions) {
  EXPECT_THAT(error_of(with("min: 256", "min: 512")).to_string(), HasSubstr("min 512 above global 256"));
  EXPECT_THAT(error_of(with("max: 32768", "max: 8")).to_string(), HasSubstr("max 8 below global 256"));
  EXPECT_THAT(error_of(with("[32, 64]", "[32, 512]")).to_string(), HasSubstr("local 512 above global 256"));
  EXPECT_THAT(error_of(with("[30, 60, 80]", "[60, 30]")).to_string(), HasSubstr("job.yaml:7: lr.milestones"));
  EXPECT_THAT(error_of(with("objective: time", "objective: cost")).to_string(), HasSubstr("without `deadline`"));
}

TEST(Job, RefusesBadValues) {
  EXPECT_THAT(error_of(with("lr: 0.1", "lr: -0.1")).to_string(),
              HasSubstr("optimizer.lr: found `-0.1`, expected a number > 0"));
  EXPECT_THAT(error_of(with("epochs: 90", "epochs: ninety")).to_string(), HasSubstr("job.yaml:10: epochs"));
  EXPECT_THAT(error_of(with("global: 256", "global: .nan")).to_string(), HasSubstr("batch.global"));
  EXPECT_THAT(error_of(with("seed: 1", "seed: 1.5")).to_string(), HasSubstr("seed"));
  EXPECT_THAT(error_of("").to_string(), HasSubstr("empty"));
  EXPECT_THAT(error_of("[1, 2]").to_string(), HasSubstr("expected a map"));
  EXPECT_THAT(error_of("model: {name: x").to_string(), HasSubstr("job.yaml:"));
}

}  // namespace
}  // namespace yoke::plan
