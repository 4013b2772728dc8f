#include "client/cpp/launch_stream.h"

#include <thread>
#include <utility>

#include "absl/time/clock.h"

namespace tessera {
namespace {

constexpr int kMostInMessage = 64;
constexpr unsigned kCoresToSpin = 8;

}  // namespace

absl::Duration LaunchStream::DefaultSpin() {
  static const bool spins = std::thread::hardware_concurrency() >= kCoresToSpin;
  return spins ? absl::Microseconds(100) : absl::ZeroDuration();
}

LaunchStream::LaunchStream(Client* client, absl::Duration spin) : client_(client), spin_(spin) {
  calls_ = client_->launches().AsyncLaunchStream(&context_, &queue_, reinterpret_cast<void*>(kStarted));
  HandleNext();
}

LaunchStream::~LaunchStream() {
  context_.TryCancel();
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

void LaunchStream::Send(const v1::LaunchRequest& launch) {
  if (waiting_launches_ >= kMostInMessage) Flush();
  v1::LaunchRequest* request = waiting_launches_ == 0 ? &waiting_ : waiting_.add_more();
  *request = launch;
  request->set_session(client_->session());
  ++waiting_launches_;
  ++in_flight_;
}

void LaunchStream::Flush() {
  while (waiting_launches_ > 0 && !ended_) {
    WriteIfFree();
    if (waiting_launches_ > 0) HandleNext();
  }
}

void LaunchStream::WriteIfFree() {
  if (writes_ || ended_ || waiting_launches_ == 0) return;
  writing_.Swap(&waiting_);
  waiting_.Clear();
  waiting_launches_ = 0;
  writes_ = true;
  calls_->Write(writing_, reinterpret_cast<void*>(kWritten));
}

void LaunchStream::Take() {
  v1::LaunchResponse message;
  message.Swap(&reading_);
  google::protobuf::RepeatedPtrField<v1::LaunchResponse> more;
  more.Swap(message.mutable_more());
  answers_.push_back(std::move(message));
  for (v1::LaunchResponse& answer : more) answers_.push_back(std::move(answer));
}

bool LaunchStream::HandleNext() {
  void* tag = nullptr;
  bool ok = false, got = false;
  for (absl::Time until = absl::Now() + spin_; !got && absl::Now() < until;)
    got = queue_.AsyncNext(&tag, &ok, gpr_inf_past(GPR_CLOCK_MONOTONIC)) == grpc::CompletionQueue::GOT_EVENT;
  if (!got && !queue_.Next(&tag, &ok)) return false;
  switch (static_cast<Tag>(reinterpret_cast<intptr_t>(tag))) {
    case kStarted:
      break;
    case kWritten:
      writes_ = false;
      break;
    case kRead:
      if (!ok) break;
      Take();
      break;
  }
  if (!ok) {
    ended_ = true;
    return false;
  }
  if (reinterpret_cast<intptr_t>(tag) != kWritten) {
    calls_->Read(&reading_, reinterpret_cast<void*>(kRead));
  }
  return true;
}

absl::StatusOr<v1::LaunchResponse> LaunchStream::Receive() {
  if (in_flight_ == 0) return absl::FailedPreconditionError("every launch is answered");
  while (answers_.empty()) {
    WriteIfFree();
    if (ended_ || !HandleNext()) {
      in_flight_ = 0;
      return absl::UnavailableError("the daemon closed the stream of launches");
    }
  }
  v1::LaunchResponse answer = std::move(answers_.front());
  answers_.pop_front();
  --in_flight_;
  return answer;
}

}  // namespace tessera
