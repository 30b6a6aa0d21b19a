// Real processes for tests: started with their output caught, waited for with a deadline, and never left behind.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace yoke::testing {

/// Runs the function in a child process, which ends with it, or with us. Only for tests that have no threads.
template <typename Body>
pid_t fork_child(Body body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  body();
  ::_exit(0);
}

/// A child process. The destructor kills it, should it still run.
class Process {
 public:
  explicit Process(const std::vector<std::string>& command, const std::vector<std::string>& environment = {}) {
    int pipe_ends[2];
    if (::pipe2(pipe_ends, O_CLOEXEC) != 0) return;
    std::vector<char*> argv;
    for (const auto& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(pipe_ends[1], STDOUT_FILENO);
      ::dup2(pipe_ends[1], STDERR_FILENO);
      for (const auto& setting : environment) ::putenv(const_cast<char*>(setting.c_str()));
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(pipe_ends[1]);
    output_fd_ = pipe_ends[0];
  }
  ~Process() {
    if (pid_ > 0 && !ended_) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, &status_, 0);
    }
    if (output_fd_ >= 0) ::close(output_fd_);
  }
  Process(Process&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        output_fd_(std::exchange(other.output_fd_, -1)),
        output_(std::move(other.output_)),
        ended_(other.ended_),
        status_(other.status_) {}
  Process& operator=(Process&&) = delete;

  pid_t pid() const { return pid_; }

  /// Reads what it prints until it has printed a whole line or the time is over; returns all it has printed so far.
  const std::string& read_line(std::chrono::milliseconds limit) {
    read([&] { return output_.find('\n') != std::string::npos; }, limit);
    return output_;
  }
  /// True if it has ended by itself within the limit; its output is then complete.
  bool wait(std::chrono::milliseconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    read([] { return false; }, limit);
    while (!ended_) {
      ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
      if (ended_ || std::chrono::steady_clock::now() >= end) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return ended_;
  }
  const std::string& output() const { return output_; }
  /// The exit code, or 128 + the signal that ended it.
  int exit_code() const { return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_); }

 private:
  template <typename Enough>
  void read(Enough enough, std::chrono::milliseconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!enough()) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      pollfd ready{.fd = output_fd_, .events = POLLIN, .revents = 0};
      if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) <= 0) return;
      char chunk[4096];
      const auto got = ::read(output_fd_, chunk, sizeof(chunk));
      if (got <= 0) return;
      output_.append(chunk, static_cast<std::size_t>(got));
    }
  }

  pid_t pid_ = -1;
  int output_fd_ = -1;
  std::string output_;
  bool ended_ = false;
  int status_ = 0;
};

}  // namespace yoke::testing
