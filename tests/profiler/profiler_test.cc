#include "yoke/profiler/profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <limits>

#include "tests/support/files.h"
#include "yoke/models/model.h"
#include "yoke/profile/jabas/profile_files.h"
#include "yoke/profile/pipedream/graph_text.h"
#include "yoke/profile/profile_folder.h"
#include "yoke/tensor/memory.h"

namespace yoke::profiler {
namespace {

using ::testing::HasSubstr;
using yoke::testing::read_text;
using yoke::testing::TempFolder;

constexpr std::int64_t kPlenty = std::int64_t{1} << 40;

Subject subject_of(const std::string& model) {
  Subject subject;
  subject.job.model.name = model;
  subject.job.data = {.name = "synthetic", .shape = {1, 28, 28}, .classes = 10};
  subject.job.batch.global = 1;
  subject.device = {.id = {"here", 0}, .type = "cpu", .memory_bytes = kPlenty, .threads = 1};
  return subject;
}

/// Trials that answer by a number, and neighbours that only count.
struct FakeHelpers final : Helpers {
  base::Result<Trial> try_steps(const Subject&, int, int vsw, std::int64_t) override {
    ++trials;
    return Trial{.fits = vsw <= capacity};
  }
  base::Result<std::shared_ptr<void>> keep_company(const Subject&, int) override {
    ++companies;
    return std::shared_ptr<void>(&present, [this](void*) { present = false; });
  }
  int companies = 0;
  bool present = true;
  int capacity = 4;
  int trials = 0;
};

struct Watcher final : Observer {
  void on_progress(int done, int total, const std::string& next) override {
    EXPECT_LE(done, total);
    if (!next.empty()) steps.push_back(next);
  }
  void on_note(const std::string& note) override { notes.push_back(note); }
  bool stop_requested() override { return static_cast<int>(steps.size()) >= stop_after; }
  std::vector<std::string> steps;
  std::vector<std::string> notes;
  int stop_after = std::numeric_limits<int>::max();
};

class Profiler : public ::testing::Test {
 protected:
  Request request(std::set<Part> parts, const std::string& model = "small_cnn") const {
    return {.subject = subject_of(model),
            .parts = std::move(parts),
            .out = folder_.file("out"),
            .lbs = {2, 4},
            .most_vsw = 8,
            .compute_vsw = 2,
            .budget = std::chrono::seconds(20)};  // steps are short: enough for all visits
  }
  base::Result<Report> run(const Request& request) {
    watcher_.steps.clear();
    return measure(request, helpers_, watcher_, clock_);
  }

  const base::SystemClock clock_{};
  TempFolder folder_;
  FakeHelpers helpers_;
  Watcher watcher_;
};

const std::set<Part> kEverything{Part::kMemory, Part::kCompute, Part::kLayers, Part::kBuckets};

TEST_F(Profiler, MeasuresEverythingAndKeepsIt) {
  const auto report = run(request(kEverything));
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  EXPECT_EQ(report->model, "small_cnn");
  EXPECT_EQ(report->measured, 1 + 2 + 4 + 2);
  EXPECT_EQ(report->kept, 0);
  EXPECT_EQ(helpers_.companies, 1) << "times and layers share it";
  ASSERT_EQ(report->node.by_lbs.size(), 2U);
  for (const auto& [lbs, measured] : report->node.by_lbs) {
    EXPECT_EQ(measured.max_vsw, 4) << "what the trials say, whatever was foretold";
    ASSERT_TRUE(measured.memory);
    EXPECT_TRUE(measured.memory->verified);
    EXPECT_EQ(measured.memory->weights, measured.memory->gradients);
    EXPECT_GT(measured.memory->worker, 0);
    ASSERT_EQ(measured.compute.size(), 2U);
    for (const auto& sample : measured.compute) {
      ASSERT_TRUE(sample.round_ms && sample.confidence);
      EXPECT_GE(sample.confidence->count, 3);
      EXPECT_LE(*sample.round_ms, sample.total_ms);
      EXPECT_NEAR(sample.data_ms + sample.forward_ms + sample.backward_ms, *sample.round_ms, 1e-6);
      EXPECT_EQ(sample.copy_ms, 0) << "workers share their weights";
    }
  }

  const std::string out = folder_.file("out");
  const auto saved = profile::load_profiles(out);
  ASSERT_TRUE(saved.ok()) << saved.error().to_string();
  EXPECT_EQ(saved->nodes.front(), report->node);
  EXPECT_EQ(saved->buckets, report->buckets);
  const std::string memory = out + "/memory_profile_data/2/here/max_memory_profile_info.json";
  const auto jabas = profile::jabas::parse_memory_file(read_text(memory), memory);
  ASSERT_TRUE(jabas.ok()) << jabas.error().to_string();
  EXPECT_EQ(jabas->max_vsw, 4);
  for (const char* name : {"buckets.svg", "layers.json", "layers/here/4/times.svg", "layers/here/4/activations.svg",
                           "layers/here/4/parameters.svg"}) {
    EXPECT_GT(read_text(out + "/" + name).size(), 100U) << name;
  }
  const auto graph = profile::pipedream::load_graph_text(out + "/layers/here/4/graph.txt");
  ASSERT_TRUE(graph.ok()) << graph.error().to_string();
  EXPECT_EQ(graph->size(), report->layers.at(4).size());
  const auto layers = profile::load_layers(out);
  ASSERT_TRUE(layers.ok()) << layers.error().to_string();
  EXPECT_EQ(layers->lbs(), 2) << "the first of those measured";
  for (const auto& layer : layers->layers()) EXPECT_EQ(layer.update_ms > 0, layer.parameter_bytes > 0) << layer.id;

  const auto second = run(request(kEverything));
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->kept, 2 + 4 + 2);
  EXPECT_EQ(second->measured, 1) << "buckets cost nothing";
  EXPECT_EQ(helpers_.companies, 1) << "nothing was timed";
  EXPECT_EQ(second->node, report->node);
  Request again = request({Part::kCompute});
  again.again = true;
  const auto third = run(again);
  ASSERT_TRUE(third.ok());
  EXPECT_EQ(third->measured, 4);
  EXPECT_NE(third->node, report->node) << "no two measurements are alike";
}

TEST_F(Profiler, InterruptedItGoesOnWhereItWas) {
  watcher_.stop_after = 4 + 4 + 2;  // four numbers twice, and two of them the third time
  const auto first = run(request({Part::kCompute}));
  ASSERT_TRUE(first.ok()) << first.error().to_string();
  EXPECT_TRUE(first->interrupted);
  EXPECT_EQ(first->measured, 2);
  const auto left = profile::load_profiles(folder_.file("out"));
  ASSERT_TRUE(left.ok()) << left.error().to_string();
  const auto visits_of = [](const profile::NodeProfile& node, int lbs) {
    std::vector<int> visits;
    for (const auto& sample : node.by_lbs.at(lbs).compute) visits.push_back(*sample.confidence->visits);
    return visits;
  };
  EXPECT_EQ(visits_of(left->nodes.front(), 2), (std::vector{3, 3}));
  EXPECT_EQ(visits_of(left->nodes.front(), 4), (std::vector{2, 2}));
  watcher_.stop_after = std::numeric_limits<int>::max();
  const auto second = run(request({Part::kCompute}));
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE(second->interrupted);
  EXPECT_EQ(second->kept, 2);
  EXPECT_EQ(second->measured, 2) << "what was measured at fewer moments than the others";
  EXPECT_EQ(second->node.by_lbs.at(2), left->nodes.front().by_lbs.at(2));
  EXPECT_THAT(visits_of(second->node, 4), ::testing::Each(::testing::Ge(3)));
}

TEST_F(Profiler, LayersAreMeasuredAtMomentsApartAndInCompany) {
  const auto report = run(request({Part::kLayers}));
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  ASSERT_GE(watcher_.steps.size(), 6U);
  watcher_.steps.resize(6);  // more where these do not agree
  EXPECT_THAT(watcher_.steps, ::testing::ElementsAre("layers with 2 samples", "layers with 4 samples",
                                                     "layers with 2 samples, again", "layers with 4 samples, again",
                                                     "layers with 2 samples, again", "layers with 4 samples, again"));
  EXPECT_EQ(helpers_.companies, 1);
  EXPECT_FALSE(helpers_.present) << "it is sent away";
  int noisy = 0;
  for (const auto& [lbs, graph] : report->layers) {
    ASSERT_TRUE(graph.confidence());
    EXPECT_GE(graph.confidence()->visits, 3);
    EXPECT_GE(graph.confidence()->count, 3 * 5);
    EXPECT_EQ(graph.confidence()->noisy, graph.confidence()->spread > 0.05);
    if (graph.confidence()->noisy) ++noisy;
    const auto saved = profile::load_layers(folder_.file("out/layers/here/") + std::to_string(lbs));
    ASSERT_TRUE(saved.ok()) << saved.error().to_string();
    EXPECT_EQ(*saved, graph);
  }
  EXPECT_EQ(std::ranges::count_if(watcher_.notes, [](const auto& note) { return note.starts_with("layers with"); }),
            noisy);
}

TEST_F(Profiler, InterruptedLayersGoOn) {
  watcher_.stop_after = 2 + 2 + 1;  // two sizes twice, and one of them the third time
  const auto first = run(request({Part::kLayers}));
  ASSERT_TRUE(first.ok()) << first.error().to_string();
  EXPECT_TRUE(first->interrupted);
  EXPECT_EQ(first->measured, 1);
  watcher_.stop_after = std::numeric_limits<int>::max();
  const auto second = run(request({Part::kLayers}));
  ASSERT_TRUE(second.ok()) << second.error().to_string();
  EXPECT_EQ(second->kept, 1);
  EXPECT_EQ(second->measured, 1);
  EXPECT_EQ(second->layers.at(2), first->layers.at(2));
  EXPECT_GE(second->layers.at(4).confidence()->visits, 3);
}

TEST_F(Profiler, ABudgetThatIsTooShortMeasuresEveryNumberOnceAndSaysSo) {
  Request hasty = request(kEverything);
  hasty.compute_vsw = 4;
  hasty.budget = std::chrono::nanoseconds(1);
  helpers_.capacity = 100;
  const auto report = run(hasty);
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  EXPECT_EQ(helpers_.trials, 0) << "they have room to spare";
  EXPECT_EQ(report->measured, 1 + 2 + 4 + 2);
  for (const int lbs : {2, 4}) {
    const auto& measured = report->node.by_lbs.at(lbs);
    EXPECT_EQ(measured.max_vsw, 8);
    EXPECT_TRUE(measured.memory->capped && !measured.memory->verified);
    EXPECT_EQ(measured.memory->passes, 0) << "one worker alone tells what each takes at most";
    ASSERT_EQ(measured.compute.size(), 2U) << "half of the workers is left out";
    EXPECT_EQ(measured.compute.back().vsw, 4);
    std::vector<profile::Confidence> found{*report->layers.at(lbs).confidence()};
    for (const auto& sample : measured.compute) found.push_back(*sample.confidence);
    for (const auto& confidence : found) {
      EXPECT_EQ(confidence, (profile::Confidence{.spread = 1, .count = 1, .noisy = true, .visits = 1}));
    }
  }
  EXPECT_THAT(watcher_.notes,
              ::testing::ElementsAre(
                  HasSubstr("lbs 2: 8 workers are foretold"), HasSubstr("lbs 4: 8 workers are foretold"),
                  HasSubstr("too short for half of the workers"), HasSubstr("to measure every time once takes about"),
                  HasSubstr("1 x 2 samples, 4 x 2 samples, 1 x 4 samples, 4 x 4 samples; those of fewer"),
                  HasSubstr("layers with 2 samples, layers with 4 samples; those of fewer")));
  const auto better = run([&] {
    Request patient = request({Part::kCompute, Part::kLayers});
    patient.compute_vsw = 4;
    return patient;
  }());
  ASSERT_TRUE(better.ok()) << better.error().to_string();
  EXPECT_EQ(better->kept, 0) << "the same command measures them again";
  EXPECT_EQ(better->measured, 6 + 2) << "half of the workers too";
}

TEST_F(Profiler, WithoutRoomToSpareMemoryIsTriedHoweverShortTheBudget) {
  Request hasty = request({Part::kMemory});
  hasty.lbs = {256};  // so that activations count, not the model
  const auto roomy = run(hasty);
  ASSERT_TRUE(roomy.ok()) << roomy.error().to_string();
  const auto& parts = *roomy->node.by_lbs.at(256).memory;
  hasty.again = true;
  hasty.budget = std::chrono::nanoseconds(1);
  hasty.subject.device.memory_bytes = std::max(parts.building, parts.weights + parts.gradients + parts.optimizer +
                                                                   parts.buffers + 4 * (parts.passes + parts.worker));
  helpers_.trials = 0;
  ASSERT_TRUE(run(hasty).ok());
  EXPECT_GT(helpers_.trials, 0);
}

TEST_F(Profiler, FoldersOfAnotherSubjectAreRefused) {
  ASSERT_TRUE(run(request({Part::kBuckets})).ok());
  const auto expect = [&](const Request& other, const std::string& part) {
    const auto refused = run(other);
    ASSERT_FALSE(refused.ok()) << part;
    EXPECT_EQ(refused.error().kind, base::ErrorKind::kInput);
    EXPECT_THAT(refused.error().to_string(), HasSubstr(part));
  };
  expect(request({Part::kBuckets}, "mlp"), "found a profile of the model `small_cnn`, expected `mlp`");
  Request other = request({Part::kBuckets});
  other.subject.device.type = "gpu";
  expect(other, "found a profile of the device_type `cpu`, expected `gpu`");
  other = request({Part::kBuckets});
  other.subject.device.threads = 2;
  expect(other, "2 threads");
  other.again = true;
  EXPECT_TRUE(run(other).ok());
  other = request({Part::kBuckets});
  other.out = folder_.write("file", "") + "/out";
  expect(other, folder_.file("file"));
}

TEST_F(Profiler, WhatFitsNoWorkerIsInfeasibleAndNoted) {
  Request small = request({Part::kMemory, Part::kCompute});
  const auto roomy = run(small);
  ASSERT_TRUE(roomy.ok());
  const auto& parts = *roomy->node.by_lbs.at(4).memory;
  const std::int64_t state = parts.weights + parts.gradients + parts.optimizer + parts.buffers;
  small.subject.device.memory_bytes = state + parts.worker / 4;
  small.lbs = {64};
  const auto refused = run(small);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, base::ErrorKind::kInfeasible) << refused.error().to_string();
  EXPECT_THAT(refused.error().to_string(), HasSubstr("not one worker of 64 samples fits"));
  EXPECT_EQ(profile::load_profiles(small.out)->nodes.front().by_lbs.at(64).max_vsw, 0);
}

TEST_F(Profiler, MemoryIsVerifiedOnlyWhereOneMoreWasRefused) {
  const auto memory = [&](int capacity) {
    Request again = request({Part::kMemory});
    again.again = true;
    again.lbs = {2};
    helpers_.capacity = capacity;
    const auto report = run(again);
    EXPECT_TRUE(report.ok() || capacity == 0) << report.error().to_string();
    return profile::load_profiles(again.out)->nodes.front().by_lbs.at(2);
  };
  EXPECT_TRUE(memory(1).memory->verified);
  const auto capped = memory(100);
  EXPECT_EQ(capped.max_vsw, 8);
  EXPECT_TRUE(capped.memory->capped);
  EXPECT_FALSE(capped.memory->verified);
  const auto none = memory(0);
  EXPECT_EQ(none.max_vsw, 0) << "one was foretold, and refused in a process of its own";
  EXPECT_FALSE(none.memory->verified);
}

TEST_F(Profiler, TheLargestLocalBatchIsSearchedFor) {
  Request search = request({Part::kMemory});
  search.lbs = {2};
  search.search_up_to = 1000;
  const auto probe = run(request({Part::kMemory}));
  ASSERT_TRUE(probe.ok());
  const auto& two = *probe->node.by_lbs.at(2).memory;
  const auto& four = *probe->node.by_lbs.at(4).memory;
  // Memory for about eleven samples: sizes are 2, 4, 8, then 16 is too many and the space between is searched.
  const std::int64_t state = two.weights + two.gradients + two.optimizer + two.buffers + two.passes;
  const std::int64_t sample = (four.worker - two.worker) / 2;
  search.subject.device.memory_bytes = std::max(two.building, state + two.worker + 9 * sample);
  helpers_.capacity = 1;
  const auto report = run(search);
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  std::map<int, int> found;
  for (const auto& [lbs, measured] : report->node.by_lbs) found[lbs] = *measured.max_vsw;
  EXPECT_EQ(found.at(8), 1);
  int largest = 0, refused = 0;
  for (const auto& [lbs, vsw] : found) {
    if (vsw > 0) largest = lbs;
    if (vsw == 0 && refused == 0) refused = lbs;
  }
  EXPECT_EQ(refused - largest, 2) << "down to steps of the first size";
  EXPECT_LE(found.size(), 14U);
}

TEST_F(Profiler, AFewWorkersForetellMany) {
  constexpr int kLbs = 64;  // activations outweigh the gradients on their way to the sum, of which there may be several
  Request large = request({Part::kMemory});
  large.lbs = {kLbs};
  const auto report = run(large);
  ASSERT_TRUE(report.ok());
  const auto& parts = *report->node.by_lbs.at(kLbs).memory;
  const std::int64_t state = parts.weights + parts.gradients + parts.optimizer + parts.buffers;
  const auto before = tensor::cpu_memory().bytes;
  for (const int vsw : {1, 3}) {
    const auto trial = try_steps(subject_of("small_cnn"), kLbs, vsw, kPlenty, clock_);
    ASSERT_TRUE(trial.ok() && trial->fits);
    const auto peak = trial->peak_bytes - before;
    EXPECT_NEAR(static_cast<double>(peak),
                static_cast<double>(std::max(parts.building, state + parts.passes + vsw * parts.worker)),
                0.15 * static_cast<double>(peak))
        << vsw;
  }
  const auto refused =
      try_steps(subject_of("small_cnn"), kLbs, 3, before + state + parts.passes + 2 * parts.worker, clock_);
  tensor::limit_cpu_memory(std::numeric_limits<std::int64_t>::max());
  ASSERT_TRUE(refused.ok()) << refused.error().to_string();
  EXPECT_FALSE(refused->fits);
}

/// Goes forward, and throws on the way back.
struct OneWay : torch::autograd::Function<OneWay> {
  static torch::Tensor forward(torch::autograd::AutogradContext*, const torch::Tensor& x) { return x.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    throw std::runtime_error("there is no way back");
  }
};
struct OneWayBlock final : models::Block {
  void forward(models::Flow& flow, const models::Pass&) override { flow.set("x", OneWay::apply(flow.take("x"))); }
};
struct LinearBlock final : models::Block {
  LinearBlock() : linear(register_module("linear", torch::nn::Linear(28 * 28, 10))) {}
  void forward(models::Flow& flow, const models::Pass&) override {
    flow.set("x", linear->forward(flow.take("x").flatten(1)));
  }
  torch::nn::Linear linear;
};

TEST_F(Profiler, AModelThatFailsInBackwardIsBlamedOnItsBlock) {
  static const auto registered = models::register_model(
      {.name = "one_way", .summary = "", .make = [](const models::ModelOptions&) -> base::Result<models::Architecture> {
         models::Architecture model{.name = "one_way", .blocks = {}, .loss = models::cross_entropy};
         model.blocks.push_back(
             {.name = "first", .prefix = "first", .make = [] { return std::make_shared<LinearBlock>(); }});
         model.blocks.push_back(
             {.name = "trap", .prefix = "trap", .make = [] { return std::make_shared<OneWayBlock>(); }});
         return model;
       }});
  ASSERT_TRUE(registered.ok());
  for (const Part part : {Part::kMemory, Part::kCompute, Part::kLayers}) {
    const auto failed = run(request({part}, "one_way"));
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().kind, base::ErrorKind::kInput);
    EXPECT_THAT(failed.error().message, HasSubstr("block `trap` fails in its backward pass"));
    EXPECT_THAT(failed.error().message, HasSubstr("there is no way back"));
  }
}

TEST_F(Profiler, LayersAddUpToTheModel) {
  const auto report = run(request({Part::kLayers, Part::kBuckets}));
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  const auto& graph = report->layers.at(4);
  double parameters = 0, gradients = 0;
  for (const auto& layer : graph.layers()) {
    parameters += layer.parameter_bytes;
    EXPECT_GT(layer.forward_ms, 0) << layer.id;
    EXPECT_GT(layer.backward_ms, 0) << layer.id;
  }
  for (const double size : report->buckets.mebibytes) gradients += size * (1 << 20);
  EXPECT_NEAR(parameters, gradients, 1);
  EXPECT_EQ(graph.edges().size() + 1, graph.layers().size()) << "a chain";
  EXPECT_EQ(graph.layers().back().activation_bytes(), 4 * 10 * 4) << "4 samples, 10 classes, 4 bytes";
  EXPECT_EQ(report->layers.at(2).layers().front().activation_bytes() * 2, graph.layers().front().activation_bytes());
}

TEST_F(Profiler, BucketsComeWithAReason) {
  const auto report = run(request({Part::kBuckets}));
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->sync, "overlap");
  EXPECT_THAT(report->sync_reason, HasSubstr("bucket"));
}

}  // namespace
}  // namespace yoke::profiler
