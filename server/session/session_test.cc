// Sessions, regions and the descriptor socket, with a fake executor.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "runtime/memory/descriptor_socket.h"
#include "server/device/fake_executor.h"
#include "server/session/descriptor_socket.h"
#include "server/session/memory_copy.h"
#include "server/session/memory_import.h"
#include "server/session/session_registry.h"
#include "server/session/socket_file.h"

namespace tessera::server {
namespace {

runtime::UniqueFd MakeMemfd(uint64_t bytes, int seals = F_SEAL_SHRINK) {
  runtime::UniqueFd fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  if (seals != 0) EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() {
    limits_.sessions = 3;
    limits_.regions = 2;
    limits_.bytes = 1 << 20;
    limits_.launches_in_flight = 2;
    limits_.lease = absl::Seconds(10);
    device_ =
        devices_.Add({"cpu:0", "cpu", "", "model", 1},
                     [this]() -> absl::StatusOr<std::unique_ptr<runtime::ExecutorClient>> {
                       return std::unique_ptr<runtime::ExecutorClient>(new FakeExecutor(&log_));
                     });
    registry_ =
        std::make_unique<SessionRegistry>(limits_, &pool_, &metrics_, [this] { return now_; });
    session_ = *registry_->Open("test", Peer{getpid(), getuid(), getgid()});
  }

  absl::StatusOr<std::shared_ptr<Region>> Import(runtime::UniqueFd fd, ImportExtent extent = {}) {
    ASSIGN_OR_RETURN(uint64_t ticket, session_->AddTicket(std::move(fd)));
    return ImportMemfd(registry_.get(), session_.get(), device_, ticket, extent);
  }
  size_t MappedRegions() {
    pool_.Drain();
    std::lock_guard<std::mutex> lock(log_.mutex);
    return log_.regions.size();
  }

  SessionLimits limits_;
  FakeExecutorLog log_;
  DeviceTable devices_;
  Device* device_ = nullptr;
  Metrics metrics_;
  TaskPool pool_{1};
  std::chrono::nanoseconds now_{0};
  std::unique_ptr<SessionRegistry> registry_;
  std::shared_ptr<Session> session_;
};

TEST_F(SessionTest, MapsImportedMemoryAndUnmapsItOnRelease) {
  auto region = Import(MakeMemfd(10000));
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_EQ((*region)->size(), 10000u);
  EXPECT_EQ(MappedRegions(), 1u);
  uint64_t id = (*region)->id();
  region->reset();
  ASSERT_TRUE(session_->ReleaseRegion(id).ok());
  EXPECT_EQ(MappedRegions(), 0u);
  EXPECT_EQ(session_->ReleaseRegion(id).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(registry_->mapped_bytes(), 0u);
}

TEST_F(SessionTest, KeepsARegionMappedWhileALaunchHoldsIt) {
  std::shared_ptr<Region> in_flight = *Import(MakeMemfd(4096));
  registry_->Close(session_->token());
  EXPECT_EQ(MappedRegions(), 1u);
  EXPECT_EQ(session_->FindRegion(in_flight->id()).status().code(), absl::StatusCode::kNotFound);
  in_flight.reset();
  EXPECT_EQ(MappedRegions(), 0u);
}

TEST_F(SessionTest, EndsAllRegionsWithTheSession) {
  ASSERT_TRUE(Import(MakeMemfd(4096)).ok());
  ASSERT_TRUE(Import(MakeMemfd(4096)).ok());
  registry_->Close(session_->token());
  EXPECT_EQ(MappedRegions(), 0u);
  EXPECT_EQ(registry_->Find(session_->token()).status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(Import(MakeMemfd(4096)).status().code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(SessionTest, RefusesMemoryThatCouldFaultOrDoesNotFit) {
  EXPECT_FALSE(Import(MakeMemfd(0, 0)).ok());
  EXPECT_EQ(Import(MakeMemfd(4096), {1, 0, false}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Import(MakeMemfd(4096), {0, 5000, false}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Import(MakeMemfd(4096), {8192, 0, false}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Import(MakeMemfd(4096, F_SEAL_SHRINK | F_SEAL_WRITE)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Import(MakeMemfd(4096, F_SEAL_SHRINK | F_SEAL_WRITE), {0, 0, true}).ok());
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[1]);
  EXPECT_EQ(Import(runtime::UniqueFd(ends[0])).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ImportMemfd(registry_.get(), session_.get(), device_, 77, {}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(SessionTest, HoldsToItsLimits) {
  EXPECT_EQ(Import(MakeMemfd(2 << 20)).status().code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(Import(MakeMemfd(4096)).ok());
  ASSERT_TRUE(AllocateMemory(registry_.get(), session_.get(), device_, 5000).ok());
  EXPECT_EQ(Import(MakeMemfd(4096)).status().code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(registry_->Open("b", std::nullopt).ok());
  ASSERT_TRUE(registry_->Open("c", std::nullopt).ok());
  EXPECT_EQ(registry_->Open("d", std::nullopt).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(session_->BeginLaunch());
  EXPECT_TRUE(session_->BeginLaunch());
  EXPECT_FALSE(session_->BeginLaunch());
  session_->EndLaunch();
  EXPECT_TRUE(session_->BeginLaunch());
}

TEST_F(SessionTest, EndsSessionsWhoseLeaseRanOutByTheMonotonicClock) {
  std::string leased = (*registry_->Open("leased", std::nullopt))->token();
  now_ += std::chrono::seconds(9);
  EXPECT_EQ(registry_->ExpireLeases(), 0);
  EXPECT_TRUE(registry_->Find(leased).ok());  // renews
  now_ += std::chrono::seconds(9);
  EXPECT_EQ(registry_->ExpireLeases(), 0);
  now_ += std::chrono::seconds(2);
  EXPECT_EQ(registry_->ExpireLeases(), 1);
  EXPECT_EQ(registry_->Find(leased).status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_TRUE(registry_->Find(session_->token()).ok());  // held up by its socket
}

TEST_F(SessionTest, OpensPosixShmOnlyForAPeer) {
  std::string name = "/tessera_session_test_" + std::to_string(getpid());
  int fd = shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(ftruncate(fd, 4096), 0);
  close(fd);
  EXPECT_TRUE(ImportPosixShm(registry_.get(), session_.get(), device_, name, {}).ok());
  std::shared_ptr<Session> leased = *registry_->Open("leased", std::nullopt);
  EXPECT_EQ(ImportPosixShm(registry_.get(), leased.get(), device_, name, {}).status().code(),
            absl::StatusCode::kPermissionDenied);
  shm_unlink(name.c_str());
  EXPECT_EQ(ImportPosixShm(registry_.get(), session_.get(), device_, name, {}).status().code(),
            absl::StatusCode::kNotFound);
}

class GpuSessionTest : public SessionTest {
 protected:
  GpuSessionTest() {
    for (const char* uuid : {"GPU-a", "GPU-b"}) {
      DeviceDescription description;
      description.name = absl::StrCat("cuda:", gpus_.size());
      description.gpu.set_uuid(uuid);
      description.one_of_several = true;
      gpus_.push_back(
          devices_.Add(std::move(description),
                       [this]() -> absl::StatusOr<std::unique_ptr<runtime::ExecutorClient>> {
                         return std::unique_ptr<runtime::ExecutorClient>(new FakeExecutor(&log_));
                       }));
    }
  }
  absl::StatusOr<std::shared_ptr<Region>> ImportIpc(Device* device, const std::string& uuid,
                                                    ImportExtent extent = {}) {
    GpuHandle handle;
    handle.cuda_ipc = std::string(64, 'h');
    handle.device_uuid = uuid;
    return ImportGpuMemory(registry_.get(), session_.get(), device, handle, extent);
  }
  static bool NamesBoth(const absl::Status& status) {
    return absl::StrContains(status.message(), "GPU-a") &&
           absl::StrContains(status.message(), "GPU-b");
  }

  std::vector<Device*> gpus_;
};

TEST_F(GpuSessionTest, FindsDevicesByUuid) {
  EXPECT_EQ(*devices_.Find("GPU-b"), gpus_[1]);
  EXPECT_EQ(*devices_.Find("cuda:GPU-a"), gpus_[0]);
  EXPECT_EQ(*devices_.Find("cuda"), gpus_[0]);
  EXPECT_FALSE(devices_.Find("GPU-c").ok());
}

TEST_F(GpuSessionTest, MapsAHandleOnItsGpuAndUnmapsItOnRelease) {
  auto region = ImportIpc(gpus_[0], "GPU-a", {512, 1024, false});
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_EQ((*region)->size(), 1024u);
  EXPECT_EQ(log_.sources[(*region)->id()].offset, 512u);
  EXPECT_TRUE((*region)->MappedOn(*gpus_[0]));
  EXPECT_EQ((*region)->description().kind, "cuda_ipc");
  const uint64_t id = (*region)->id();
  region->reset();
  ASSERT_TRUE(session_->ReleaseRegion(id).ok());
  EXPECT_EQ(MappedRegions(), 0u);
}

TEST_F(GpuSessionTest, RefusesAHandleOfAnotherGpuWithBothUuids) {
  const absl::Status other = ImportIpc(gpus_[0], "GPU-b").status();
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(NamesBoth(other)) << other;
  EXPECT_EQ(ImportIpc(gpus_[0], "").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ImportIpc(device_, "GPU-a").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(log_.sources.size(), 0u);
  auto region = ImportIpc(gpus_[0], "GPU-a");
  ASSERT_TRUE(region.ok());
  const absl::Status elsewhere = (*region)->EnsureMapped(gpus_[1]);
  EXPECT_EQ(elsewhere.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(NamesBoth(elsewhere)) << elsewhere;
  EXPECT_FALSE((*region)->EnsureMapped(device_).ok());
}

TEST_F(GpuSessionTest, TakesOneDescriptorForEachVmmChunk) {
  GpuHandle handle;
  handle.device_uuid = "GPU-a";
  for (uint64_t size : {4096, 8192})
    handle.chunks.push_back({*session_->AddTicket(MakeMemfd(size)), size});
  auto region = ImportGpuMemory(registry_.get(), session_.get(), gpus_[0], handle, {});
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_EQ(log_.sources[(*region)->id()].chunk_bytes, (std::vector<uint64_t>{4096, 8192}));
  EXPECT_EQ(log_.sources[(*region)->id()].vmm.size(), 2u);
  // Each ticket is good for one import.
  EXPECT_EQ(ImportGpuMemory(registry_.get(), session_.get(), gpus_[0], handle, {}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(GpuSessionTest, MakesMemoryOnAGpuWithADescriptorToFetch) {
  auto region = AllocateMemory(registry_.get(), session_.get(), gpus_[0], 5000);
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_EQ((*region)->description().handle_bytes, 8192u);
  EXPECT_GE((*region)->fd(), 0);
  EXPECT_FALSE(AllocateMemory(registry_.get(), session_.get(), gpus_[0], 0).ok());
}

TEST_F(GpuSessionTest, EventsEndWithTheirSession) {
  auto event =
      ImportEvent(registry_.get(), session_.get(), gpus_[0], std::string(64, 'e'), "GPU-a");
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(log_.events.size(), 1u);
  EXPECT_FALSE(
      ImportEvent(registry_.get(), session_.get(), gpus_[0], std::string(64, 'e'), "GPU-b").ok());
  std::shared_ptr<DeviceEvent> in_flight = *session_->FindEvent(*event);
  registry_->Close(session_->token());
  pool_.Drain();
  EXPECT_EQ(log_.events.size(), 1u);
  in_flight.reset();
  pool_.Drain();
  EXPECT_EQ(log_.events.size(), 0u);
}

TEST_F(GpuSessionTest, CopiesInsideTheRegionsOnly) {
  auto host = Import(MakeMemfd(4096));
  auto gpu = ImportIpc(gpus_[0], "GPU-a", {0, 4096, false});
  ASSERT_TRUE(host.ok() && gpu.ok());
  EXPECT_TRUE(CopyMemory({*host, 0}, {*gpu, 96}, 4000, gpus_[0]).ok());
  ASSERT_EQ(log_.copies.size(), 1u);
  EXPECT_EQ(log_.copies[0].to, (*gpu)->id());
  EXPECT_EQ(log_.copies[0].to_offset, 96u);
  EXPECT_EQ(CopyMemory({*host, 97}, {*gpu, 0}, 4000, gpus_[0]).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CopyMemory({*host, 0}, {*gpu, 0}, 4000, gpus_[1]).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(log_.copies.size(), 1u);
}

class DescriptorSocketTest : public SessionTest {
 protected:
  DescriptorSocketTest() {
    char folder[] = "/tmp/tessera_socket_XXXXXX";
    folder_ = mkdtemp(folder);
    path_ = folder_ + "/t.sock.fd";
    auto socket = DescriptorSocket::Listen(path_, 0600, "", registry_.get());
    EXPECT_TRUE(socket.ok()) << socket.status();
    if (socket.ok()) socket_ = *std::move(socket);
  }
  ~DescriptorSocketTest() override {
    socket_.reset();
    rmdir(folder_.c_str());
  }

  runtime::UniqueFd Connect() {
    runtime::UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path_.c_str());
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  tessera::v1::AttachResponse Exchange(int fd, const std::string& bytes, int descriptor = -1,
                                       int* received = nullptr) {
    absl::Span<const int> descriptors =
        descriptor >= 0 ? absl::MakeConstSpan(&descriptor, 1) : absl::Span<const int>();
    EXPECT_TRUE(runtime::SendPacket(fd, bytes, descriptors).ok());
    auto answer = runtime::ReceivePacket(fd, 4096);
    tessera::v1::AttachResponse response;
    EXPECT_TRUE(answer.ok()) << answer.status();
    if (!answer.ok()) return response;
    EXPECT_TRUE(response.ParseFromString(answer->bytes));
    if (received != nullptr && !answer->descriptors.empty())
      *received = answer->descriptors[0].release();
    return response;
  }
  static std::string Hello() {
    tessera::v1::AttachRequest request;
    request.mutable_hello()->set_client_name("test");
    return request.SerializeAsString();
  }
  static std::string Offer() {
    tessera::v1::AttachRequest request;
    request.mutable_offer();
    return request.SerializeAsString();
  }

  std::string folder_, path_;
  std::unique_ptr<DescriptorSocket> socket_;
};

TEST_F(DescriptorSocketTest, OpensASessionTakesDescriptorsAndGivesThemOut) {
  runtime::UniqueFd fd = Connect();
  std::string token = Exchange(fd.get(), Hello()).session();
  ASSERT_EQ(token.size(), 16u);
  std::shared_ptr<Session> session = *registry_->Find(token);
  EXPECT_EQ(session->peer()->pid, getpid());
  runtime::UniqueFd memory = MakeMemfd(8192);
  uint64_t ticket = Exchange(fd.get(), Offer(), memory.get()).ticket();
  auto region = ImportMemfd(registry_.get(), session.get(), device_, ticket, {});
  ASSERT_TRUE(region.ok()) << region.status();

  tessera::v1::AttachRequest fetch;
  fetch.mutable_fetch()->set_region((*region)->id());
  int fetched = -1;
  EXPECT_EQ(Exchange(fd.get(), fetch.SerializeAsString(), -1, &fetched).size(), 8192u);
  struct stat a, b;
  ASSERT_EQ(fstat(fetched, &a), 0);
  ASSERT_EQ(fstat(memory.get(), &b), 0);
  EXPECT_EQ(a.st_ino, b.st_ino);
  close(fetched);
}

TEST_F(DescriptorSocketTest, EndsTheSessionWhenTheClientIsGone) {
  runtime::UniqueFd fd = Connect();
  std::string token = Exchange(fd.get(), Hello()).session();
  fd.reset();
  // Another exchange on the same thread of the socket shows that the end was seen.
  runtime::UniqueFd other = Connect();
  Exchange(other.get(), Hello());
  Exchange(other.get(), "x");
  EXPECT_EQ(registry_->Find(token).status().code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(DescriptorSocketTest, AnswersNonsenseAndServesOn) {
  runtime::UniqueFd fd = Connect();
  EXPECT_EQ(Exchange(fd.get(), Offer()).code(),
            static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(Exchange(fd.get(), "\xff\xff").code(),
            static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(Exchange(fd.get(), std::string(8000, 'x')).code(),
            static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(Exchange(fd.get(), Hello()).code(), 0);
  EXPECT_EQ(Exchange(fd.get(), Hello()).code(),
            static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(Exchange(fd.get(), Offer()).code(),
            static_cast<int>(absl::StatusCode::kInvalidArgument));
}

TEST_F(DescriptorSocketTest, LeavesASocketAloneOnWhichSomebodyListens) {
  EXPECT_EQ(PrepareSocketPath(path_, SOCK_SEQPACKET).code(), absl::StatusCode::kAlreadyExists);
  socket_.reset();
  EXPECT_TRUE(PrepareSocketPath(path_, SOCK_SEQPACKET).ok());
  EXPECT_EQ(PrepareSocketPath(folder_, SOCK_SEQPACKET).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(PrepareSocketPath("/tmp/" + std::string(200, 'x'), SOCK_STREAM).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tessera::server
