#include "yoke/engine/job_parts.h"

#include <fmt/format.h>

#include "yoke/cluster/device_type.h"
#include "yoke/tensor/memory.h"

namespace yoke::engine {

std::optional<int> cuda_index(const DeviceSpec& device, int available) {
  if (cluster::is_processor(device.type) || device.id.index >= available) return std::nullopt;
  return device.id.index;
}

base::Result<std::unique_ptr<tensor::Device>> make_device(const plan::Job& job, const DeviceSpec& device) {
  tensor::use_metered_cpu_memory();
  const auto cuda = cuda_index(device, tensor::cuda_device_count());
  if (job.precision == plan::Precision::kFp16 && !cuda) {
    return base::input_error("precision fp16 needs a CUDA device; expected fp32 or bf16 on a CPU",
                             {.field = "precision"});
  }
  if (job.reproducible && cuda) {
    return base::input_error(
        "found true on a CUDA device, expected false: order-free sums are made for processors only",
        {.field = "reproducible"});
  }
  // The bits of a kernel's result may depend on its threads: with one they depend on nothing.
  return cuda ? tensor::make_cuda_device(*cuda) : tensor::make_cpu_device(job.reproducible ? 1 : device.threads);
}

namespace {

data::DatasetOptions dataset_options(const plan::DataSpec& spec, data::Split split) {
  return {.name = spec.name,
          .path = spec.path,
          .split = split,
          .limit = spec.limit,
          .shape = spec.shape,
          .classes = spec.classes,
          .image = spec.image,
          .resize = spec.resize,
          .corrupt = spec.corrupt == plan::CorruptPolicy::kSkip ? data::Corrupt::kSkip : data::Corrupt::kStop};
}

}  // namespace

base::Result<std::unique_ptr<data::Dataset>> open_data(const plan::DataSpec& spec, data::Split split) {
  return data::open_dataset(dataset_options(spec, split));
}

base::Result<std::unique_ptr<data::Dataset>> open_test_data(const plan::DataSpec& spec) {
  if (!data::has_split(dataset_options(spec, data::Split::kTest))) return std::unique_ptr<data::Dataset>();
  return open_data(spec, data::Split::kTest);
}

base::Result<models::Architecture> make_architecture(const plan::ModelSpec& model, const data::DatasetInfo& info) {
  const std::int64_t classes = model.classes.value_or(info.classes);
  if (classes < info.classes) {
    return base::input_error(fmt::format("the model has {} classes but the data set `{}` has {}; expected at least "
                                         "as many, or leave model.classes out",
                                         classes, info.name, info.classes),
                             {.field = "model.classes"});
  }
  return models::make_model(model.name, {.classes = classes,
                                         .input_shape = info.input_shape,
                                         .path = model.path,
                                         .time_scale = model.time_scale,
                                         .size_scale = model.size_scale,
                                         .dropout = model.dropout.value_or(-1)});
}

}  // namespace yoke::engine
