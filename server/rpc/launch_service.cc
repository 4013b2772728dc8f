#include "server/rpc/launch_service.h"

#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "server/rpc/grpc_status.h"
#include "server/rpc/socket_polling.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

// Launches of one stream in flight or unsent; beyond it we stop reading, and gRPC's flow control
// reaches the client.
constexpr int kStreamWindow = 256;

absl::Status MoreThanOne() {
  return Error(absl::StatusCode::kInvalidArgument, "SEVERAL_LAUNCHES",
               "several launches in one message are for the messages of a stream");
}

// One stream of launches. Reads go on while launches run; answers leave in order of completion.
// Deletes itself when gRPC is done with it and no launch refers to it any more.
class LaunchStreamReactor
    : public grpc::ServerBidiReactor<api::LaunchRequest, api::LaunchResponse> {
 public:
  LaunchStreamReactor(Launcher* launcher, absl::Duration spin) : launcher_(launcher), spin_(spin) {
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      std::unique_lock<std::mutex> lock(mutex_);
      reading_ended_ = true;
      FinishIfIdle(&lock);
      return;
    }
    ExpectLaunches();
    LaunchWait wait;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      open_ += 1 + request_.more_size();
      several_ |= request_.more_size() > 0;
      // One at a time: the client waits for this answer, and nothing else is held up meanwhile.
      if (open_ == 1) wait.spin = spin_;
    }
    Launch(request_, wait);
    for (const api::LaunchRequest& request : request_.more()) Launch(request, wait);
    bool read = false;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      read = open_ < kStreamWindow && !broken_;
      paused_ = !read;
    }
    if (read) StartRead(&request_);
  }

  void OnWriteDone(bool ok) override {
    std::unique_lock<std::mutex> lock(mutex_);
    open_ -= 1 + writing_->more_size();
    writing_.reset();
    if (!ok) broken_ = true;
    WriteNext(&lock);
  }

  void OnCancel() override {
    std::unique_lock<std::mutex> lock(mutex_);
    broken_ = true;
    FinishIfIdle(&lock);
  }

  void OnDone() override { delete this; }

 private:
  void Launch(const api::LaunchRequest& request, LaunchWait wait) {
    api::LaunchResponse* raw = new api::LaunchResponse;
    auto done = [this, raw](absl::Status status) {
      std::unique_ptr<api::LaunchResponse> response(raw);
      SetStatus(status, response.get());
      Answer(std::move(response));
    };
    if (request.more_size() > 0 && &request != &request_) {
      raw->set_tag(request.tag());
      return done(MoreThanOne());
    }
    launcher_->Launch(request, wait, raw, done);
  }

  void Answer(std::unique_ptr<api::LaunchResponse> response) {
    std::unique_lock<std::mutex> lock(mutex_);
    ready_.push_back(std::move(response));
    if (writing_ == nullptr) WriteNext(&lock);
  }

  // With the lock held; gives it up for gRPC's calls.
  void WriteNext(std::unique_lock<std::mutex>* lock) {
    if (broken_) {
      open_ -= static_cast<int>(ready_.size());
      ready_.clear();
    }
    bool resume = paused_ && open_ < kStreamWindow && !reading_ended_ && !broken_;
    if (resume) paused_ = false;
    if (ready_.empty()) {
      if (resume) {
        lock->unlock();
        StartRead(&request_);
        return;
      }
      FinishIfIdle(lock);
      return;
    }
    writing_ = std::move(ready_.front());
    ready_.pop_front();
    for (; several_ && !ready_.empty(); ready_.pop_front())
      writing_->mutable_more()->AddAllocated(ready_.front().release());
    grpc::WriteOptions options;
    // More answers follow: let gRPC send them together.
    if (!ready_.empty()) options.set_buffer_hint();
    api::LaunchResponse* next = writing_.get();
    lock->unlock();
    if (resume) StartRead(&request_);
    StartWrite(next, options);
  }

  void FinishIfIdle(std::unique_lock<std::mutex>* lock) {
    if (finished_ || open_ > 0 || writing_ != nullptr) return;
    if (!reading_ended_ && !broken_) return;
    finished_ = true;
    lock->unlock();
    Finish(grpc::Status::OK);
  }

  Launcher* const launcher_;
  const absl::Duration spin_;
  api::LaunchRequest request_;
  std::mutex mutex_;
  int open_ = 0;          // read and not yet written
  bool several_ = false;  // the client packs several launches into a message, and may get answers so
  bool paused_ = false, reading_ended_ = false, broken_ = false, finished_ = false;
  std::unique_ptr<api::LaunchResponse> writing_;
  std::deque<std::unique_ptr<api::LaunchResponse>> ready_;
};

}  // namespace

grpc::ServerUnaryReactor* LaunchService::Launch(grpc::CallbackServerContext* context,
                                                const api::LaunchRequest* request,
                                                api::LaunchResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  if (request->more_size() > 0) {
    call->Finish(ToGrpc(MoreThanOne(), context));
    return call;
  }
  ExpectLaunches();
  LaunchWait wait;
  wait.timeout = TimeLeft(*context);
  wait.spin = spin_;
  launcher_->Launch(*request, wait, response,
                    [=](absl::Status status) { call->Finish(ToGrpc(status, context)); });
  return call;
}

grpc::ServerBidiReactor<api::LaunchRequest, api::LaunchResponse>* LaunchService::LaunchStream(
    grpc::CallbackServerContext*) {
  return new LaunchStreamReactor(launcher_, spin_);
}

grpc::ServerUnaryReactor* LaunchService::Synchronize(grpc::CallbackServerContext* context,
                                                     const api::SynchronizeRequest* request,
                                                     api::SynchronizeResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  launcher_->Synchronize(request->session(),
                         [=](absl::Status status, api::SynchronizeResponse failures) {
                           *response = std::move(failures);
                           call->Finish(ToGrpc(status, context));
                         });
  return call;
}

}  // namespace tessera::server
