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

constexpr const char* kTraining = R"(
model: {name: torchscript, path: net.pt, weights: start.safetensors, dropout: 0.25}
data: {name: synthetic, shape: [3, 32, 32], classes: 7, image: 96, resize: 112, corrupt: skip, threads: 3}
batch: {global: 64}
optimizer: {name: adamw, lr: 0.01, betas: [0.8, 0.95], eps: 1.0e-6, decay_all: true, clip_value: 0.5}
lr: {policy: polynomial, power: 2, end: 1.0e-4, warmup_steps: 20, warmup_from: 0.25}
label_smoothing: 0.1
precision: fp16
)";

base::Error error_of(const std::string& yaml) {
  const auto job = parse_job(yaml, "job.yaml");
  return job.ok() ? base::Error{base::ErrorKind::kInternal, "no error"} : job.error();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

std::string with(const std::string& from, const std::string& to) {
  return replaced(kFull, from, to);
}

std::string training_with(const std::string& from, const std::string& to) {
  return replaced(kTraining, from, to);
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

TEST(Job, ReadsEveryKeyOfTraining) {
  const auto job = parse_job(kTraining, "job.yaml");
  ASSERT_TRUE(job.ok()) << job.error().to_string();
  EXPECT_EQ(job->model.path, "net.pt");
  EXPECT_EQ(job->model.weights, "start.safetensors");
  EXPECT_EQ(job->model.dropout, 0.25);
  EXPECT_THAT(job->data.shape, ElementsAre(3, 32, 32));
  EXPECT_EQ(job->data.classes, 7);
  EXPECT_EQ(job->data.image, 96);
  EXPECT_EQ(job->data.resize, 112);
  EXPECT_EQ(job->data.corrupt, CorruptPolicy::kSkip);
  EXPECT_EQ(job->data.threads, 3);
  EXPECT_EQ(job->optimizer.name, OptimizerName::kAdamW);
  EXPECT_DOUBLE_EQ(job->optimizer.beta1, 0.8);
  EXPECT_DOUBLE_EQ(job->optimizer.beta2, 0.95);
  EXPECT_DOUBLE_EQ(job->optimizer.eps, 1e-6);
  EXPECT_TRUE(job->optimizer.decay_all);
  EXPECT_DOUBLE_EQ(job->optimizer.clip_value, 0.5);
  EXPECT_EQ(job->lr.policy, LrPolicy::kPolynomial);
  EXPECT_DOUBLE_EQ(job->lr.power, 2);
  EXPECT_DOUBLE_EQ(job->lr.end, 1e-4);
  EXPECT_DOUBLE_EQ(job->lr.warmup_from, 0.25);
  EXPECT_DOUBLE_EQ(job->label_smoothing, 0.1);
  EXPECT_EQ(job->precision, Precision::kFp16);

  const auto nesterov = parse_job(with("momentum: 0.9", "momentum: 0.9, nesterov: true"), "job.yaml");
  ASSERT_TRUE(nesterov.ok()) << nesterov.error().to_string();
  EXPECT_TRUE(nesterov->optimizer.nesterov);
  const auto every = parse_job(with("milestones: [30, 60, 80]", "every: 10"), "job.yaml");
  ASSERT_TRUE(every.ok()) << every.error().to_string();
  EXPECT_EQ(every->lr.every, 10);
  const auto multistep = parse_job(with("policy: step", "policy: multistep"), "job.yaml");
  ASSERT_TRUE(multistep.ok()) << multistep.error().to_string();
  EXPECT_EQ(multistep->lr.policy, LrPolicy::kMultistep);
  EXPECT_THAT(multistep->lr.milestones, ElementsAre(30, 60, 80));
}

TEST(Job, ShortJobsHaveDefaults) {
  const auto job = parse_job("model: {name: mlp}\ndata: {name: synthetic}\nbatch: {global: 64, local: 16}\n", "j");
  ASSERT_TRUE(job.ok()) << job.error().to_string();
  EXPECT_THAT(job->batch.local, ElementsAre(16));
  EXPECT_FALSE(job->batch.adapt.has_value());
  EXPECT_EQ(job->epochs, 1);
  EXPECT_EQ(job->checkpoint.keep, 3);
  EXPECT_EQ(job->optimizer, OptimizerSpec{});
  EXPECT_EQ(job->lr, LrSpec{});
  EXPECT_EQ(job->label_smoothing, 0);
  EXPECT_EQ(job->data, DataSpec{.name = "synthetic"});
}

/// Files written before `every` and `multistep` were there.
TEST(Job, OldFilesStayValid) {
  const auto old = parse_job(with("milestones: [30, 60, 80]", "milestones: []"), "job.yaml");
  ASSERT_TRUE(old.ok()) << old.error().to_string();
  EXPECT_EQ(old->lr.policy, LrPolicy::kStep);
  EXPECT_EQ(old->lr.every, 30);
}

TEST(Job, WritesWhatItReads) {
  for (const std::string& text :
       {std::string(kFull), std::string(kTraining), training_with("polynomial", "cosine"),
        training_with("policy: polynomial", "policy: step, every: 7"),
        with("momentum: 0.9", "momentum: 0.8, nesterov: true"), with("policy: step", "policy: multistep"),
        with("precision: fp32", "precision: bf16"),
        with("objective: time, unit: 4", "objective: cost, unit: 4, deadline: 8h"),
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
  EXPECT_THAT(error_of(training_with("path: net.pt, ", "")).to_string(),
              HasSubstr("job.yaml:2: model: found model `torchscript` without `path`"));
  EXPECT_THAT(error_of(training_with("image: 96", "image: 128")).to_string(), HasSubstr("image 128 above resize 112"));
  EXPECT_THAT(error_of(training_with("lr: 0.01", "lr: 0.01, nesterov: true")).to_string(),
              HasSubstr("job.yaml:5: optimizer: found nesterov with `adamw`"));
  EXPECT_THAT(error_of(with("momentum: 0.9", "momentum: 0, nesterov: true")).to_string(),
              HasSubstr("found nesterov with momentum 0"));
  EXPECT_THAT(error_of(with("step, milestones: [30, 60, 80]", "multistep")).to_string(),
              HasSubstr("job.yaml:7: lr: found policy `multistep` without milestones"));
  EXPECT_THAT(error_of(with("policy: step", "policy: cosine")).to_string(),
              HasSubstr("found milestones with policy `cosine`"));
  EXPECT_THAT(error_of(with("policy: step", "policy: step, every: 10")).to_string(),
              HasSubstr("found `every` and `milestones`"));
  EXPECT_THAT(error_of(training_with("end: 1.0e-4", "end: 0.5")).to_string(),
              HasSubstr("found end 0.5 above optimizer.lr 0.01"));
}

TEST(Job, RefusesBadValues) {
  EXPECT_THAT(error_of(with("lr: 0.1", "lr: -0.1")).to_string(),
              HasSubstr("optimizer.lr: found `-0.1`, expected a number > 0"));
  EXPECT_THAT(error_of(training_with("0.95]", "1]")).to_string(),
              HasSubstr("job.yaml:5: optimizer.betas[1]: found `1`, expected a number >= 0 and < 1"));
  EXPECT_THAT(error_of(training_with("[0.8, 0.95]", "[-0.1, 0.95]")).to_string(), HasSubstr("optimizer.betas[0]"));
  EXPECT_THAT(error_of(training_with("[0.8, 0.95]", "[0.8]")).to_string(), HasSubstr("found 1 values, expected two"));
  EXPECT_THAT(error_of(training_with("eps: 1.0e-6", "eps: 0")).to_string(), HasSubstr("optimizer.eps"));
  EXPECT_THAT(error_of(training_with("clip_value: 0.5", "clip_value: -1")).to_string(),
              HasSubstr("optimizer.clip_value"));
  EXPECT_THAT(error_of(training_with("smoothing: 0.1", "smoothing: 1")).to_string(),
              HasSubstr("label_smoothing: found `1`, expected a number >= 0 and < 1"));
  EXPECT_THAT(error_of(training_with("dropout: 0.25", "dropout: 1")).to_string(),
              HasSubstr("model.dropout: found `1`, expected a number >= 0 and < 1"));
  EXPECT_THAT(error_of(training_with("dropout: 0.25", "dropout: -1")).to_string(), HasSubstr("model.dropout"));
  EXPECT_THAT(error_of(training_with("warmup_from: 0.25", "warmup_from: 1.5")).to_string(),
              HasSubstr("lr.warmup_from: found `1.5`, expected a number from 0 to 1"));
  EXPECT_THAT(error_of(training_with("power: 2", "power: 0")).to_string(), HasSubstr("lr.power"));
  EXPECT_THAT(error_of(training_with("end: 1.0e-4", "end: -1")).to_string(), HasSubstr("lr.end"));
  EXPECT_THAT(error_of(with("milestones: [30, 60, 80]", "every: 0")).to_string(), HasSubstr("lr.every"));
  EXPECT_THAT(error_of(training_with("[3, 32, 32]", "[]")).to_string(), HasSubstr("data.shape: found an empty list"));
  EXPECT_THAT(error_of(training_with("[3, 32, 32]", "[3, 0]")).to_string(), HasSubstr("data.shape[1]"));
  EXPECT_THAT(error_of(training_with("corrupt: skip", "corrupt: skp")).message, HasSubstr("did you mean `skip`?"));
  EXPECT_THAT(error_of(training_with("threads: 3", "threads: 0")).to_string(), HasSubstr("data.threads"));
  EXPECT_THAT(error_of(with("epochs: 90", "epochs: ninety")).to_string(), HasSubstr("job.yaml:10: epochs"));
  EXPECT_THAT(error_of(with("global: 256", "global: .nan")).to_string(), HasSubstr("batch.global"));
  EXPECT_THAT(error_of(with("seed: 1", "seed: 1.5")).to_string(), HasSubstr("seed"));
  EXPECT_THAT(error_of("").to_string(), HasSubstr("empty"));
  EXPECT_THAT(error_of("[1, 2]").to_string(), HasSubstr("expected a map"));
  EXPECT_THAT(error_of("model: {name: x").to_string(), HasSubstr("job.yaml:"));
}

}  // namespace
}  // namespace yoke::plan
