// One rank of Yoke's side of bench/engine/ddp.py: trains a model on synthetic data and prints the seconds of each step.
//   bench_ddp_rank model=resnet18 batch=8 shape=3,64,64 classes=10 rank=0 size=2 store=HOST:PORT steps=20 threads=1
// Rank 0 without `store` serves one and prints its address first. The last line is a JSON object.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <sstream>

#include "yoke/comm/join.h"
#include "yoke/comm/store/tcp_store.h"
#include "yoke/engine/trainer.h"
#include "yoke/tensor/memory.h"

namespace {

using namespace yoke;

int fail(const base::Error& error) {
  std::cerr << error.to_string() << "\n";
  return 1;
}

int run(std::map<std::string, std::string>& args) {
  const base::SystemClock clock;
  const auto patience = base::Deadline::in(std::chrono::minutes(2), clock);
  const int rank = std::atoi(args["rank"].c_str());
  const int size = std::atoi(args["size"].c_str());
  const int batch = std::atoi(args["batch"].c_str());
  tensor::use_metered_cpu_memory();

  std::unique_ptr<comm::TcpStoreServer> server;
  std::string address = args["store"];
  if (address.empty()) {
    auto started = comm::TcpStoreServer::start("127.0.0.1");
    if (!started.ok()) return fail(started.error());
    server = *std::move(started);
    address = fmt::format("127.0.0.1:{}", server->port());
    std::cout << address << std::endl;
  }
  auto connected = comm::connect_tcp_store(address, patience, clock);
  if (!connected.ok()) return fail(connected.error());
  std::unique_ptr<comm::Store> store = *std::move(connected);
  auto group = comm::join({.name = "bench", .rank = rank, .size = size}, *store, patience, clock);
  if (!group.ok()) return fail(group.error());

  std::vector<std::int64_t> shape;
  std::istringstream text(args["shape"]);
  for (std::string part; std::getline(text, part, ',');) shape.push_back(std::atoll(part.c_str()));
  const std::int64_t classes = std::atoll(args["classes"].c_str());
  const auto dataset = data::open_dataset({.name = "synthetic", .limit = 1024, .shape = shape, .classes = classes});
  if (!dataset.ok()) return fail(dataset.error());
  auto architecture = models::make_model(args["model"], {.classes = classes, .input_shape = shape});
  if (!architecture.ok()) return fail(architecture.error());

  plan::Job job;
  job.optimizer = {.lr = 0.01, .momentum = 0.9, .weight_decay = 1e-4};
  job.epochs = 1'000'000;
  job.reproducible = args["reproducible"] == "1";
  const auto device = tensor::make_cpu_device(std::atoi(args["threads"].c_str()));
  auto trainer = engine::Trainer::make(
      {.job = job, .architecture = *architecture, .train = dataset->get(), .device = device.get()}, clock);
  if (!trainer.ok()) return fail(trainer.error());

  plan::Plan plan{.model = args["model"], .gbs = batch * size, .lbs = batch};
  plan.sync = args["sync"] == "sequential" ? plan::Sync::kSequential : plan::Sync::kOverlap;
  std::vector<cluster::DeviceId> devices;
  for (int i = 0; i < size; ++i) {
    devices.push_back({.node = "bench", .index = i});
    plan.data_lanes.push_back({.device = devices.back()});
  }
  if (const auto ready = (*trainer)->configure(plan, *std::move(group), devices); !ready.ok()) {
    return fail(ready.error());
  }
  std::vector<double> seconds;
  double loss = 0;
  for (int step = 0; step < std::atoi(args["steps"].c_str()); ++step) {
    const auto report = (*trainer)->step();
    if (!report.ok()) return fail(report.error());
    seconds.push_back(report->step_seconds);
    loss = report->loss;
  }
  std::cout << fmt::format(R"({{"seconds":[{:.6f}],"loss":{:.6f}}})", fmt::join(seconds, ","), loss) << std::endl;
  const auto closed = (*trainer)->group().close();
  store.reset();
  if (server) server->drain(base::Deadline::in(std::chrono::seconds(3), clock));
  return closed.ok() ? 0 : fail(closed.error());
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> args{{"rank", "0"},     {"size", "1"},   {"batch", "8"},
                                          {"classes", "10"}, {"steps", "10"}, {"threads", "1"}};
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const auto equals = arg.find('=');
    if (equals == std::string::npos) {
      std::cerr << "bench_ddp_rank: expected key=value, found " << arg << "\n";
      return 2;
    }
    args[arg.substr(0, equals)] = arg.substr(equals + 1);
  }
  return run(args);
}
