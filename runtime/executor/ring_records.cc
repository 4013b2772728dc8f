#include "runtime/executor/ring_records.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace tessera::runtime {
namespace {

struct CommandHeader {
  uint32_t kind;
  uint32_t num_params;
  uint64_t id;
  uint64_t object;
  uint32_t grid[3];
  uint32_t reserved;
  uint64_t program_order_seed;
};

struct CompletionHeader {
  uint64_t id;
  uint64_t start_ns;
  uint64_t end_ns;
  uint32_t code;
  uint32_t message_bytes;
  uint32_t printed_bytes;
  uint32_t reserved;
};

static_assert(sizeof(LaunchParam) == 24, "LaunchParam travels as it is");

// `text`, or its beginning and a note on what is missing (`dropped` bytes are already), in at most
// `max_bytes` bytes.
std::string Cut(absl::string_view text, uint64_t dropped, uint64_t max_bytes) {
  constexpr uint64_t kNoteBytes = 64;
  if (text.size() <= max_bytes && dropped == 0) return std::string(text.data(), text.size());
  const uint64_t kept =
      std::min<uint64_t>(text.size(), max_bytes - std::min(max_bytes, kNoteBytes));
  return absl::StrCat(text.substr(0, kept), "\n[", text.size() - kept + dropped,
                      " more bytes left out]\n");
}

}  // namespace

std::string EncodeCommand(CommandKind kind, uint64_t id, const LaunchCommand& command) {
  const CommandHeader header = {static_cast<uint32_t>(kind),
                                command.num_params,
                                id,
                                command.kernel,
                                {command.grid[0], command.grid[1], command.grid[2]},
                                0,
                                command.program_order_seed};
  const size_t param_bytes = size_t{command.num_params} * sizeof(LaunchParam);
  std::string record(sizeof(header) + param_bytes, '\0');
  std::memcpy(&record[0], &header, sizeof(header));
  if (param_bytes > 0) std::memcpy(&record[sizeof(header)], command.params, param_bytes);
  return record;
}

std::string EncodeRemoval(CommandKind kind, uint64_t object) {
  LaunchCommand command;
  command.kernel = object;
  return EncodeCommand(kind, 0, command);
}

absl::Status DecodeCommand(absl::string_view record, RingCommand* command) {
  CommandHeader header;
  if (record.size() < sizeof(header)) return absl::DataLossError("a launch record is too short");
  std::memcpy(&header, record.data(), sizeof(header));
  if (record.size() != sizeof(header) + uint64_t{header.num_params} * sizeof(LaunchParam)) {
    return absl::DataLossError("a launch record's length does not fit its contents");
  }
  if (header.kind < static_cast<uint32_t>(CommandKind::kLaunch) ||
      header.kind > static_cast<uint32_t>(CommandKind::kUnloadKernel)) {
    return absl::DataLossError(absl::StrCat("a launch record is of unknown kind ", header.kind));
  }
  command->kind = static_cast<CommandKind>(header.kind);
  command->id = header.id;
  command->object = header.object;
  std::copy(header.grid, header.grid + 3, command->grid);
  command->program_order_seed = header.program_order_seed;
  command->params.resize(header.num_params);
  if (header.num_params > 0) {
    std::memcpy(command->params.data(), record.data() + sizeof(header),
                header.num_params * sizeof(LaunchParam));
  }
  return absl::OkStatus();
}

std::string EncodeCompletion(const RingCompletion& completion, uint64_t max_bytes) {
  const uint64_t room = max_bytes - sizeof(CompletionHeader);
  const std::string message = Cut(completion.status.message(), 0, room / 4);
  const std::string printed = Cut(completion.printed, completion.printed_dropped, room - room / 4);
  const CompletionHeader header = {completion.id,
                                   completion.start_ns,
                                   completion.end_ns,
                                   static_cast<uint32_t>(completion.status.code()),
                                   static_cast<uint32_t>(message.size()),
                                   static_cast<uint32_t>(printed.size()),
                                   0};
  std::string record(sizeof(header), '\0');
  std::memcpy(&record[0], &header, sizeof(header));
  return record + message + printed;
}

absl::Status DecodeCompletion(absl::string_view record, RingCompletion* completion) {
  CompletionHeader header;
  if (record.size() < sizeof(header)) return absl::DataLossError("a completion is too short");
  std::memcpy(&header, record.data(), sizeof(header));
  if (record.size() != sizeof(header) + uint64_t{header.message_bytes} + header.printed_bytes) {
    return absl::DataLossError("a completion's length does not fit its contents");
  }
  if (header.code > static_cast<uint32_t>(absl::StatusCode::kUnauthenticated)) {
    return absl::DataLossError(
        absl::StrCat("a completion has the unknown status code ", header.code));
  }
  completion->id = header.id;
  completion->start_ns = header.start_ns;
  completion->end_ns = header.end_ns;
  completion->status = absl::Status(static_cast<absl::StatusCode>(header.code),
                                    record.substr(sizeof(header), header.message_bytes));
  completion->printed.assign(record.data() + sizeof(header) + header.message_bytes,
                             header.printed_bytes);
  return absl::OkStatus();
}

}  // namespace tessera::runtime
