// One suite for both stores, and what only the one over TCP can meet: strangers, silence and the end of the server.
#include "yoke/comm/store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

#include "yoke/comm/store/proof.h"
#include "yoke/comm/store/socket.h"
#include "yoke/comm/store/tcp_store.h"
#include "yoke/comm/store/wire.h"

namespace yoke::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const base::SystemClock kClock;
base::Deadline in(base::Duration time) {
  return base::Deadline::in(time, kClock);
}

class AnyStore : public ::testing::TestWithParam<const char*> {
 protected:
  AnyStore() {
    if (std::string_view(GetParam()) == "memory") {
      store_ = make_memory_store();
      return;
    }
    auto server = TcpStoreServer::start("127.0.0.1");
    server_ = *std::move(server);
    store_ = connect();
  }
  std::unique_ptr<Store> connect() {
    if (!server_) return another(*store_);
    auto store = connect_tcp_store("127.0.0.1:" + std::to_string(server_->port()), in(seconds(5)), kClock);
    return *std::move(store);
  }
  static std::unique_ptr<Store> another(Store& store) {
    auto other = store.another(in(seconds(5)));
    return *std::move(other);
  }

  std::unique_ptr<TcpStoreServer> server_;
  std::unique_ptr<Store> store_;
};

TEST_P(AnyStore, AValueArrivesWithWhoeverWaitsForIt) {
  const auto other = connect();
  std::jthread late([&] {
    std::this_thread::sleep_for(milliseconds(30));
    EXPECT_TRUE(other->set("key", std::string("a\0b", 3), in(seconds(5))).ok());
  });
  const auto value = store_->get("key", in(seconds(5)));
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(*value, std::string("a\0b", 3));
}

TEST_P(AnyStore, AWaitEndsAtItsDeadline) {
  const auto begin = kClock.now();
  const auto value = store_->get("never", in(milliseconds(50)));
  ASSERT_FALSE(value.ok());
  EXPECT_THAT(value.error().message, HasSubstr("never"));
  EXPECT_LT(base::to_seconds(kClock.now() - begin), 5);
  EXPECT_TRUE(store_->set("still", "usable", in(seconds(5))).ok());
}

TEST_P(AnyStore, CountersAddUp) {
  const auto other = connect();
  EXPECT_EQ(*store_->add("n", 2, in(seconds(5))), 2);
  EXPECT_EQ(*other->add("n", -5, in(seconds(5))), -3);
}

TEST_P(AnyStore, LogsKeepTheirOrderAndWait) {
  EXPECT_TRUE(store_->append("log", "a", in(seconds(5))).ok());
  EXPECT_TRUE(store_->append("log", "", in(seconds(5))).ok());
  const auto other = connect();
  EXPECT_THAT(*other->read("log", 0, in(seconds(5))), ElementsAre("a", ""));
  EXPECT_THAT(*other->read("log", 2, in(milliseconds(30))), IsEmpty());
  std::jthread late([&] {
    std::this_thread::sleep_for(milliseconds(30));
    EXPECT_TRUE(store_->append("log", "c", in(seconds(5))).ok());
  });
  EXPECT_THAT(*other->read("log", 2, in(seconds(5))), ElementsAre("c"));
}

TEST_P(AnyStore, AWillIsExecutedUnlessWithdrawn) {
  auto dead = connect();
  auto done = connect();
  EXPECT_TRUE(dead->leave_will("obituaries", "first", in(seconds(5))).ok());
  EXPECT_TRUE(dead->leave_will("obituaries", "dead", in(seconds(5))).ok()) << "replaces the one before";
  EXPECT_TRUE(done->leave_will("obituaries", "done", in(seconds(5))).ok());
  EXPECT_TRUE(done->withdraw_will(in(seconds(5))).ok());
  done.reset();
  dead.reset();
  EXPECT_THAT(*store_->read("obituaries", 0, in(seconds(5))), ElementsAre("dead"));
}

TEST_P(AnyStore, AnInterruptEndsAWait) {
  const auto begin = kClock.now();
  std::jthread other([&] {
    std::this_thread::sleep_for(milliseconds(30));
    store_->interrupt();
  });
  EXPECT_FALSE(store_->get("never", in(seconds(20))).ok());
  EXPECT_LT(base::to_seconds(kClock.now() - begin), 10);
}

INSTANTIATE_TEST_SUITE_P(Comm, AnyStore, ::testing::Values("memory", "tcp"),
                         [](const auto& param) { return std::string(param.param); });

TEST(TcpStore, SaysWhatIsWrongWithAnAddress) {
  for (const char* address : {"", "host", "host:", ":1", "host:0", "host:65536", "host:x", "[::1:5", "a:b:c"}) {
    const auto store = connect_tcp_store(address, in(milliseconds(10)), kClock);
    ASSERT_FALSE(store.ok()) << address;
    EXPECT_EQ(store.error().kind, base::ErrorKind::kInput) << address;
  }
}

TEST(TcpStore, AnAddressThatCannotBeBoundIsTheUsersToMend) {
  const auto server = TcpStoreServer::start("127.0.0.1");
  ASSERT_TRUE(server.ok());
  const auto second = TcpStoreServer::start("127.0.0.1", (*server)->port());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, base::ErrorKind::kInput);
  EXPECT_THAT(second.error().message, HasSubstr("free port"));
  const auto elsewhere = TcpStoreServer::start("192.0.2.1");
  ASSERT_FALSE(elsewhere.ok());
  EXPECT_THAT(elsewhere.error().message, HasSubstr("192.0.2.1"));
}

TEST(TcpStore, WaitsForAServerThatComesLater) {
  std::uint16_t port = 0;
  {
    const auto server = TcpStoreServer::start("127.0.0.1");
    port = (*server)->port();
  }
  std::unique_ptr<TcpStoreServer> server;
  std::jthread late([&] {
    std::this_thread::sleep_for(milliseconds(100));
    auto started = TcpStoreServer::start("127.0.0.1", port);
    if (started.ok()) server = *std::move(started);
  });
  const auto store = connect_tcp_store("127.0.0.1:" + std::to_string(port), in(seconds(10)), kClock);
  EXPECT_TRUE(store.ok());
  late.join();
}

TEST(TcpStore, TheEndOfTheServerIsAnErrorThatNamesIt) {
  auto server = TcpStoreServer::start("127.0.0.1");
  const std::string address = "127.0.0.1:" + std::to_string((*server)->port());
  auto store = connect_tcp_store(address, in(seconds(5)), kClock);
  ASSERT_TRUE(store.ok());
  std::unique_ptr<TcpStoreServer> owned = *std::move(server);
  std::jthread end([&] {
    std::this_thread::sleep_for(milliseconds(30));
    owned.reset();
  });
  const auto value = (*store)->get("x", in(seconds(20)));
  ASSERT_FALSE(value.ok());
  EXPECT_EQ(value.error().kind, base::ErrorKind::kPeer);
  EXPECT_THAT(value.error().message, HasSubstr(address));
}

TEST(TcpStore, DrainsUntilTheLastClientHasGone) {
  const auto server = TcpStoreServer::start("127.0.0.1");
  EXPECT_TRUE((*server)->drain(in(seconds(5)))) << "nobody has come yet";
  auto connected = connect_tcp_store("127.0.0.1:" + std::to_string((*server)->port()), in(seconds(5)), kClock);
  std::unique_ptr<Store> store = *std::move(connected);
  EXPECT_TRUE(store->set("a", "b", in(seconds(5))).ok());
  EXPECT_FALSE((*server)->drain(in(milliseconds(20))));
  std::jthread later([&] {
    std::this_thread::sleep_for(milliseconds(20));
    store.reset();
  });
  EXPECT_TRUE((*server)->drain(in(seconds(5))));
}

TEST(TcpStore, GarbageOnThePortHarmsNobody) {
  const auto server = TcpStoreServer::start("127.0.0.1");
  auto store = connect_tcp_store("127.0.0.1:" + std::to_string((*server)->port()), in(seconds(5)), kClock);
  ASSERT_TRUE(store.ok());
  for (const std::string& garbage : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100'000, '\xff'),
                                     std::string("\x05\0\0\0abcde", 9), std::string("\x01\0\0\0\x09", 5)}) {
    auto socket = connect_to({"127.0.0.1", (*server)->port()}, in(seconds(5)), kClock);
    ASSERT_TRUE(socket.ok());
    (void)::send(socket->get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_TRUE((*store)->set("a", "b", in(seconds(5))).ok());
}

TEST(TcpStore, AValueBeyondAllReasonIsRefused) {
  const auto server = TcpStoreServer::start("127.0.0.1");
  auto store = connect_tcp_store("127.0.0.1:" + std::to_string((*server)->port()), in(seconds(5)), kClock);
  ASSERT_TRUE(store.ok());
  const auto status = (*store)->set("a", std::string(kLargestFrame, 'x'), in(seconds(5)));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, base::ErrorKind::kInput);
  EXPECT_TRUE((*store)->set("a", std::string(1'000'000, 'x'), in(seconds(5))).ok());
}

TEST(TcpStore, OnlyThoseWhoKnowTheTokenGetIn) {
  const auto server = TcpStoreServer::start("127.0.0.1", 0, "open sesame");
  const std::string address = "127.0.0.1:" + std::to_string((*server)->port());
  auto friends = connect_tcp_store(address, in(seconds(5)), kClock, "open sesame");
  ASSERT_TRUE(friends.ok()) << friends.error().to_string();
  EXPECT_TRUE((*friends)->set("secret", "gold", in(seconds(5))).ok());
  auto second = (*friends)->another(in(seconds(5)));
  ASSERT_TRUE(second.ok()) << second.error().to_string();
  EXPECT_EQ(*(*second)->get("secret", in(seconds(5))), "gold");

  const auto begin = kClock.now();
  const auto wrong = connect_tcp_store(address, in(seconds(30)), kClock, "open sesam");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().kind, base::ErrorKind::kInput);
  EXPECT_THAT(wrong.error().message, HasSubstr("refuses the token"));
  EXPECT_LT(base::to_seconds(kClock.now() - begin), 20) << "a wrong token stays wrong: no waiting";

  auto stranger = connect_tcp_store(address, in(seconds(5)), kClock);
  ASSERT_TRUE(stranger.ok()) << "who says nothing is found out at the first request";
  EXPECT_FALSE((*stranger)->get("secret", in(seconds(5))).ok());
  EXPECT_FALSE((*stranger)->set("secret", "lead", in(seconds(5))).ok());
  EXPECT_EQ(*(*friends)->get("secret", in(seconds(5))), "gold");
}

TEST(TcpStore, AServerWithoutTheTokenIsNotTrusted) {
  const auto server = TcpStoreServer::start("127.0.0.1");
  const auto store =
      connect_tcp_store("127.0.0.1:" + std::to_string((*server)->port()), in(seconds(5)), kClock, "token");
  ASSERT_FALSE(store.ok());
  EXPECT_THAT(store.error().message, HasSubstr("refuses the token"));
}

TEST(StoreProof, IsTheHmacOfTheStandard) {
  // RFC 4231, test cases 2 and 6.
  EXPECT_EQ(hmac_sha256("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_NE(client_proof("t", "a", "b"), server_proof("t", "a", "b")) << "an echo proves nothing";
  EXPECT_NE(client_proof("t", "a", "b"), client_proof("t", "b", "a"));
  EXPECT_NE(random_text(), random_text());
  EXPECT_TRUE(same_proof("abc", "abc"));
  EXPECT_FALSE(same_proof("abc", "abd"));
  EXPECT_FALSE(same_proof("abc", "ab"));
}

TEST(StoreWire, WhatIsEncodedIsDecoded) {
  const StoreRequest request{.command = StoreCommand::kAdd, .number = -7, .wait_ms = 12, .key = "k", .value = "v\n"};
  std::string bytes = encode(request) + encode(request);
  bool garbage = false;
  for (int i = 0; i < 2; ++i) {
    const auto frame = take_frame(bytes, garbage);
    ASSERT_TRUE(frame.has_value());
    EXPECT_EQ(decode_request(*frame), request);
    for (std::size_t cut = 0; cut < frame->size(); ++cut) {
      EXPECT_FALSE(decode_request(std::string_view(*frame).substr(0, cut)).has_value());
    }
  }
  EXPECT_FALSE(take_frame(bytes, garbage).has_value());
  EXPECT_FALSE(garbage);
  const StoreReply reply{.found = false, .number = 3, .values = {"a", ""}};
  bytes = encode(reply);
  EXPECT_EQ(decode_reply(*take_frame(bytes, garbage)), reply);
}

}  // namespace
}  // namespace yoke::comm
