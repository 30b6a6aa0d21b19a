#include "yoke/engine/checkpoint/tensor_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <optional>
#include <system_error>

#include "yoke/base/descriptor.h"
#include "yoke/base/files.h"
#include "yoke/base/sha256.h"
#include "yoke/base/text.h"
#include "yoke/engine/checkpoint/safetensors_header.h"

namespace yoke::engine {
namespace {

using base::input_error;

/// Bytes that stay in the cache between being summed and being copied.
constexpr std::size_t kChunk = 256 * 1024;

constexpr std::array<std::pair<TensorType, torch::ScalarType>, 8> kTypes{{{TensorType::kF32, torch::kFloat32},
                                                                          {TensorType::kF64, torch::kFloat64},
                                                                          {TensorType::kF16, torch::kFloat16},
                                                                          {TensorType::kBF16, torch::kBFloat16},
                                                                          {TensorType::kI64, torch::kInt64},
                                                                          {TensorType::kI32, torch::kInt32},
                                                                          {TensorType::kU8, torch::kUInt8},
                                                                          {TensorType::kBool, torch::kBool}}};

std::optional<TensorType> type_of(const torch::Tensor& tensor) {
  for (const auto& [ours, theirs] : kTypes) {
    if (tensor.scalar_type() == theirs) return ours;
  }
  return std::nullopt;
}

torch::ScalarType torch_type(TensorType type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == type) return theirs;
  }
  return torch::kFloat32;
}

std::string_view bytes_of(const torch::Tensor& tensor) {
  if (tensor.numel() == 0) return {};
  return {static_cast<const char*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.nbytes())};
}

base::Result<TensorEntry> describe(const std::string& name, const torch::Tensor& tensor, const std::string& file) {
  base::require(tensor.defined() && tensor.device().is_cpu() && tensor.is_contiguous(),
                fmt::format("tensor {} must be contiguous and in the memory of the CPU", name));
  const auto type = type_of(tensor);
  if (!type) {
    return input_error(fmt::format("the tensor {} cannot be saved: its type is {}, expected float32, float64, float16, "
                                   "bfloat16, int64, int32, uint8 or bool",
                                   base::quote(name), c10::toString(tensor.scalar_type())),
                       {.file = file});
  }
  return TensorEntry{.name = name, .type = *type, .shape = tensor.sizes().vec()};
}

/// A file that is read front to back and told where it cannot.
class Source {
 public:
  static base::Result<Source> open(const std::string& path) {
    Source source(path, base::Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)));
    struct stat info {};
    if (!source.file_.valid() || ::fstat(source.file_.get(), &info) != 0) {
      return input_error(fmt::format("cannot open the file: {}", std::generic_category().message(errno)),
                         {.file = path});
    }
    if (!S_ISREG(info.st_mode)) return input_error("found a folder or device, expected a file", {.file = path});
    source.size_ = info.st_size;
    return source;
  }

  std::int64_t size() const { return size_; }

  /// Fills `size` bytes from `offset` and returns their sum.
  base::Result<std::string> read(char* to, std::int64_t size, std::int64_t offset) {
    base::Sha256 sum;
    while (size > 0) {
      const auto wanted = std::min(static_cast<std::size_t>(size), kChunk);
      const ssize_t got = ::pread(file_.get(), to, wanted, offset);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) {
        return base::peer_error(fmt::format("cannot read: {}", std::generic_category().message(errno)),
                                {.file = path_});
      }
      if (got == 0) return input_error("ended early: somebody shortens it while it is read", {.file = path_});
      sum.update({to, static_cast<std::size_t>(got)});
      to += got;
      size -= got;
      offset += got;
    }
    return sum.finish();
  }

 private:
  Source(std::string path, base::Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  base::Descriptor file_;
  std::int64_t size_ = 0;
};

base::Error damaged(const std::string& path, const std::string& field, const std::string& found,
                    const std::string& expected) {
  return input_error(
      fmt::format("damaged: its SHA-256 is {}..., but {}... was written", found.substr(0, 12), expected.substr(0, 12)),
      {.file = path, .field = field});
}

}  // namespace

base::Result<FileChecksums> write_tensor_file(const std::string& path, const NamedTensors& tensors,
                                              const std::vector<std::pair<std::string, std::string>>& metadata) {
  SafetensorsHeader header{.metadata = metadata};
  for (const auto& [name, tensor] : tensors) {
    YOKE_TRY(TensorEntry entry, describe(name, tensor, path));
    header.tensors.push_back(std::move(entry));
  }
  const auto order = place_tensors(header);
  YOKE_TRY(const std::string head, encode_header(header, path));
  YOKE_TRY(base::FileWriter file, base::FileWriter::create(path));
  YOKE_CHECK(file.write(head));
  FileChecksums sums{.bytes = std::ssize(head), .header = base::sha256(head)};
  for (const auto& [name, tensor] : tensors) sums.tensors.emplace_back(name, "");
  for (const std::size_t i : order) {
    base::Sha256 sum;
    for (std::string_view left = bytes_of(tensors[i].second); !left.empty();) {
      const std::string_view chunk = left.substr(0, kChunk);
      sum.update(chunk);
      YOKE_CHECK(file.write(chunk));
      left.remove_prefix(chunk.size());
    }
    sums.tensors[i].second = sum.finish();
    sums.bytes += header.tensors[i].end - header.tensors[i].begin;
  }
  YOKE_CHECK(std::move(file).publish());
  return sums;
}

base::Result<NamedTensors> read_tensor_file(const std::string& path, const FileChecksums* expected) {
  YOKE_TRY(Source source, Source::open(path));
  if (expected != nullptr && source.size() != expected->bytes) {
    return input_error(fmt::format("damaged: found {} bytes, but {} were written", source.size(), expected->bytes),
                       {.file = path});
  }
  std::string head(static_cast<std::size_t>(std::min(source.size(), kLengthBytes)), '\0');
  YOKE_CHECK(source.read(head.data(), std::ssize(head), 0));
  YOKE_TRY(const std::int64_t length, read_header_length(head, source.size(), path));
  head.resize(static_cast<std::size_t>(kLengthBytes + length));
  YOKE_TRY(const std::string head_sum, source.read(head.data(), std::ssize(head), 0));
  if (expected != nullptr && head_sum != expected->header) {
    return damaged(path, "header", head_sum, expected->header);
  }
  const std::int64_t data_begin = std::ssize(head);
  YOKE_TRY(const SafetensorsHeader header,
           parse_header(std::string_view(head).substr(kLengthBytes), source.size() - data_begin, path));
  std::map<std::string_view, const std::string*> sums;
  if (expected != nullptr) {
    for (const auto& [name, sum] : expected->tensors) sums.emplace(name, &sum);
  }
  NamedTensors tensors;
  for (const auto& entry : header.tensors) {
    torch::Tensor tensor = torch::empty(entry.shape, torch::dtype(torch_type(entry.type)));
    char* to = static_cast<char*>(tensor.data_ptr());
    YOKE_TRY(const std::string sum, source.read(to, entry.end - entry.begin, data_begin + entry.begin));
    if (expected != nullptr) {
      const auto known = sums.find(entry.name);
      if (known == sums.end()) {
        return input_error("the manifest does not know this tensor", {.file = path, .field = entry.name});
      }
      if (sum != *known->second) return damaged(path, entry.name, sum, *known->second);
    }
    tensors.emplace_back(entry.name, std::move(tensor));
  }
  if (expected != nullptr && tensors.size() != expected->tensors.size()) {
    return input_error(
        fmt::format("found {} tensors, but the manifest knows {}", tensors.size(), expected->tensors.size()),
        {.file = path});
  }
  return tensors;
}

base::Status write_safetensors(const std::string& path, const NamedTensors& tensors,
                               const std::vector<std::pair<std::string, std::string>>& metadata) {
  YOKE_CHECK(write_tensor_file(path, tensors, metadata));
  return {};
}

base::Result<NamedTensors> read_safetensors(const std::string& path) {
  return read_tensor_file(path, nullptr);
}

std::string weights_sha256(const NamedTensors& weights) {
  std::vector<const std::pair<std::string, torch::Tensor>*> sorted;
  for (const auto& weight : weights) sorted.push_back(&weight);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
  base::Sha256 sum;
  for (const auto* weight : sorted) {
    const auto& [name, tensor] = *weight;
    base::require(tensor.device().is_cpu() && tensor.is_contiguous(), "weights must be contiguous, on the CPU");
    const auto type = type_of(tensor);
    base::require(type.has_value(), fmt::format("tensor {} has a type that no checkpoint can hold", name));
    sum.update(fmt::format("{}\n{} {}\n", name, name_of(*type), fmt::join(tensor.sizes().vec(), ",")));
    sum.update(bytes_of(tensor));
  }
  return sum.finish();
}

}  // namespace yoke::engine
