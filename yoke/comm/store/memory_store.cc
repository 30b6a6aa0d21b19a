#include <fmt/format.h>

#include "yoke/base/mutex.h"
#include "yoke/comm/store/board.h"
#include "yoke/comm/store/store.h"

namespace yoke::comm {
namespace {

struct Shared {
  base::Mutex mutex;
  base::Condition changed;
  Board board YOKE_GUARDED_BY(mutex);
};

class MemoryStore final : public Store {
 public:
  explicit MemoryStore(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  ~MemoryStore() override {
    base::MutexLock lock(shared_->mutex);
    will_.execute(shared_->board);
    shared_->changed.notify_all();
  }

  base::Status set(std::string_view key, std::string_view value, const base::Deadline&) override {
    base::MutexLock lock(shared_->mutex);
    shared_->board.values[std::string(key)] = value;
    shared_->changed.notify_all();
    return {};
  }

  base::Result<std::string> get(std::string_view key, const base::Deadline& deadline) override {
    base::MutexLock lock(shared_->mutex);
    for (bool in_time = true;;) {
      const auto found = shared_->board.values.find(key);
      if (found != shared_->board.values.end()) return found->second;
      if (interrupted_) return base::peer_error(fmt::format("the wait for `{}` was interrupted", key));
      if (!in_time) return base::peer_error(fmt::format("nobody has set `{}` in time", key));
      in_time = shared_->changed.wait(shared_->mutex, deadline);
    }
  }

  base::Result<std::int64_t> add(std::string_view key, std::int64_t amount, const base::Deadline&) override {
    base::MutexLock lock(shared_->mutex);
    return shared_->board.counters[std::string(key)] += amount;
  }

  base::Status append(std::string_view log, std::string_view entry, const base::Deadline&) override {
    base::MutexLock lock(shared_->mutex);
    shared_->board.logs[std::string(log)].emplace_back(entry);
    shared_->changed.notify_all();
    return {};
  }

  base::Result<std::vector<std::string>> read(std::string_view log, std::size_t from,
                                              const base::Deadline& deadline) override {
    base::MutexLock lock(shared_->mutex);
    for (bool in_time = true;;) {
      auto entries = shared_->board.entries(log, from);
      if (!entries.empty() || !in_time) return entries;
      if (interrupted_) return base::peer_error(fmt::format("the wait for `{}` was interrupted", log));
      in_time = shared_->changed.wait(shared_->mutex, deadline);
    }
  }

  base::Status leave_will(std::string_view log, std::string_view entry, const base::Deadline&) override {
    base::MutexLock lock(shared_->mutex);
    will_ = {std::string(log), std::string(entry)};
    return {};
  }

  base::Status withdraw_will(const base::Deadline&) override {
    base::MutexLock lock(shared_->mutex);
    will_ = {};
    return {};
  }

  base::Result<std::unique_ptr<Store>> another(const base::Deadline&) override {
    return std::unique_ptr<Store>(std::make_unique<MemoryStore>(shared_));
  }

  void interrupt() override {
    base::MutexLock lock(shared_->mutex);
    interrupted_ = true;
    shared_->changed.notify_all();
  }

 private:
  const std::shared_ptr<Shared> shared_;
  // Guarded by the shared mutex, like everything that a wait looks at.
  bool interrupted_ = false;
  Will will_;
};

}  // namespace

std::unique_ptr<Store> make_memory_store() {
  return std::make_unique<MemoryStore>(std::make_shared<Shared>());
}

}  // namespace yoke::comm
