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
  uint32_t stream;
  uint64_t session;
  int32_t priority;
  uint16_t num_waits;
  uint16_t num_signals;
  uint32_t tell_enqueued;
  uint32_t unused;  // no gap
  uint64_t part;
  uint64_t program_order_seed;
};

struct CompletionHeader {
  uint64_t id;
  uint64_t start_ns;
  uint64_t end_ns;
  uint32_t code;
  uint32_t message_bytes;
  uint32_t printed_bytes;
  uint32_t enqueued;
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
                                command.stream,
                                command.session,
                                command.priority,
                                static_cast<uint16_t>(command.waits.size()),
                                static_cast<uint16_t>(command.signals.size()),
                                command.on_enqueued ? 1u : 0u,
                                0,
                                command.part,
                                command.program_order_seed};
  const size_t param_bytes = size_t{command.num_params} * sizeof(LaunchParam);
  const size_t wait_bytes = command.waits.size() * sizeof(uint64_t);
  const size_t signal_bytes = command.signals.size() * sizeof(uint64_t);
  std::string record(sizeof(header) + param_bytes + wait_bytes + signal_bytes, '\0');
  char* at = &record[0];
  auto append = [&at](const void* from, size_t bytes) {
    if (bytes > 0) std::memcpy(at, from, bytes);
    at += bytes;
  };
  append(&header, sizeof(header));
  append(command.params, param_bytes);
  append(command.waits.data(), wait_bytes);
  append(command.signals.data(), signal_bytes);
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
  if (record.size() != sizeof(header) + uint64_t{header.num_params} * sizeof(LaunchParam) +
                           (uint64_t{header.num_waits} + header.num_signals) * sizeof(uint64_t)) {
    return absl::DataLossError("a launch record's length does not fit its contents");
  }
  if (header.kind < static_cast<uint32_t>(CommandKind::kLaunch) ||
      header.kind > static_cast<uint32_t>(CommandKind::kReleaseEvent)) {
    return absl::DataLossError(absl::StrCat("a launch record is of unknown kind ", header.kind));
  }
  command->kind = static_cast<CommandKind>(header.kind);
  command->id = header.id;
  command->object = header.object;
  std::copy(header.grid, header.grid + 3, command->grid);
  command->program_order_seed = header.program_order_seed;
  command->session = header.session;
  command->stream = header.stream;
  command->priority = header.priority;
  command->tell_enqueued = header.tell_enqueued != 0;
  command->part = header.part;
  const char* at = record.data() + sizeof(header);
  auto take = [&at](auto* into, size_t count) {
    into->resize(count);
    const size_t bytes = count * sizeof((*into)[0]);
    if (bytes > 0) std::memcpy(into->data(), at, bytes);
    at += bytes;
  };
  take(&command->params, header.num_params);
  take(&command->waits, header.num_waits);
  take(&command->signals, header.num_signals);
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
                                   completion.enqueued ? 1u : 0u};
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
  completion->enqueued = header.enqueued != 0;
  completion->start_ns = header.start_ns;
  completion->end_ns = header.end_ns;
  completion->status = absl::Status(static_cast<absl::StatusCode>(header.code),
                                    record.substr(sizeof(header), header.message_bytes));
  completion->printed.assign(record.data() + sizeof(header) + header.message_bytes,
                             header.printed_bytes);
  return absl::OkStatus();
}

}  // namespace tessera::runtime
