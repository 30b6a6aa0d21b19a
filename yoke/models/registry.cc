#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "yoke/base/mutex.h"
#include "yoke/base/text.h"
#include "yoke/models/model.h"
#include "yoke/models/zoo/zoo.h"

namespace yoke::models {

namespace {

/// A list in a function rather than registration by static objects, which a linker drops from a static library.
std::vector<ModelInfo> built_in() {
  std::vector<ModelInfo> all = {zoo::mlp(), zoo::small_cnn(), zoo::alexnet()};
  for (auto family : {zoo::vgg(), zoo::resnet()}) all.insert(all.end(), family.begin(), family.end());
  all.push_back(torchscript());
  all.push_back(zoo::replay());
  return all;
}

class Registry {
 public:
  bool add(ModelInfo added) {
    base::MutexLock lock(mutex_);
    if (find(added.name) != nullptr) return false;
    models_.push_back(std::move(added));
    return true;
  }
  std::optional<ModelInfo> get(std::string_view name) const {
    base::MutexLock lock(mutex_);
    const ModelInfo* found = find(name);
    return found != nullptr ? std::optional(*found) : std::nullopt;
  }
  std::vector<std::string> names() const {
    base::MutexLock lock(mutex_);
    std::vector<std::string> names;
    for (const ModelInfo& model : models_) names.push_back(model.name);
    return names;
  }

 private:
  const ModelInfo* find(std::string_view name) const YOKE_REQUIRES(mutex_) {
    const auto found =
        std::find_if(models_.begin(), models_.end(), [&](const auto& model) { return model.name == name; });
    return found != models_.end() ? &*found : nullptr;
  }

  mutable base::Mutex mutex_;
  std::vector<ModelInfo> models_ YOKE_GUARDED_BY(mutex_) = built_in();
};

Registry& registry() {
  static Registry models;
  return models;
}

/// What whoever registered the model promised.
void check(const Architecture& architecture, std::string_view name) {
  base::require(!architecture.blocks.empty(), fmt::format("model `{}` has no blocks", name));
  base::require(architecture.loss != nullptr, fmt::format("model `{}` has no loss", name));
  std::set<std::string_view> names;
  for (const BlockSpec& block : architecture.blocks) {
    base::require(names.insert(block.name).second, fmt::format("model `{}` has two blocks `{}`", name, block.name));
    base::require(block.make != nullptr, fmt::format("block `{}` of model `{}` cannot be made", block.name, name));
  }
}

}  // namespace

base::Status register_model(ModelInfo added) {
  const std::string name = added.name;
  if (!base::is_plain_name(name)) {
    return base::input_error(
        fmt::format("found the model name {}, expected a word without blanks, commas and slashes", base::quote(name)),
        {.field = "name"});
  }
  base::require(added.make != nullptr, fmt::format("model `{}` cannot be made", name));
  if (!registry().add(std::move(added))) {
    return base::input_error(fmt::format("found the model name `{}`, which is taken: choose another", name),
                             {.field = "name"});
  }
  return {};
}

std::vector<std::string> list_models() {
  return registry().names();
}

base::Result<Architecture> make_model(std::string_view name, const ModelOptions& options) {
  const auto found = registry().get(name);
  if (!found) {
    const auto known = list_models();
    return base::input_error(fmt::format("found the model {}, expected {}{}", base::quote(name),
                                         base::join_words(known, "or"), base::did_you_mean(name, known)),
                             {.field = "model"});
  }
  YOKE_TRY(Architecture architecture, found->make(options));
  check(architecture, name);
  return architecture;
}

}  // namespace yoke::models
