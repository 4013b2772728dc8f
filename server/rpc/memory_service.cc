#include "server/rpc/memory_service.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/rpc/grpc_status.h"
#include "server/session/memory_copy.h"
#include "server/session/memory_import.h"
#include "server/status/error_detail.h"

namespace tessera::server {

namespace {

GpuHandle GpuHandleOf(const api::ImportMemoryRequest& request) {
  GpuHandle handle;
  handle.device_uuid = request.device_uuid();
  if (request.has_cuda_ipc()) handle.cuda_ipc = request.cuda_ipc();
  if (request.has_vmm_descriptor())
    handle.chunks.push_back({request.vmm_descriptor(), request.offset() + request.size()});
  for (const auto& chunk : request.vmm_chunks().chunks())
    handle.chunks.push_back({chunk.ticket(), chunk.size()});
  return handle;
}

// Where a copy runs if nobody says: on the GPU whose memory one of the regions is.
Device* DeviceOfCopy(const RegionPlace& from, const RegionPlace& to) {
  Device* home = from.region->description().home;
  return home != nullptr ? home : to.region->description().home;
}

absl::StatusOr<GuardPolicy> ToGuardPolicy(const api::GuardPolicy& policy) {
  using Mode = GuardPolicy::Mode;
  switch (policy.mode()) {
    case api::GuardPolicy::DEFAULT:
      return GuardPolicy{Mode::kDefault, 1};
    case api::GuardPolicy::NEVER:
      return GuardPolicy{Mode::kNever, 1};
    case api::GuardPolicy::FIRST:
      return GuardPolicy{Mode::kFirst, 1};
    case api::GuardPolicy::EVERY_NTH:
      if (policy.n() > 0) return GuardPolicy{Mode::kEveryNth, policy.n()};
      return Error(absl::StatusCode::kInvalidArgument, "BAD_GUARD_POLICY",
                   "EVERY_NTH needs n, at least 1");
    case api::GuardPolicy::ALWAYS:
      return GuardPolicy{Mode::kAlways, 1};
    default:
      return Error(absl::StatusCode::kInvalidArgument, "BAD_GUARD_POLICY",
                   absl::StrCat("there is no guard policy ", static_cast<int>(policy.mode())));
  }
}

}  // namespace

absl::Status MemoryService::CheckTransport(const grpc::CallbackServerContext& context) const {
  if (allow_tcp_ || absl::StartsWith(context.peer(), "unix:")) return absl::OkStatus();
  return Error(absl::StatusCode::kPermissionDenied, "NO_MEMORY_OVER_TCP",
               "memory is not shared with clients that come over TCP; use the Unix socket, or set "
               "memory_over_tcp");
}

grpc::ServerUnaryReactor* MemoryService::OpenSession(grpc::CallbackServerContext* context,
                                                     const api::OpenSessionRequest* request,
                                                     api::OpenSessionResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  absl::StatusOr<std::shared_ptr<Session>> session =
      sessions_->Open(request->client_name(), std::nullopt);
  if (session.ok()) {
    response->set_session((*session)->token());
    response->set_lease_seconds(absl::ToDoubleSeconds(sessions_->limits().lease));
  }
  call->Finish(ToGrpc(session.status(), context));
  return call;
}

grpc::ServerUnaryReactor* MemoryService::ConfigureSession(
    grpc::CallbackServerContext* context, const api::ConfigureSessionRequest* request,
    api::ConfigureSessionResponse*) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  absl::StatusOr<std::shared_ptr<Session>> session = sessions_->Find(request->session());
  absl::Status status = session.status();
  if (status.ok()) {
    absl::StatusOr<GuardPolicy> guard = ToGuardPolicy(request->guard());
    status = guard.status();
    if (status.ok()) (*session)->SetGuardPolicy(*guard);
  }
  call->Finish(ToGrpc(status, context));
  return call;
}

grpc::ServerUnaryReactor* MemoryService::CloseSession(grpc::CallbackServerContext* context,
                                                      const api::CloseSessionRequest* request,
                                                      api::CloseSessionResponse*) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  sessions_->Close(request->session());
  call->Finish(grpc::Status::OK);
  return call;
}

grpc::ServerUnaryReactor* MemoryService::RenewSession(grpc::CallbackServerContext* context,
                                                      const api::RenewSessionRequest* request,
                                                      api::RenewSessionResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  absl::Status found = sessions_->Find(request->session()).status();
  response->set_lease_seconds(absl::ToDoubleSeconds(sessions_->limits().lease));
  call->Finish(ToGrpc(found, context));
  return call;
}

absl::StatusOr<std::shared_ptr<Region>> MemoryService::Import(
    const api::ImportMemoryRequest& request) {
  ASSIGN_OR_RETURN(std::shared_ptr<Session> session, sessions_->Find(request.session()));
  ASSIGN_OR_RETURN(Device * device, devices_->Find(request.device()));
  ImportExtent extent{request.offset(), request.size(), request.read_only()};
  switch (request.handle_case()) {
    case api::ImportMemoryRequest::kMemfd:
      return ImportMemfd(sessions_, session.get(), device, request.memfd(), extent);
    case api::ImportMemoryRequest::kPosixShm:
      if (!allow_posix_shm_)
        return Error(absl::StatusCode::kPermissionDenied, "POSIX_SHM_OFF",
                     "this daemon accepts no POSIX shm (posix_shm is off); share a memfd");
      return ImportPosixShm(sessions_, session.get(), device, request.posix_shm(), extent);
    case api::ImportMemoryRequest::kCudaIpc:
    case api::ImportMemoryRequest::kVmmDescriptor:
    case api::ImportMemoryRequest::kVmmChunks:
      return ImportGpuMemory(sessions_, session.get(), device, GpuHandleOf(request), extent);
    case api::ImportMemoryRequest::HANDLE_NOT_SET:
      break;
  }
  return Error(absl::StatusCode::kInvalidArgument, "HANDLE_MISSING",
               "the request holds no memory handle");
}

grpc::ServerUnaryReactor* MemoryService::ImportMemory(grpc::CallbackServerContext* context,
                                                      const api::ImportMemoryRequest* request,
                                                      api::ImportMemoryResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  if (absl::Status allowed = CheckTransport(*context); !allowed.ok()) {
    call->Finish(ToGrpc(allowed, context));
    return call;
  }
  pool_->Run([=] {
    absl::StatusOr<std::shared_ptr<Region>> region = Import(*request);
    if (region.ok()) {
      response->set_region((*region)->id());
      response->set_size((*region)->size());
    }
    call->Finish(ToGrpc(region.status(), context));
  });
  return call;
}

grpc::ServerUnaryReactor* MemoryService::AllocateMemory(grpc::CallbackServerContext* context,
                                                        const api::AllocateMemoryRequest* request,
                                                        api::AllocateMemoryResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  if (absl::Status allowed = CheckTransport(*context); !allowed.ok()) {
    call->Finish(ToGrpc(allowed, context));
    return call;
  }
  pool_->Run([=] {
    absl::StatusOr<std::shared_ptr<Region>> region =
        [&]() -> absl::StatusOr<std::shared_ptr<Region>> {
      ASSIGN_OR_RETURN(std::shared_ptr<Session> session, sessions_->Find(request->session()));
      ASSIGN_OR_RETURN(Device * device, devices_->Find(request->device()));
      return server::AllocateMemory(sessions_, session.get(), device, request->size());
    }();
    if (region.ok()) {
      response->set_region((*region)->id());
      response->set_size((*region)->size());
      const RegionDescription& description = (*region)->description();
      response->set_handle_bytes(description.handle_bytes);
      if (description.home != nullptr)
        response->set_device_uuid(description.home->description().uuid());
    }
    call->Finish(ToGrpc(region.status(), context));
  });
  return call;
}

grpc::ServerUnaryReactor* MemoryService::CopyMemory(grpc::CallbackServerContext* context,
                                                    const api::CopyMemoryRequest* request,
                                                    api::CopyMemoryResponse*) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  pool_->Run([=] {
    absl::Status status = [&]() -> absl::Status {
      ASSIGN_OR_RETURN(std::shared_ptr<Session> session, sessions_->Find(request->session()));
      RegionPlace from, to;
      ASSIGN_OR_RETURN(from.region, session->FindRegion(request->from()));
      ASSIGN_OR_RETURN(to.region, session->FindRegion(request->to()));
      from.offset = request->from_offset();
      to.offset = request->to_offset();
      Device* device = request->device().empty() ? DeviceOfCopy(from, to) : nullptr;
      if (device == nullptr) {
        ASSIGN_OR_RETURN(device, devices_->Find(request->device()));
      }
      return server::CopyMemory(from, to, request->size(), device);
    }();
    call->Finish(ToGrpc(status, context));
  });
  return call;
}

grpc::ServerUnaryReactor* MemoryService::ImportEvent(grpc::CallbackServerContext* context,
                                                     const api::ImportEventRequest* request,
                                                     api::ImportEventResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  if (absl::Status allowed = CheckTransport(*context); !allowed.ok()) {
    call->Finish(ToGrpc(allowed, context));
    return call;
  }
  pool_->Run([=] {
    absl::StatusOr<uint64_t> event = [&]() -> absl::StatusOr<uint64_t> {
      ASSIGN_OR_RETURN(std::shared_ptr<Session> session, sessions_->Find(request->session()));
      ASSIGN_OR_RETURN(Device * device, devices_->Find(request->device()));
      return server::ImportEvent(sessions_, session.get(), device, request->cuda_ipc_event(),
                                 request->device_uuid());
    }();
    if (event.ok()) response->set_event(*event);
    call->Finish(ToGrpc(event.status(), context));
  });
  return call;
}

grpc::ServerUnaryReactor* MemoryService::ReleaseEvent(grpc::CallbackServerContext* context,
                                                      const api::ReleaseEventRequest* request,
                                                      api::ReleaseEventResponse*) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  absl::StatusOr<std::shared_ptr<Session>> session = sessions_->Find(request->session());
  absl::Status status =
      session.ok() ? (*session)->ReleaseEvent(request->event()) : session.status();
  call->Finish(ToGrpc(status, context));
  return call;
}

grpc::ServerUnaryReactor* MemoryService::ReleaseMemory(grpc::CallbackServerContext* context,
                                                       const api::ReleaseMemoryRequest* request,
                                                       api::ReleaseMemoryResponse*) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  absl::StatusOr<std::shared_ptr<Session>> session = sessions_->Find(request->session());
  absl::Status status =
      session.ok() ? (*session)->ReleaseRegion(request->region()) : session.status();
  call->Finish(ToGrpc(status, context));
  return call;
}

grpc::ServerUnaryReactor* MemoryService::ListMemory(grpc::CallbackServerContext* context,
                                                    const api::ListMemoryRequest* request,
                                                    api::ListMemoryResponse* response) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  absl::StatusOr<std::shared_ptr<Session>> session = sessions_->Find(request->session());
  if (session.ok())
    for (const std::shared_ptr<Region>& region : (*session)->Regions()) {
      api::ListMemoryResponse::Region* entry = response->add_regions();
      entry->set_region(region->id());
      entry->set_size(region->size());
      entry->set_kind(region->description().kind);
      entry->set_device(region->description().device);
      // The session and this list hold it once each; every launch in flight holds it once more.
      entry->set_launches_in_flight(static_cast<uint32_t>(region.use_count() - 2));
    }
  call->Finish(ToGrpc(session.status(), context));
  return call;
}

}  // namespace tessera::server
