#include "server/tuning/scratch_launch.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/session/memory_copy.h"
#include "server/session/memory_import.h"
#include "server/status/error_detail.h"

namespace tessera::server {
namespace {

void VisitTensors(api::Argument* argument, const std::function<void(api::TensorRef*)>& visit) {
  if (argument->has_tensor()) visit(argument->mutable_tensor());
  if (argument->has_tensor_descriptor())
    visit(argument->mutable_tensor_descriptor()->mutable_base());
  if (argument->has_tuple())
    for (api::Argument& item : *argument->mutable_tuple()->mutable_items())
      VisitTensors(&item, visit);
}

// By read and write, not by mapping: a client that truncates its memory meanwhile gives us a short
// read, not a fault.
absl::Status CopyOnHost(const Region& from, const Region& to) {
  std::vector<char> buffer(1 << 20);
  uint64_t done = 0;
  while (done < from.size()) {
    size_t part = std::min<uint64_t>(buffer.size(), from.size() - done);
    ssize_t got =
        pread(from.fd(), buffer.data(), part, static_cast<off_t>(from.description().offset + done));
    if (got <= 0) return absl::ErrnoToStatus(got == 0 ? EIO : errno, "reading the client's memory");
    for (ssize_t put = 0; put < got;) {
      ssize_t wrote =
          pwrite(to.fd(), buffer.data() + put, got - put, static_cast<off_t>(done + put));
      if (wrote <= 0) return absl::ErrnoToStatus(errno, "writing scratch memory");
      put += wrote;
    }
    done += static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

absl::Status Copy(const std::shared_ptr<Region>& from, const std::shared_ptr<Region>& to) {
  Device* const gpu = to->description().home;
  return gpu == nullptr ? CopyOnHost(*from, *to)
                        : CopyMemory({from, 0}, {to, 0}, from->size(), gpu);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ScratchLaunch>> ScratchLaunch::Create(
    const api::LaunchRequest& launch, SessionRegistry* sessions, Device* device,
    uint64_t max_bytes) {
  ASSIGN_OR_RETURN(std::shared_ptr<Session> client, sessions->Find(launch.session()));
  std::unique_ptr<ScratchLaunch> scratch(new ScratchLaunch(sessions));
  // A peer keeps the session alive without a lease; it is ours.
  ASSIGN_OR_RETURN(scratch->session_, sessions->Open("tuner", Peer{getpid(), getuid(), getgid()}));
  scratch->request_ = launch;
  scratch->request_.set_session(scratch->session_->token());
  std::map<uint64_t, uint64_t> replaced;
  uint64_t bytes = 0;
  absl::Status status;
  auto redirect = [&](api::TensorRef* tensor) {
    if (!status.ok() || tensor->region() == 0) return;
    auto known = replaced.find(tensor->region());
    if (known == replaced.end()) {
      absl::StatusOr<std::shared_ptr<Region>> theirs = client->FindRegion(tensor->region());
      if (!theirs.ok()) {
        status = theirs.status();
        return;
      }
      bytes += (*theirs)->size();
      if (bytes > max_bytes) {
        status =
            Error(absl::StatusCode::kResourceExhausted, "SCRATCH_LIMIT",
                  absl::StrCat("tuning needs scratch copies of more than ", max_bytes, " bytes"));
        return;
      }
      absl::StatusOr<std::shared_ptr<Region>> ours =
          AllocateMemory(sessions, scratch->session_.get(), device, (*theirs)->size());
      if (!ours.ok()) {
        status = ours.status();
        return;
      }
      known = replaced.emplace(tensor->region(), (*ours)->id()).first;
      scratch->copies_.emplace_back(*std::move(theirs), *std::move(ours));
    }
    tensor->set_region(known->second);
  };
  for (api::Argument& argument : *scratch->request_.mutable_arguments())
    VisitTensors(&argument, redirect);
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(scratch->Restore());
  return scratch;
}

ScratchLaunch::~ScratchLaunch() {
  if (session_ != nullptr) sessions_->Close(session_->token());
}

absl::Status ScratchLaunch::Restore() {
  for (const auto& [theirs, ours] : copies_) RETURN_IF_ERROR(Copy(theirs, ours));
  return absl::OkStatus();
}

}  // namespace tessera::server
