#include "runtime/memory/descriptor_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "gtest/gtest.h"

namespace tessera::runtime {
namespace {

class Pipe {
 public:
  Pipe() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    read_ = UniqueFd(ends[0]);
    write_ = UniqueFd(ends[1]);
  }
  int write_end() const { return write_.get(); }
  void CloseWriteEnd() { write_.reset(); }
  std::string ReadAll() {
    char buffer[64];
    const ssize_t bytes = read(read_.get(), buffer, sizeof(buffer));
    return std::string(buffer, bytes > 0 ? bytes : 0);
  }

 private:
  UniqueFd read_, write_;
};

void WriteText(int fd, const std::string& text) {
  ASSERT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

std::pair<UniqueFd, UniqueFd> Pair(int type) {
  auto ends = MakeSocketPair(type);
  EXPECT_TRUE(ends.ok()) << ends.status();
  return *std::move(ends);
}

TEST(DescriptorSocketTest, PacketsCarryBytesAndWorkingDescriptors) {
  auto ends = Pair(SOCK_SEQPACKET);
  Pipe pipe;
  ASSERT_TRUE(SendPacket(ends.first.get(), "hello", {pipe.write_end()}).ok());
  pipe.CloseWriteEnd();
  auto packet = ReceivePacket(ends.second.get(), 100);
  ASSERT_TRUE(packet.ok()) << packet.status();
  EXPECT_EQ(packet->bytes, "hello");
  ASSERT_EQ(packet->descriptors.size(), 1u);
  WriteText(packet->descriptors[0].get(), "through the copy");
  EXPECT_EQ(pipe.ReadAll(), "through the copy");
  EXPECT_NE(fcntl(packet->descriptors[0].get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(DescriptorSocketTest, PacketsTooLongAreRefusedAndTheirDescriptorsClosed) {
  auto ends = Pair(SOCK_SEQPACKET);
  Pipe pipe;
  ASSERT_TRUE(SendPacket(ends.first.get(), std::string(101, 'x'), {pipe.write_end()}).ok());
  EXPECT_EQ(ReceivePacket(ends.second.get(), 100).status().code(), absl::StatusCode::kDataLoss);
  pipe.CloseWriteEnd();
  EXPECT_EQ(pipe.ReadAll(), "");  // the end of the file: no copy of the write end is left
}

TEST(DescriptorSocketTest, EndOfConnectionIsToldApart) {
  for (int type : {SOCK_SEQPACKET, SOCK_STREAM}) {
    auto ends = Pair(type);
    ends.first.reset();
    const absl::Status status = type == SOCK_STREAM
                                    ? ReceiveFrame(ends.second.get(), 100).status()
                                    : ReceivePacket(ends.second.get(), 100).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
    const absl::Status sent = type == SOCK_STREAM ? SendFrame(ends.second.get(), "x")
                                                  : SendPacket(ends.second.get(), "x");
    EXPECT_EQ(sent.code(), absl::StatusCode::kUnavailable) << sent;
  }
}

TEST(DescriptorSocketTest, FramesLargerThanTheSocketBufferArriveWholeWithTheirDescriptors) {
  auto ends = Pair(SOCK_STREAM);
  Pipe pipe;
  const std::string large(5 << 20, 'L');
  std::thread sender([&] {
    ASSERT_TRUE(SendFrame(ends.first.get(), large, {pipe.write_end()}).ok());
    ASSERT_TRUE(SendFrame(ends.first.get(), "").ok());
    ASSERT_TRUE(SendFrame(ends.first.get(), "last").ok());
  });
  auto frame = ReceiveFrame(ends.second.get(), 8 << 20);
  ASSERT_TRUE(frame.ok()) << frame.status();
  EXPECT_EQ(frame->bytes, large);
  ASSERT_EQ(frame->descriptors.size(), 1u);
  WriteText(frame->descriptors[0].get(), "works");
  EXPECT_EQ(pipe.ReadAll(), "works");
  EXPECT_EQ(ReceiveFrame(ends.second.get(), 100)->bytes, "");
  EXPECT_EQ(ReceiveFrame(ends.second.get(), 100)->bytes, "last");
  sender.join();
}

TEST(DescriptorSocketTest, CutAndOversizedFramesAreDataLoss) {
  auto ends = Pair(SOCK_STREAM);
  ASSERT_TRUE(SendFrame(ends.first.get(), std::string(101, 'x')).ok());
  EXPECT_EQ(ReceiveFrame(ends.second.get(), 100).status().code(), absl::StatusCode::kDataLoss);
  auto other = Pair(SOCK_STREAM);
  WriteText(other.first.get(), std::string("\x08\0\0\0half", 8));
  other.first.reset();
  EXPECT_EQ(ReceiveFrame(other.second.get(), 100).status().code(), absl::StatusCode::kDataLoss);
}

TEST(DescriptorSocketTest, ShowsThePeersIdentity) {
  auto ends = Pair(SOCK_STREAM);
  auto credentials = GetPeerCredentials(ends.first.get());
  ASSERT_TRUE(credentials.ok());
  EXPECT_EQ(credentials->pid, getpid());
  EXPECT_EQ(credentials->uid, geteuid());
  EXPECT_EQ(credentials->gid, getegid());
}

TEST(DescriptorSocketTest, RefusesTooManyDescriptors) {
  auto ends = Pair(SOCK_SEQPACKET);
  const std::vector<int> many(kMaxDescriptors + 1, ends.first.get());
  EXPECT_EQ(SendPacket(ends.first.get(), "x", many).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tessera::runtime
