#include "jobs/progress/tcp.h"

#include <cstdlib>
#include <thread>

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include "jobs/error.h"
#include "jobs/progress/channel.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/processes.h"
#include "tests/support/scratch.h"

namespace foretime::jobs {
namespace {

using ::testing::ElementsAre;
using testing::eventually;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = ProgressMessage::Kind;

constexpr const char* kToken = "0123456789abcdef0123456789abcdef";

/// An agent's end that listens on this machine's own address, and what came there.
class TcpChannel : public testing::ScratchTest {
 protected:
  void TearDown() override {
    for (const char* name : {"FORETIME_PROGRESS", "FORETIME_PROGRESS_TCP", "FORETIME_PROGRESS_TOKEN"}) unsetenv(name);
  }
  /// As the environment of a rank on another host: the path is there, and nobody listens.
  std::unique_ptr<ProgressSender> sender_elsewhere(const std::string& token = kToken) {
    setenv("FORETIME_PROGRESS", (folder_ / "nobody.sock").c_str(), 1);
    setenv("FORETIME_PROGRESS_TCP", receiver_.tcp_address().c_str(), 1);
    setenv("FORETIME_PROGRESS_TOKEN", token.c_str(), 1);
    return ProgressSender::from_environment();
  }
  int connect_raw(const std::string& bytes = "") {
    std::string why;
    raw_.push_back(connect_tcp(receiver_.tcp_address(), 2, why));
    EXPECT_GE(raw_.back().get(), 0) << why;
    EXPECT_EQ(::send(raw_.back().get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    return raw_.back().get();
  }
  bool closed(int socket) {
    char byte = 0;
    receive();
    return recv(socket, &byte, 1, MSG_DONTWAIT) == 0;
  }
  void receive() {
    receiver_.receive(
        [&](const ProgressMessage& message) { steps_.push_back(message.kind == Kind::hello ? -1 : message.step); },
        [&](const std::string& what) { complaints_.push_back(what); });
  }
  bool got(size_t count) {
    return eventually([&] {
      receive();
      return steps_.size() >= count;
    });
  }

  ProgressReceiver receiver_{folder_, parse_listen_address("127.0.0.1"), kToken};
  std::vector<int64_t> steps_;
  std::vector<std::string> complaints_;
  std::vector<Descriptor> raw_;
};

// Promise hosts/messages: progress, checkpoints, results and requests to stop pass between hosts, whatever host rank 0
// is on
TEST_F(TcpChannel, MessagesAndRequestsToStopCrossHosts) {
  const auto sender = sender_elsewhere();
  ASSERT_NE(sender, nullptr);
  sender->send({.kind = Kind::checkpoint, .step = 7, .path = "/runs/checkpoint"});
  sender->send({.kind = Kind::result, .step = 8, .metrics = {{"mae", 1}}});
  EXPECT_TRUE(got(3));
  EXPECT_THAT(steps_, ElementsAre(-1, 7, 8));
  EXPECT_TRUE(receiver_.connected());
  receiver_.send_stop("cancelled");
  EXPECT_TRUE(eventually([&] { return sender->stop_requested(); }));
  EXPECT_THAT(complaints_, IsEmpty());
}

TEST_F(TcpChannel, TheUnixSocketIsTakenWhereItIsReached) {
  setenv("FORETIME_PROGRESS", receiver_.path().c_str(), 1);
  setenv("FORETIME_PROGRESS_TCP", "127.0.0.1:1", 1);
  setenv("FORETIME_PROGRESS_TOKEN", "wrong", 1);
  EXPECT_NE(ProgressSender::from_environment(), nullptr);
  EXPECT_TRUE(got(1));
}

TEST_F(TcpChannel, NobodyIsThereWhereTheVariablesSayNone) {
  setenv("FORETIME_PROGRESS", (folder_ / "nobody.sock").c_str(), 1);
  setenv("FORETIME_PROGRESS_TCP", "none", 1);
  EXPECT_EQ(ProgressSender::from_environment(), nullptr);
}

// Promise hosts/messages-token: a peer without the job's token changes nothing, and locks nobody out
TEST_F(TcpChannel, AWrongTokenIsSentAwayAndTheJobIsHeardAllTheSame) {
  const auto stranger = sender_elsewhere("0123456789abcdef0123456789abcdee");
  stranger->send({.kind = Kind::result, .step = 666, .metrics = {{"mae", 0}}});
  EXPECT_TRUE(eventually([&] { return receive(), complaints_.size() == 1; }));
  EXPECT_MESSAGE(complaints_.front());
  EXPECT_EQ(complaints_.front().find(kToken), std::string::npos);
  const auto sender = sender_elsewhere();
  EXPECT_TRUE(got(1));
  EXPECT_THAT(steps_, ElementsAre(-1));
}

// Promise hosts/messages-token
TEST_F(TcpChannel, PeersThatSayTooMuchOrMessagesWithoutATokenAreSentAway) {
  const int flood = connect_raw(std::string(10'000, 'x'));
  EXPECT_TRUE(eventually([&] { return receive(), complaints_.size() == 1; }));
  EXPECT_MESSAGE(complaints_.back());
  const int direct = connect_raw("{\"type\":\"result\",\"step\":1,\"metrics\":{\"mae\":0}}\n");
  EXPECT_TRUE(eventually([&] { return receive(), complaints_.size() == 2; }));
  EXPECT_THAT(complaints_.back(), HasSubstr("wrong token"));
  const int empty = connect_raw("{\"token\":\"\"}\n");
  EXPECT_TRUE(eventually([&] { return closed(empty); }));
  EXPECT_FALSE(receiver_.connected());
  EXPECT_THAT(steps_, IsEmpty());
  static_cast<void>(flood);
  static_cast<void>(direct);
}

TEST_F(TcpChannel, SilentPeersLockNobodyOut) {
  for (size_t i = 0; i < ProgressReceiver::kUnverifiedPeers + 4; ++i) {
    connect_raw();
    receive();
  }
  const auto sender = sender_elsewhere();
  EXPECT_TRUE(got(1));
  EXPECT_GE(complaints_.size(), 5U);
  EXPECT_MESSAGE(complaints_.front());
  std::vector<pollfd> descriptors;
  receiver_.add_descriptors(descriptors);
  EXPECT_LE(descriptors.size(), ProgressReceiver::kUnverifiedPeers + 2);
}

TEST_F(TcpChannel, ATokenThatComesByteByByteIsTakenAndOneThatDoesNotComeIsNot) {
  const auto line = token_line(kToken) + "{\"type\":\"hello\",\"pid\":1}\n";
  const int slow = connect_raw(), silent = connect_raw();
  for (const char byte : line) {
    ASSERT_EQ(::send(slow, &byte, 1, MSG_NOSIGNAL), 1);
    receive();
  }
  EXPECT_TRUE(got(1));
  EXPECT_TRUE(eventually([&] { return closed(silent); })) << "after kTokenSeconds";
  EXPECT_THAT(complaints_, ElementsAre(HasSubstr("too slow with its token")));
}

// Promise hosts/messages-reconnect: a job whose connection breaks connects again
TEST_F(TcpChannel, AJobWhoseConnectionBreaksConnectsAnew) {
  const auto sender = sender_elsewhere();
  EXPECT_TRUE(got(1));
  // As a network does that forgets a connection: both ends learn of it by an error.
  std::vector<pollfd> descriptors;
  receiver_.add_descriptors(descriptors);
  shutdown(descriptors.front().fd, SHUT_RDWR);
  EXPECT_TRUE(eventually([&] {
    receive();
    return !receiver_.connected();
  }));
  EXPECT_FALSE(sender->stop_requested());  // learns of it
  sender->send({.kind = Kind::checkpoint, .step = 9, .path = "/runs/checkpoint"});
  std::this_thread::sleep_for(std::chrono::milliseconds(5200));
  sender->send({.kind = Kind::result, .step = 10, .metrics = {{"mae", 1}}});
  EXPECT_TRUE(got(3));
  EXPECT_THAT(steps_, ElementsAre(-1, 9, 10));
  EXPECT_THAT(complaints_, IsEmpty());
}

TEST(ListenAddressText, HostsPortsAndRanges) {
  EXPECT_EQ(parse_listen_address("10.0.0.3"), (ListenAddress{"10.0.0.3", 0, 0}));
  EXPECT_EQ(parse_listen_address("h3:7400"), (ListenAddress{"h3", 7400, 7400}));
  EXPECT_EQ(parse_listen_address("[fe80::1]:7400-7499"), (ListenAddress{"fe80::1", 7400, 7499}));
  EXPECT_EQ(parse_listen_address("fe80::1"), (ListenAddress{"fe80::1", 0, 0}));
  for (const auto* text : {"", ":7400", "h3:", "h3:0", "h3:70000", "h3:9-8", "h3:x", "[::1"})
    EXPECT_THAT(testing::message_of<JobsError>([&] { parse_listen_address(text); }), HasSubstr("--listen")) << text;
}

TEST(ListenTcp, APortOfTheRangeThatIsFreeIsTakenAndNoneIsAnErrorOfTheNode) {
  std::string first, second;
  const auto a = listen_tcp(parse_listen_address("127.0.0.1"), first);
  const auto port = std::stoi(first.substr(first.find(':') + 1));
  const auto range = std::to_string(port) + "-" + std::to_string(std::min(port + 20, 65535));
  const auto b = listen_tcp(parse_listen_address("127.0.0.1:" + range), second);
  EXPECT_NE(first, second);
  EXPECT_THAT(testing::message_of<NodeError>([&] { listen_tcp(parse_listen_address(first), second); }),
              HasSubstr("in use"));
  EXPECT_THAT(testing::message_of<NodeError>([&] { listen_tcp(parse_listen_address("192.0.2.1"), second); }),
              HasSubstr("192.0.2.1"));
}

}  // namespace
}  // namespace foretime::jobs
