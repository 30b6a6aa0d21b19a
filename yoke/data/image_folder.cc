#include "yoke/data/image_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "yoke/base/files.h"
#include "yoke/base/text.h"
#include "yoke/data/decode.h"
#include "yoke/data/resample.h"

namespace yoke::data {
namespace {

using base::input_error;

constexpr std::int64_t kMostSide = 8192;
constexpr std::int64_t kMaxFileBytes = 256 << 20;

/// Where each image is. ImageNet has 1.3 million: the names lie in one string, one after another.
class FileList {
 public:
  std::size_t size() const { return files_.size(); }
  void add(std::uint32_t in_class, std::string_view name) {
    files_.push_back({names_.size(), in_class});
    names_ += name;
  }
  std::uint32_t class_of(std::size_t i) const { return files_[i].in_class; }
  std::string_view name(std::size_t i) const {
    const std::size_t end = i + 1 < files_.size() ? files_[i + 1].name_begin : names_.size();
    return std::string_view(names_).substr(files_[i].name_begin, end - files_[i].name_begin);
  }
  void keep_first(std::size_t count) {
    if (count >= files_.size()) return;
    names_.resize(files_[count].name_begin);
    files_.erase(files_.begin() + static_cast<std::ptrdiff_t>(count), files_.end());
  }

 private:
  struct File {
    std::size_t name_begin;
    std::uint32_t in_class;
  };
  std::vector<File> files_;
  std::string names_;
};

bool is_image_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  std::string ending(name.substr(dot + 1));
  for (char& c : ending) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return ending == "jpg" || ending == "jpeg" || ending == "png";
}

class ImageFolder final : public Dataset {
 public:
  ImageFolder(const DatasetOptions& options, std::vector<std::string> class_folders, FileList files)
      : class_folders_(std::move(class_folders)),
        files_(std::move(files)),
        side_(static_cast<int>(options.image)),
        resize_(static_cast<int>(options.resize)),
        corrupt_(options.corrupt),
        info_{.name = options.name,
              .size = static_cast<std::int64_t>(files_.size()),
              .input_shape = {3, options.image, options.image},
              .classes = static_cast<std::int64_t>(class_folders_.size())} {}

  const DatasetInfo& info() const override { return info_; }

  base::Result<Batch> load(std::span<const std::int64_t> indices,
                           const std::optional<base::StreamName>& draw) const override {
    const auto count = static_cast<std::int64_t>(indices.size());
    torch::Tensor x = torch::empty({count, 3, side_, side_}, torch::kFloat32);
    torch::Tensor targets = torch::empty({count}, torch::kInt64);
    auto* values = x.data_ptr<float>();
    auto* classes = targets.data_ptr<std::int64_t>();
    const std::int64_t elements = 3 * static_cast<std::int64_t>(side_) * side_;
    std::optional<base::Stream> seeds;
    if (draw) seeds.emplace(*draw);
    Batch batch;
    ImageDecoder decoder;
    Resampler resampler;
    for (const std::int64_t index : indices) {
      check_index(index, info_);
      const auto i = static_cast<std::size_t>(index);
      // Each sample has a stream of its own, so that what one draws does not depend on the fate of the one before.
      std::optional<base::Stream> own;
      if (seeds) own.emplace(base::StreamName{.seed = seeds->bits64(), .purpose = base::Purpose::kAugment});
      const std::string path = base::join_path(class_folders_[files_.class_of(i)], files_.name(i));
      YOKE_TRY(const std::string bytes, base::read_file(path, kMaxFileBytes));
      const base::Status status = decode(bytes, path, own, decoder, resampler, values + batch.samples * elements);
      if (status.ok()) {
        classes[batch.samples++] = files_.class_of(i);
      } else if (corrupt_ == Corrupt::kSkip) {
        ++batch.skipped;
      } else {
        base::Error error = status.error();
        error.message += "; mend or remove the file, or have corrupt images skipped (data.corrupt: skip)";
        return error;
      }
    }
    if (batch.skipped > 0) {
      x = x.narrow(0, 0, batch.samples);
      targets = targets.narrow(0, 0, batch.samples);
    }
    batch.tensors = {{"x", std::move(x)}, {"targets", std::move(targets)}};
    return batch;
  }

 private:
  base::Status decode(const std::string& bytes, const std::string& path, std::optional<base::Stream>& draw,
                      ImageDecoder& decoder, Resampler& resampler, float* out) const {
    // A JPEG that is shrunk anyway is decoded smaller, which is faster. In evaluation only where the difference is as
    // good as invisible, because the results are compared with those of others.
    constexpr double kTrainMargin = 1, kTestMargin = 2;
    constexpr Normalisation kImageNet = normalisation({0.485, 0.456, 0.406}, {0.229, 0.224, 0.225});
    YOKE_TRY(const ImageSize size, decoder.open(bytes, path));
    const View view = draw ? random_view(size, side_, *draw) : centre_view(size, resize_, side_);
    YOKE_TRY(const Pixels pixels, decoder.decode(reduction_for(view, draw ? kTrainMargin : kTestMargin)));
    resampler.run(pixels, view, kImageNet, out);
    return {};
  }

  std::vector<std::string> class_folders_;
  FileList files_;
  int side_;
  int resize_;
  Corrupt corrupt_;
  DatasetInfo info_;
};

base::Result<std::string> find_split(const std::string& path, Split split) {
  constexpr const char* kLayout = "<class>/*.jpg|jpeg|png";
  if (!base::is_folder(path)) {
    return input_error("found no folder of images here, expected one with train/ and val/ in it; give it as data.path",
                       {.file = path});
  }
  if (split == Split::kTrain) {
    if (const std::string folder = base::join_path(path, "train"); base::is_folder(folder)) return folder;
    return input_error(fmt::format("found no folder train/ here, expected train/{}", kLayout), {.file = path});
  }
  for (const char* name : {"val", "test"}) {
    if (const std::string folder = base::join_path(path, name); base::is_folder(folder)) return folder;
  }
  return input_error(fmt::format("found no folder val/ or test/ here, expected val/{}", kLayout), {.file = path});
}

base::Result<std::vector<std::string>> find_classes(const std::string& folder) {
  YOKE_TRY(const std::vector<std::string> names, base::list_folder(folder));
  std::vector<std::string> classes;
  std::int64_t images = 0;
  for (const std::string& name : names) {
    if (base::is_folder(base::join_path(folder, name))) {
      classes.push_back(name);
    } else if (is_image_name(name)) {
      ++images;
    }
  }
  if (classes.empty()) {
    return input_error(
        fmt::format("found no folders (but {} images) here, expected a folder of images for each class", images),
        {.file = folder});
  }
  return classes;
}

/// A class is the place of its folder among the others, so the folders for evaluation must be those of training.
base::Status check_same_classes(const std::vector<std::string>& test, const std::string& folder,
                                const std::string& train_folder) {
  YOKE_TRY(const std::vector<std::string> train, find_classes(train_folder));
  if (test == train) return {};
  const auto [in_test, in_train] = std::mismatch(test.begin(), test.end(), train.begin(), train.end());
  const bool missing = in_test == test.end() || (in_train != train.end() && *in_train < *in_test);
  return input_error(fmt::format("found {} class folders, expected the {} of {}: the first that is {} is {}",
                                 test.size(), train.size(), train_folder, missing ? "missing" : "too many",
                                 base::quote(missing ? *in_train : *in_test)),
                     {.file = folder});
}

base::Status check_side(std::int64_t side, const char* field) {
  if (side >= 1 && side <= kMostSide) return {};
  return input_error(fmt::format("found {} pixels, expected 1 to {}", side, kMostSide), {.field = field});
}

}  // namespace

base::Result<std::unique_ptr<Dataset>> open_image_folder(const DatasetOptions& options) {
  if (options.path.empty()) {
    return input_error(fmt::format("{} comes in no package; give the folder with train/ and val/ in it", options.name),
                       {.field = "data.path"});
  }
  YOKE_CHECK(check_side(options.image, "data.image"));
  YOKE_CHECK(check_side(options.resize, "data.resize"));
  if (options.resize < options.image) {
    return input_error(fmt::format("found {}, expected at least {}: the images are cut out of what is resized",
                                   options.resize, options.image),
                       {.field = "data.resize"});
  }
  YOKE_TRY(const std::string folder, find_split(options.path, options.split));
  YOKE_TRY(const std::vector<std::string> classes, find_classes(folder));
  const std::string train_folder = base::join_path(options.path, "train");
  if (options.split == Split::kTest && base::is_folder(train_folder)) {
    YOKE_CHECK(check_same_classes(classes, folder, train_folder));
  }
  std::vector<std::string> class_folders;
  FileList files;
  for (const std::string& name : classes) {
    class_folders.push_back(base::join_path(folder, name));
    YOKE_TRY(const std::vector<std::string> names, base::list_folder(class_folders.back()));
    const std::size_t before = files.size();
    for (const std::string& file : names) {
      if (is_image_name(file)) files.add(static_cast<std::uint32_t>(class_folders.size() - 1), file);
    }
    if (files.size() == before) {
      return input_error(
          fmt::format("found no .jpg, .jpeg or .png among {} files of this class, expected at least one; add images or "
                      "remove the folder",
                      names.size()),
          {.file = class_folders.back()});
    }
  }
  if (options.limit) files.keep_first(static_cast<std::size_t>(*options.limit));
  return std::unique_ptr<Dataset>(std::make_unique<ImageFolder>(options, std::move(class_folders), std::move(files)));
}

bool has_image_split(const std::string& path, Split split) {
  return find_split(path, split).ok();
}

}  // namespace yoke::data
