// Sessions and their regions.
#ifndef TESSERA_SERVER_SESSION_SESSION_REGISTRY_H_
#define TESSERA_SERVER_SESSION_SESSION_REGISTRY_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/memory/descriptor_socket.h"
#include "runtime/memory/unique_fd.h"
#include "server/session/detached_launches.h"
#include "server/session/device_event.h"
#include "server/session/region.h"
#include "server/telemetry/metrics.h"

namespace tessera::server {

struct SessionLimits {
  uint32_t sessions = 1024;
  uint32_t regions = 4096;             // a session
  uint64_t bytes = 0;                  // of all regions of a session; 0: no limit
  uint32_t launches_in_flight = 1024;  // a session
  absl::Duration lease = absl::Seconds(60);
};

// How far a session's launches on GPUs are to be guarded (server/launch/guard_policy.h).
struct GuardPolicy {
  enum class Mode : uint8_t { kDefault, kNever, kFirst, kEveryNth, kAlways };
  Mode mode = Mode::kDefault;
  uint32_t n = 1;  // of kEveryNth, at least 1
};

// Who is at the other end of the descriptor socket.
using Peer = runtime::PeerCredentials;

// Thread-safe.
class Session {
 public:
  Session(uint64_t id, std::string token, std::string client_name, std::optional<Peer> peer,
          const SessionLimits& limits)
      : id_(id),
        token_(std::move(token)),
        client_name_(std::move(client_name)),
        peer_(peer),
        limits_(limits) {}

  uint64_t id() const { return id_; }  // unique in this process; no secret
  const std::string& token() const { return token_; }
  const std::string& client_name() const { return client_name_; }
  const std::optional<Peer>& peer() const { return peer_; }

  // RESOURCE_EXHAUSTED at the session's limits, UNAVAILABLE after Close.
  absl::Status AddRegion(std::shared_ptr<Region> region);
  // Whether `bytes` more would still be allowed; to refuse before memory is made.
  absl::Status CheckRoomFor(uint64_t bytes) const;
  // NOT_FOUND: never was, was released, or belongs to another session.
  absl::StatusOr<std::shared_ptr<Region>> FindRegion(uint64_t id) const;
  // For the launch path: null if it is not here.
  std::shared_ptr<Region> FindRegionOrNull(uint64_t id) const;
  absl::Status ReleaseRegion(uint64_t id);
  std::vector<std::shared_ptr<Region>> Regions() const;

  // RESOURCE_EXHAUSTED at the session's limit, UNAVAILABLE after Close.
  absl::Status AddEvent(std::shared_ptr<DeviceEvent> event);
  // NOT_FOUND: never was, was released, or belongs to another session.
  absl::StatusOr<std::shared_ptr<DeviceEvent>> FindEvent(uint64_t id) const;
  absl::Status ReleaseEvent(uint64_t id);

  // Its launches that were answered before they ended.
  const std::shared_ptr<DetachedLaunches>& detached() const { return detached_; }

  void SetGuardPolicy(GuardPolicy policy) {
    guard_.store(static_cast<uint64_t>(policy.mode) << 32 | policy.n, std::memory_order_relaxed);
  }
  GuardPolicy guard_policy() const {
    const uint64_t guard = guard_.load(std::memory_order_relaxed);
    return {static_cast<GuardPolicy::Mode>(guard >> 32), static_cast<uint32_t>(guard)};
  }

  // Descriptors received and not imported yet.
  absl::StatusOr<uint64_t> AddTicket(runtime::UniqueFd fd);
  absl::StatusOr<runtime::UniqueFd> TakeTicket(uint64_t ticket);

  // False at the limit of launches in flight. Each true wants an EndLaunch.
  bool BeginLaunch() {
    if (launches_.fetch_add(1, std::memory_order_relaxed) < limits_.launches_in_flight) return true;
    launches_.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  void EndLaunch() { launches_.fetch_sub(1, std::memory_order_relaxed); }
  uint32_t launch_limit() const { return limits_.launches_in_flight; }

  // Drops all regions and tickets; launches in flight keep what they use.
  void Close();

 private:
  friend class SessionRegistry;
  absl::Status CheckRoomLocked(uint64_t bytes) const;

  const uint64_t id_;
  const std::string token_, client_name_;
  const std::optional<Peer> peer_;  // absent: opened over gRPC, lives by its lease
  const SessionLimits limits_;
  std::atomic<uint32_t> launches_{0};
  std::atomic<uint64_t> guard_{1};  // mode and n
  std::atomic<int64_t> renewed_ns_{0};  // monotonic; of leased sessions

  mutable absl::Mutex mutex_;
  bool closed_ = false;
  uint64_t bytes_ = 0, next_ticket_ = 1;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Region>> regions_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<DeviceEvent>> events_;
  absl::flat_hash_map<uint64_t, runtime::UniqueFd> tickets_;
  const std::shared_ptr<DetachedLaunches> detached_ = std::make_shared<DetachedLaunches>();
};

// Thread-safe.
class SessionRegistry {
 public:
  using Clock = std::function<std::chrono::nanoseconds()>;  // monotonic

  // `pool` and `metrics` must outlive this object and all regions.
  SessionRegistry(SessionLimits limits, TaskPool* pool, Metrics* metrics, Clock clock = nullptr);

  // With a `peer` the session lives until Close; without one it lives by its lease.
  absl::StatusOr<std::shared_ptr<Session>> Open(std::string client_name, std::optional<Peer> peer);
  // UNAUTHENTICATED: no such session, or it has ended. Counts as use, so it renews a lease.
  absl::StatusOr<std::shared_ptr<Session>> Find(absl::string_view token) const;
  void Close(absl::string_view token);
  // Ends sessions whose lease has run out; returns how many.
  int ExpireLeases();
  void CloseAll();

  // Unique, for regions and events alike.
  uint64_t NewId() { return next_region_.fetch_add(1, std::memory_order_relaxed); }
  TaskPool* pool() const { return pool_; }
  // A region with a new id, unless the description has one; its bytes count in the metrics until it
  // goes.
  std::shared_ptr<Region> MakeRegion(RegionDescription description, runtime::UniqueFd fd);

  const SessionLimits& limits() const { return limits_; }
  uint32_t sessions() const;
  uint32_t regions() const { return regions_.load(std::memory_order_relaxed); }
  uint64_t mapped_bytes() const { return mapped_bytes_.load(std::memory_order_relaxed); }

 private:
  std::chrono::nanoseconds Now() const;

  const SessionLimits limits_;
  TaskPool* const pool_;
  Metrics* const metrics_;
  const Clock clock_;
  std::atomic<uint64_t> next_region_{1}, next_session_{1};
  std::atomic<uint32_t> regions_{0};
  std::atomic<uint64_t> mapped_bytes_{0};
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<Session>> sessions_;
};

}  // namespace tessera::server

#endif  // TESSERA_SERVER_SESSION_SESSION_REGISTRY_H_
