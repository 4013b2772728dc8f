#include "runtime/executor/ring_records.h"

#include "gtest/gtest.h"

namespace tessera::runtime {
namespace {

TEST(RingRecordsTest, CommandsComeThroughWhole) {
  const LaunchParam params[] = {{7, 4096, 128}, {0, 0xffffffffffffffff, 0}};
  LaunchCommand launch;
  launch.kernel = 5;
  launch.grid[0] = 3;
  launch.grid[2] = 9;
  launch.params = params;
  launch.num_params = 2;
  RingCommand command;
  ASSERT_TRUE(DecodeCommand(EncodeCommand(CommandKind::kLaunch, 42, launch), &command).ok());
  EXPECT_EQ(command.kind, CommandKind::kLaunch);
  EXPECT_EQ(command.id, 42u);
  EXPECT_EQ(command.object, 5u);
  EXPECT_EQ(command.grid[0], 3u);
  EXPECT_EQ(command.grid[1], 1u);
  EXPECT_EQ(command.grid[2], 9u);
  EXPECT_EQ(command.part, 0u);
  ASSERT_EQ(command.params.size(), 2u);
  EXPECT_EQ(command.params[0].region, 7u);
  EXPECT_EQ(command.params[0].value, 4096u);
  EXPECT_EQ(command.params[0].extent_bytes, 128u);
  EXPECT_EQ(command.params[1].value, 0xffffffffffffffff);
  ASSERT_TRUE(DecodeCommand(EncodeRemoval(CommandKind::kUnmapRegion, 8), &command).ok());
  EXPECT_EQ(command.kind, CommandKind::kUnmapRegion);
  EXPECT_EQ(command.object, 8u);
}

TEST(RingRecordsTest, StreamsAndEventsComeThroughWhole) {
  LaunchCommand launch;
  launch.session = 11;
  launch.stream = 2;
  launch.priority = -1;
  launch.waits = {21, 22, 23};
  launch.signals = {31};
  launch.on_enqueued = [] {};
  launch.part = uint64_t{1} << 40;
  RingCommand command;
  ASSERT_TRUE(DecodeCommand(EncodeCommand(CommandKind::kLaunch, 1, launch), &command).ok());
  EXPECT_EQ(command.session, 11u);
  EXPECT_EQ(command.stream, 2u);
  EXPECT_EQ(command.priority, -1);
  EXPECT_EQ(command.waits, (std::vector<uint64_t>{21, 22, 23}));
  EXPECT_EQ(command.signals, std::vector<uint64_t>{31});
  EXPECT_TRUE(command.tell_enqueued);
  EXPECT_EQ(command.part, uint64_t{1} << 40);
}

TEST(RingRecordsTest, DamagedCommandsAreRefused) {
  RingCommand command;
  const std::string good = EncodeCommand(CommandKind::kLaunch, 1, LaunchCommand());
  for (std::string bad :
       {std::string(), good.substr(1), good + "x", std::string(good.size(), '\xff')}) {
    EXPECT_EQ(DecodeCommand(bad, &command).code(), absl::StatusCode::kDataLoss);
  }
  std::string unknown = good;
  unknown[0] = 77;
  EXPECT_EQ(DecodeCommand(unknown, &command).code(), absl::StatusCode::kDataLoss);
}

TEST(RingRecordsTest, CompletionsComeThroughWhole) {
  RingCompletion sent;
  sent.id = 3;
  sent.status = absl::AbortedError("x > 0");
  sent.start_ns = 10;
  sent.end_ns = 20;
  sent.printed = "line\n";
  RingCompletion received;
  ASSERT_TRUE(DecodeCompletion(EncodeCompletion(sent, 4096), &received).ok());
  EXPECT_EQ(received.id, 3u);
  EXPECT_EQ(received.status, absl::AbortedError("x > 0"));
  EXPECT_EQ(received.start_ns, 10u);
  EXPECT_EQ(received.end_ns, 20u);
  EXPECT_EQ(received.printed, "line\n");
}

TEST(RingRecordsTest, LongOutputIsCutAndSaysSo) {
  RingCompletion sent;
  sent.status = absl::InternalError(std::string(100000, 'm'));
  sent.printed = std::string(10000, 'p');
  sent.printed_dropped = 5;
  const std::string record = EncodeCompletion(sent, 4096);
  EXPECT_LE(record.size(), 4096u);
  RingCompletion received;
  ASSERT_TRUE(DecodeCompletion(record, &received).ok());
  const std::string message(received.status.message());
  size_t shown = message.find('\n');
  EXPECT_EQ(message.substr(shown),
            "\n[" + std::to_string(100000 - shown) + " more bytes left out]\n");
  shown = received.printed.find('\n');
  EXPECT_EQ(received.printed.substr(shown),
            "\n[" + std::to_string(10005 - shown) + " more bytes left out]\n");
}

TEST(RingRecordsTest, DamagedCompletionsAreRefused) {
  RingCompletion received;
  const std::string good = EncodeCompletion(RingCompletion(), 4096);
  for (std::string bad :
       {std::string(), good.substr(1), good + "x", std::string(good.size(), '\xff')}) {
    EXPECT_EQ(DecodeCompletion(bad, &received).code(), absl::StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace tessera::runtime
