// The metrics page, scraped over real sockets.
#include "yoke/cli/run/metrics_server.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>

#include <limits>

#include "yoke/cli/run/metrics_board.h"

namespace yoke::cli {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using namespace std::chrono_literals;

class Metrics : public ::testing::Test {
 protected:
  comm::Descriptor connect() {
    auto socket = comm::connect_to({"127.0.0.1", server_->port()}, base::Deadline::in(5s, clock_), clock_);
    EXPECT_TRUE(socket.ok());
    return *std::move(socket);
  }
  std::string ask(const std::string& request) {
    const auto socket = connect();
    EXPECT_EQ(::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
    std::string answer;
    for (;;) {
      pollfd ready{.fd = socket.get(), .events = POLLIN, .revents = 0};
      if (::poll(&ready, 1, 5000) <= 0) return answer + "<timeout>";
      char chunk[4096];
      const auto got = ::recv(socket.get(), chunk, sizeof(chunk), 0);
      if (got <= 0) return answer;
      answer.append(chunk, static_cast<std::size_t>(got));
    }
  }

  const base::SystemClock clock_{};
  MetricsBoard board_{"le\"net", 2};
  std::unique_ptr<MetricsServer> server_ = *MetricsServer::start(
      0, [this] { return board_.to_text(); }, clock_);
};

TEST_F(Metrics, AScrapeGetsTheLatestStep) {
  EXPECT_THAT(ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("version=0.0.4"),
                    HasSubstr("yoke_ranks{job=\"le\\\"net\"} 2\n"), Not(HasSubstr("yoke_step"))));
  board_.put(engine::StepReport{
      .step = 7, .gbs = 64, .loss = std::numeric_limits<double>::quiet_NaN(), .samples_per_second = 12.5});
  board_.put(engine::Event{.kind = "evaluation", .detail = "", .values = {{"test_accuracy", 0.75}}});
  const std::string answer = ask("GET /metrics?x=1 HTTP/1.0\r\n\r\n");
  EXPECT_THAT(answer, AllOf(HasSubstr("# TYPE yoke_step gauge\nyoke_step{job=\"le\\\"net\"} 7\n"),
                            HasSubstr("yoke_loss{job=\"le\\\"net\"} NaN\n"),
                            HasSubstr("yoke_samples_per_second{job=\"le\\\"net\"} 12.5\n"),
                            HasSubstr("yoke_test_accuracy{job=\"le\\\"net\"} 0.75\n")));
  const auto body = answer.find("\r\n\r\n") + 4;
  EXPECT_THAT(answer, HasSubstr("Content-Length: " + std::to_string(answer.size() - body) + "\r\n"));
}

TEST_F(Metrics, OtherRequestsAreRefused) {
  EXPECT_THAT(ask("GET / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(ask("POST /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(ask("hello\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(ask("HEAD /metrics HTTP/1.1\r\n\r\n"), AllOf(StartsWith("HTTP/1.1 200"), EndsWith("\r\n\r\n")));
  const std::string endless(20000, 'x');
  EXPECT_EQ(ask(endless).find("HTTP/1.1 200"), std::string::npos);
  EXPECT_THAT(ask("GET /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 200")) << "the server lives";
}

TEST_F(Metrics, ASilentClientDelaysButDoesNotBlock) {
  const auto silent = connect();
  EXPECT_THAT(ask("GET /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 200"));
}

TEST_F(Metrics, ATakenPortIsAnInputErrorThatNamesIt) {
  const auto second = MetricsServer::start(
      server_->port(), [] { return ""; }, clock_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, base::ErrorKind::kInput);
  EXPECT_EQ(second.error().where.field, "--metrics-port");
  EXPECT_THAT(second.error().message, AllOf(HasSubstr(std::to_string(server_->port())), HasSubstr("free port")));
  EXPECT_FALSE(MetricsServer::start(
                   70000, [] { return ""; }, clock_)
                   .ok());
  EXPECT_FALSE(MetricsServer::start(
                   -1, [] { return ""; }, clock_)
                   .ok());
}

}  // namespace
}  // namespace yoke::cli
