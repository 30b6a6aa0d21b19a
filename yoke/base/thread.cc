#include "yoke/base/thread.h"

#include <pthread.h>

#include <exception>
#include <utility>

namespace yoke::base {

Worker::Worker(std::string name, Body body)
    : thread_([this, name = std::move(name), body = std::move(body)](std::stop_token stop) {
        pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
        try {
          finish(body(std::move(stop)));
        } catch (const Failure& failure) {
          finish(failure.error());
        } catch (const std::exception& fault) {
          finish(Error{ErrorKind::kInternal, name + ": " + fault.what()});
        }
      }) {}

void Worker::finish(Status status) {
  MutexLock lock(mutex_);
  result_ = std::move(status);
  finished_.notify_all();
}

std::optional<Status> Worker::wait(const Deadline& deadline) {
  MutexLock lock(mutex_);
  while (!result_) {
    if (!finished_.wait(mutex_, deadline)) break;
  }
  return result_;
}

}  // namespace yoke::base
