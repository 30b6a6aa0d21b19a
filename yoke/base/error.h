// What went wrong, as a value. Every error that reaches a user is one of these four kinds and says where it is.
//
//  kInput       a file, option or request is wrong: the user can mend it            exit code 2
//  kInfeasible  the request is well formed but has no solution                      exit code 3
//  kPeer        a peer, a host, a disk or another part of the outside world failed  exit code 4
//  kInternal    an invariant of ours is broken: a bug                               exit code 1
//
// Outcomes a caller expects travel as base::Result (result.h). A broken invariant is thrown as base::Failure, and only
// `cli` catches it. Errors of libraries are translated where they enter. All types here are plain values: any thread
// may use its own copy.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace yoke::base {

enum class ErrorKind { kInput, kInfeasible, kPeer, kInternal };

/// The name that `--json` prints: "input", "infeasible", "peer" or "internal".
std::string_view to_string(ErrorKind kind);

/// The process exit code that scripts rely on.
int exit_code(ErrorKind kind);

/// A place in something the user wrote: any part may be empty. Lines count from 1; 0 means unknown.
struct Where {
  std::string file;
  int line = 0;
  std::string field;

  /// `cluster.yaml:12: nodes[0].speed`, leaving out what is unknown; empty when nothing is known.
  std::string to_string() const;
  bool operator==(const Where&) const = default;
};

/// `message` says what was found, what was expected and what to do; `where` says where.
struct Error {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;
  Where where = {};

  /// The one line a person reads: `where: message`.
  std::string to_string() const;
  bool operator==(const Error&) const = default;
};

Error input_error(std::string message, Where where = {});
Error infeasible_error(std::string message, Where where = {});
Error peer_error(std::string message, Where where = {});

/// Carries an Error through code that cannot go on. Thrown for broken invariants; caught in `cli` only.
class Failure : public std::runtime_error {
 public:
  explicit Failure(Error error);
  const Error& error() const { return error_; }

 private:
  Error error_;
};

/// A place in our own source. std::source_location does what we need, but clang 14 cannot compile libstdc++'s.
struct SourceLocation {
  const char* file = "";
  int line = 0;

  static constexpr SourceLocation current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// Throws an internal Failure naming the caller's file and line unless `holds`. Put the values compared in `message`.
void require(bool holds, std::string_view message, SourceLocation at = SourceLocation::current());

}  // namespace yoke::base
