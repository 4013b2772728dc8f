#include "server/session/session_registry.h"

#include <sys/random.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/status/error_detail.h"
#include "spdlog/spdlog.h"

namespace tessera::server {
namespace {

constexpr size_t kTokenBytes = 16;
// Descriptors offered and never imported; a client that needs more does it in turns.
constexpr size_t kMaxTickets = 256;
constexpr size_t kMaxEvents = 4096;  // a session

absl::StatusOr<std::string> RandomToken() {
  std::string token(kTokenBytes, '\0');
  if (getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(kTokenBytes))
    return absl::ErrnoToStatus(errno, "drawing a session token");
  return token;
}

absl::Status Ended() {
  return Error(absl::StatusCode::kUnauthenticated, "SESSION_UNKNOWN",
               "the session is unknown or has ended; attach again");
}

}  // namespace

absl::Status Session::CheckRoomLocked(uint64_t bytes) const {
  if (closed_) return Ended();
  if (regions_.size() >= limits_.regions)
    return Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_REGIONS",
                 absl::StrCat("the session has its limit of ", limits_.regions, " regions"));
  if (limits_.bytes != 0 && (bytes > limits_.bytes || bytes_ > limits_.bytes - bytes))
    return Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_BYTES",
                 absl::StrCat("the session holds ", bytes_, " bytes; ", bytes,
                              " more exceed its limit of ", limits_.bytes));
  return absl::OkStatus();
}

absl::Status Session::CheckRoomFor(uint64_t bytes) const {
  absl::ReaderMutexLock lock(&mutex_);
  return CheckRoomLocked(bytes);
}

absl::Status Session::AddRegion(std::shared_ptr<Region> region) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckRoomLocked(region->size()));
  bytes_ += region->size();
  uint64_t id = region->id();
  regions_.emplace(id, std::move(region));
  return absl::OkStatus();
}

std::shared_ptr<Region> Session::FindRegionOrNull(uint64_t id) const {
  absl::ReaderMutexLock lock(&mutex_);
  auto found = regions_.find(id);
  return found == regions_.end() ? nullptr : found->second;
}

absl::StatusOr<std::shared_ptr<Region>> Session::FindRegion(uint64_t id) const {
  if (std::shared_ptr<Region> region = FindRegionOrNull(id)) return region;
  return Error(absl::StatusCode::kNotFound, "REGION_UNKNOWN",
               absl::StrCat("region ", id, " was released or never belonged to this session"));
}

absl::Status Session::ReleaseRegion(uint64_t id) {
  std::shared_ptr<Region> released;  // ends outside the lock
  absl::MutexLock lock(&mutex_);
  auto found = regions_.find(id);
  if (found == regions_.end())
    return Error(absl::StatusCode::kNotFound, "REGION_UNKNOWN",
                 absl::StrCat("region ", id, " was released or never belonged to this session"));
  released = std::move(found->second);
  bytes_ -= released->size();
  regions_.erase(found);
  return absl::OkStatus();
}

std::vector<std::shared_ptr<Region>> Session::Regions() const {
  absl::ReaderMutexLock lock(&mutex_);
  std::vector<std::shared_ptr<Region>> regions;
  for (const auto& [id, region] : regions_) regions.push_back(region);
  return regions;
}

absl::Status Session::AddEvent(std::shared_ptr<DeviceEvent> event) {
  absl::MutexLock lock(&mutex_);
  if (closed_) return Ended();
  if (events_.size() >= kMaxEvents)
    return Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_EVENTS",
                 absl::StrCat("the session has its limit of ", kMaxEvents, " events"));
  const uint64_t id = event->id();
  events_.emplace(id, std::move(event));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<DeviceEvent>> Session::FindEvent(uint64_t id) const {
  absl::ReaderMutexLock lock(&mutex_);
  auto found = events_.find(id);
  if (found != events_.end()) return found->second;
  return Error(absl::StatusCode::kNotFound, "EVENT_UNKNOWN",
               absl::StrCat("event ", id, " was released or never belonged to this session"));
}

absl::Status Session::ReleaseEvent(uint64_t id) {
  RETURN_IF_ERROR(FindEvent(id).status());
  std::shared_ptr<DeviceEvent> released;  // ends outside the lock
  absl::MutexLock lock(&mutex_);
  auto found = events_.find(id);
  if (found == events_.end()) return absl::OkStatus();
  released = std::move(found->second);
  events_.erase(found);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Session::AddTicket(runtime::UniqueFd fd) {
  absl::MutexLock lock(&mutex_);
  if (closed_) return Ended();
  if (tickets_.size() >= kMaxTickets)
    return Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_TICKETS",
                 absl::StrCat(kMaxTickets, " descriptors wait to be imported already"));
  tickets_.emplace(next_ticket_, std::move(fd));
  return next_ticket_++;
}

absl::StatusOr<runtime::UniqueFd> Session::TakeTicket(uint64_t ticket) {
  absl::MutexLock lock(&mutex_);
  auto found = tickets_.find(ticket);
  if (found == tickets_.end())
    return Error(
        absl::StatusCode::kNotFound, "TICKET_UNKNOWN",
        absl::StrCat("no descriptor waits under ticket ", ticket, "; each is good for one import"));
  runtime::UniqueFd fd = std::move(found->second);
  tickets_.erase(found);
  return fd;
}

void Session::Close() {
  absl::flat_hash_map<uint64_t, std::shared_ptr<Region>> regions;
  absl::flat_hash_map<uint64_t, std::shared_ptr<DeviceEvent>> events;
  absl::flat_hash_map<uint64_t, runtime::UniqueFd> tickets;
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  events.swap(events_);
  regions.swap(regions_);
  tickets.swap(tickets_);
  bytes_ = 0;
}

SessionRegistry::SessionRegistry(SessionLimits limits, TaskPool* pool, Metrics* metrics,
                                 Clock clock)
    : limits_(limits), pool_(pool), metrics_(metrics), clock_(std::move(clock)) {}

std::chrono::nanoseconds SessionRegistry::Now() const {
  if (clock_) return clock_();
  return std::chrono::steady_clock::now().time_since_epoch();
}

absl::StatusOr<std::shared_ptr<Session>> SessionRegistry::Open(std::string client_name,
                                                               std::optional<Peer> peer) {
  ASSIGN_OR_RETURN(std::string token, RandomToken());
  if (client_name.size() > 200) client_name.resize(200);
  auto session = std::make_shared<Session>(next_session_.fetch_add(1), token,
                                           std::move(client_name), peer, limits_);
  session->renewed_ns_ = Now().count();
  absl::MutexLock lock(&mutex_);
  if (sessions_.size() >= limits_.sessions)
    return Error(absl::StatusCode::kResourceExhausted, "TOO_MANY_SESSIONS",
                 absl::StrCat("the daemon has its limit of ", limits_.sessions, " sessions"));
  sessions_.emplace(token, session);
  metrics_->sessions->Set(sessions_.size());
  return session;
}

absl::StatusOr<std::shared_ptr<Session>> SessionRegistry::Find(absl::string_view token) const {
  std::shared_ptr<Session> session;
  {
    absl::ReaderMutexLock lock(&mutex_);
    auto found = sessions_.find(token);
    if (found != sessions_.end()) session = found->second;
  }
  if (session == nullptr) {
    if (token.empty())
      return Error(
          absl::StatusCode::kUnauthenticated, "SESSION_MISSING",
          "the request names no session; open one with OpenSession or on the descriptor socket");
    return Ended();
  }
  if (!session->peer_) session->renewed_ns_.store(Now().count(), std::memory_order_relaxed);
  return session;
}

void SessionRegistry::Close(absl::string_view token) {
  std::shared_ptr<Session> session;
  {
    absl::MutexLock lock(&mutex_);
    auto found = sessions_.find(token);
    if (found == sessions_.end()) return;
    session = std::move(found->second);
    sessions_.erase(found);
    metrics_->sessions->Set(sessions_.size());
  }
  session->Close();
}

int SessionRegistry::ExpireLeases() {
  std::vector<std::shared_ptr<Session>> expired;
  int64_t oldest = Now().count() - absl::ToInt64Nanoseconds(limits_.lease);
  {
    absl::MutexLock lock(&mutex_);
    for (auto it = sessions_.begin(); it != sessions_.end();) {
      auto here = it++;
      if (here->second->peer_ ||
          here->second->renewed_ns_.load(std::memory_order_relaxed) >= oldest)
        continue;
      expired.push_back(std::move(here->second));
      sessions_.erase(here);
    }
    metrics_->sessions->Set(sessions_.size());
  }
  for (const std::shared_ptr<Session>& session : expired) {
    spdlog::info("the lease of session '{}' has run out", session->client_name());
    session->Close();
    metrics_->leases_expired->Increment();
  }
  return static_cast<int>(expired.size());
}

void SessionRegistry::CloseAll() {
  absl::flat_hash_map<std::string, std::shared_ptr<Session>> sessions;
  {
    absl::MutexLock lock(&mutex_);
    sessions.swap(sessions_);
  }
  for (const auto& [token, session] : sessions) session->Close();
}

uint32_t SessionRegistry::sessions() const {
  absl::ReaderMutexLock lock(&mutex_);
  return sessions_.size();
}

std::shared_ptr<Region> SessionRegistry::MakeRegion(RegionDescription description,
                                                    runtime::UniqueFd fd) {
  if (description.id == 0) description.id = NewId();
  uint64_t size = description.size;
  metrics_->regions->Set(++regions_);
  metrics_->mapped_bytes->Set(static_cast<double>(mapped_bytes_ += size));
  return std::make_shared<Region>(std::move(description), std::move(fd), pool_, [this, size] {
    metrics_->regions->Set(--regions_);
    metrics_->mapped_bytes->Set(static_cast<double>(mapped_bytes_ -= size));
  });
}

}  // namespace tessera::server
