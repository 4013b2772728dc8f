// The answer to a launch that is given when the device has it, and what becomes of it afterwards.
#ifndef TESSERA_SERVER_LAUNCH_DETACHED_ANSWER_H_
#define TESSERA_SERVER_LAUNCH_DETACHED_ANSWER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "proto/tessera/v1/launch.pb.h"
#include "server/session/detached_launches.h"
#include "server/status/error_detail.h"

namespace tessera::server {

// Shared by the two callbacks of a launch; one of them answers, whichever comes first.
class DetachedAnswer {
 public:
  // `response` lives until `done` runs, no longer.
  DetachedAnswer(std::shared_ptr<DetachedLaunches> launches, tessera::v1::LaunchResponse* response,
                 std::function<void(absl::Status)> done)
      : launches_(std::move(launches)),
        generation_(launches_->Begin()),
        response_(response),
        done_(std::move(done)) {
    later_.set_tag(response->tag());
  }

  // Where to write what is known at the launch's end only.
  tessera::v1::LaunchResponse* later() { return &later_; }

  void Enqueued() {
    if (answered_.exchange(true)) return;
    response_->set_enqueued(true);
    done_(absl::OkStatus());
  }

  void Ended(absl::Status status) {
    if (!answered_.exchange(true)) {
      response_->MergeFrom(later_);
      launches_->End(generation_, nullptr);
      done_(std::move(status));
      return;
    }
    if (status.ok()) return launches_->End(generation_, nullptr);
    later_.set_code(static_cast<int>(status.code()));
    later_.set_message(status.message().data(), status.message().size());
    if (auto detail = DetailOf(status)) *later_.mutable_error() = *detail;
    launches_->End(generation_, &later_);
  }

 private:
  const std::shared_ptr<DetachedLaunches> launches_;
  const uint64_t generation_;
  tessera::v1::LaunchResponse* const response_;
  const std::function<void(absl::Status)> done_;
  tessera::v1::LaunchResponse later_;
  std::atomic<bool> answered_{false};
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_LAUNCH_DETACHED_ANSWER_H_
