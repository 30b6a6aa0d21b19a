// What a job names, made: the device it computes on, its data sets and its model. For a rank and for a profiler, so
// that what is profiled is what trains.
#pragma once

#include <memory>
#include <optional>

#include "yoke/base/result.h"
#include "yoke/data/dataset.h"
#include "yoke/engine/rank.h"
#include "yoke/models/model.h"
#include "yoke/plan/job.h"
#include "yoke/tensor/device.h"

namespace yoke::engine {

/// Which of the machine's `available` CUDA devices it computes on. Absent: on the cores, as processors do whatever else
/// the machine has (cluster/device_type.h), and other devices where there is no such CUDA device, which they emulate.
std::optional<int> cuda_index(const DeviceSpec& device, int available);

/// From now on tensors of this process are metered. Input error for a precision that the device has not.
base::Result<std::unique_ptr<tensor::Device>> make_device(const plan::Job& job, const DeviceSpec& device);

base::Result<std::unique_ptr<data::Dataset>> open_data(const plan::DataSpec& spec, data::Split split);
/// Null when the data set has no test split; an error when it has one that is of no use.
base::Result<std::unique_ptr<data::Dataset>> open_test_data(const plan::DataSpec& spec);

/// The model for samples of this data set. Input error when it has fewer classes.
base::Result<models::Architecture> make_architecture(const plan::ModelSpec& model, const data::DatasetInfo& info);

}  // namespace yoke::engine
