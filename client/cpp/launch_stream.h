// Many launches in flight over one stream of requests.
//
//   tessera::LaunchStream stream(client.get());
//   stream.Send(launch);               // as often as wanted; the tag tells answers apart
//   auto answer = stream.Receive();    // in order of completion
//
// Launches that wait to be sent travel in one message, which costs little more than one launch.
#ifndef TESSERA_CLIENT_CPP_LAUNCH_STREAM_H_
#define TESSERA_CLIENT_CPP_LAUNCH_STREAM_H_

#include <cstdint>
#include <deque>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/client.h"

namespace tessera {

// For one thread.
class LaunchStream {
 public:
  // How long Receive looks for an answer before it sleeps: a core that has gone idle takes 10 to 40 us to wake up. Zero on
  // machines of fewer than 8 cores, where the daemon needs them.
  static absl::Duration DefaultSpin();

  // `client` must outlive this object.
  explicit LaunchStream(Client* client, absl::Duration spin = DefaultSpin());
  ~LaunchStream();  // launches that were sent may still run; their answers are lost
  LaunchStream(const LaunchStream&) = delete;
  LaunchStream& operator=(const LaunchStream&) = delete;

  // Takes a launch; the session is filled in. It leaves with the next Flush or Receive.
  void Send(const v1::LaunchRequest& launch);
  void Flush();
  // The next answer; a launch that failed has a code other than 0. FAILED_PRECONDITION: every launch is answered.
  // UNAVAILABLE: the daemon is gone, or ended the stream.
  absl::StatusOr<v1::LaunchResponse> Receive();

  int in_flight() const { return in_flight_; }  // taken and not received

 private:
  enum Tag : intptr_t { kStarted = 1, kWritten = 2, kRead = 3 };
  void WriteIfFree();
  void Take();        // the answers of the message that was read
  bool HandleNext();  // waits for one event of gRPC; false: the stream has ended

  Client* const client_;
  const absl::Duration spin_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<v1::LaunchRequest, v1::LaunchResponse>> calls_;
  v1::LaunchRequest waiting_, writing_;
  int waiting_launches_ = 0;
  bool writes_ = false, ended_ = false;
  v1::LaunchResponse reading_;
  std::deque<v1::LaunchResponse> answers_;
  int in_flight_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_CLIENT_CPP_LAUNCH_STREAM_H_
