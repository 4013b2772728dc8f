#include "runtime/cuda/fake_driver.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/cuda/test_kernels.h"
#include "runtime/ring/futex.h"

namespace tessera::runtime {
namespace {

constexpr uint64_t kGranularity = 2 << 20;
constexpr int kDevices = 2;

// What an event consists of; in shared memory, so that other processes can wait for it.
struct EventState {
  std::atomic<uint64_t> recorded;  // records asked for
  std::atomic<uint64_t> happened;  // the last of them that happened
  std::atomic<uint64_t> at_ns;
};

struct FakeEvent {
  int fd = -1;
  EventState* state = nullptr;
};

struct FakeModule {
  std::string code;
};

struct FakeAllocation {  // VMM
  int fd = -1;
  uint64_t bytes = 0;
  int device = 0;
};

struct Mapping {
  uint64_t bytes = 0;
  int device = 0;
  int fd = -1;
  bool opened = false;  // from an IPC handle
  int references = 1;
};

struct IpcMemory {
  char magic[8];
  int32_t pid, fd, device;
  uint64_t bytes;
};

struct IpcEvent {
  char magic[8];
  int32_t pid, fd;
};

class FakeStream {
 public:
  FakeStream() : thread_([this] { Run(); }) {}
  ~FakeStream() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void Push(std::function<void()> work) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      work_.push_back(std::move(work));
      ++pending_;
    }
    changed_.notify_all();
  }
  bool Idle() {
    std::lock_guard<std::mutex> lock(mutex_);
    return pending_ == 0;
  }
  void WaitIdle() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return pending_ == 0; });
  }

 private:
  void Run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  size_t pending_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

struct State {
  std::mutex mutex;
  std::map<uint64_t, Mapping> mappings;       // by address
  std::map<uint64_t, FakeAllocation> chunks;  // VMM handles
  std::map<std::string, uint64_t> opened;     // IPC handles, to addresses
  uint64_t next_chunk = 1;
  uint64_t bytes = 0;
  std::atomic<int> error{CUDA_SUCCESS};
  FakeGpuSettings settings;
  FakeGpuCounts counts;
};
State& S() {
  static State* state = new State;
  return *state;
}

thread_local int current_device = 0;

CUresult Sticky() { return static_cast<CUresult>(S().error.load()); }
#define FAKE_CHECK_STICKY() \
  if (Sticky() != CUDA_SUCCESS) return Sticky()

void FakeStream::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !work_.empty(); });
    if (stopping_) return;
    std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    if (Sticky() == CUDA_SUCCESS) work();  // nothing runs on a poisoned device
    lock.lock();
    --pending_;
    changed_.notify_all();
  }
}

FakeStream* StreamOf(CUstream stream) {
  static FakeStream* legacy = new FakeStream;
  return stream == nullptr || stream == CU_STREAM_LEGACY ? legacy
                                                         : reinterpret_cast<FakeStream*>(stream);
}

int Memfd(int device, uint64_t bytes) {
  char name[32];
  std::snprintf(name, sizeof(name), "fakegpu%d", device);
  const int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) std::abort();
  return fd;
}

// The device of a memfd, by the name it was made under.
int DeviceOf(int fd) {
  char path[64], target[128] = "";
  std::snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(path, target, sizeof(target) - 1);
  const char* found = length > 0 ? std::strstr(target, "fakegpu") : nullptr;
  return found == nullptr ? -1 : found[7] - '0';
}

int OpenOfProcess(int pid, int fd) {
  if (pid == getpid()) return fcntl(fd, F_DUPFD_CLOEXEC, 0);
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
  return open(path, O_RDWR | O_CLOEXEC);
}

std::map<uint64_t, Mapping>::iterator Containing(uint64_t address) {
  auto it = S().mappings.upper_bound(address);
  if (it == S().mappings.begin()) return S().mappings.end();
  --it;
  return address < it->first + it->second.bytes ? it : S().mappings.end();
}

// ---- The functions of the table.

CUresult Init(unsigned int) { return CUDA_SUCCESS; }
CUresult DriverGetVersion(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
CUresult GetErrorName(CUresult error, const char** text) {
  static const std::map<int, const char*> names = {
      {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
      {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
      {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
      {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"}};
  auto found = names.find(error);
  *text = found == names.end() ? "CUDA_ERROR" : found->second;
  return CUDA_SUCCESS;
}
CUresult GetErrorString(CUresult, const char** text) {
  *text = "of the simulated driver";
  return CUDA_SUCCESS;
}
CUresult DeviceGetCount(int* count) {
  *count = kDevices;
  return CUDA_SUCCESS;
}
CUresult DeviceGet(CUdevice* device, int ordinal) {
  if (ordinal < 0 || ordinal >= kDevices) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult DeviceGetName(char* name, int bytes, CUdevice device) {
  std::snprintf(name, static_cast<size_t>(bytes), "simulated GPU %d", device);
  return CUDA_SUCCESS;
}
CUresult DeviceGetUuid(CUuuid* uuid, CUdevice device) {
  std::memset(uuid->bytes, device, sizeof(uuid->bytes));
  return CUDA_SUCCESS;
}
CUresult DeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = S().settings.compute_major;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = S().settings.compute_minor;
      break;
    case CU_DEVICE_ATTRIBUTE_MPS_ENABLED:
      *value = S().settings.mps ? 1 : 0;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 4;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = 227 << 10;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}
CUresult DeviceGetPCIBusId(char* text, int bytes, CUdevice device) {
  std::snprintf(text, static_cast<size_t>(bytes), "0000:%02x:00.0", device);
  return CUDA_SUCCESS;
}
CUresult DeviceTotalMem(size_t* bytes, CUdevice) {
  *bytes = S().settings.memory_bytes;
  return CUDA_SUCCESS;
}
CUresult PrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = reinterpret_cast<CUcontext>(static_cast<uintptr_t>(device + 1));
  return CUDA_SUCCESS;
}
CUresult PrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
CUresult CtxSetCurrent(CUcontext context) {
  current_device = static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 1;
  return CUDA_SUCCESS;
}
CUresult CtxSynchronize() { return Sticky(); }
CUresult CtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return CUDA_SUCCESS;
}
CUresult MemGetInfo(size_t* free, size_t* total) {
  FAKE_CHECK_STICKY();
  std::lock_guard<std::mutex> lock(S().mutex);
  *total = S().settings.memory_bytes;
  *free = *total - std::min<uint64_t>(*total, S().bytes);
  return CUDA_SUCCESS;
}
CUresult MemAlloc(CUdeviceptr* address, size_t bytes) {
  FAKE_CHECK_STICKY();
  std::lock_guard<std::mutex> lock(S().mutex);
  if (S().bytes + bytes > S().settings.memory_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  const int fd = Memfd(current_device, bytes);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  *address = reinterpret_cast<CUdeviceptr>(memory);
  S().mappings[*address] = {bytes, current_device, fd, false, 1};
  S().bytes += bytes;
  return CUDA_SUCCESS;
}
CUresult MemFree(CUdeviceptr address) {
  std::lock_guard<std::mutex> lock(S().mutex);
  auto found = S().mappings.find(address);
  if (found == S().mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  munmap(reinterpret_cast<void*>(address), found->second.bytes);
  close(found->second.fd);
  S().bytes -= found->second.bytes;
  S().mappings.erase(found);
  return CUDA_SUCCESS;
}
CUresult MemHostAlloc(void** memory, size_t bytes, unsigned int) {
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return CUDA_SUCCESS;
}
CUresult MemFreeHost(void* memory) {
  std::free(memory);
  return CUDA_SUCCESS;
}
CUresult MemHostRegister(void*, size_t, unsigned int) { return Sticky(); }
CUresult MemHostUnregister(void*) { return CUDA_SUCCESS; }
CUresult MemHostGetDevicePointer(CUdeviceptr* address, void* memory, unsigned int) {
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}
CUresult MemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  FAKE_CHECK_STICKY();
  StreamOf(stream)->Push([=] {
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  });
  return CUDA_SUCCESS;
}
CUresult MemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  FAKE_CHECK_STICKY();
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return CUDA_SUCCESS;
}
CUresult MemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  FAKE_CHECK_STICKY();
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return CUDA_SUCCESS;
}
CUresult MemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  FAKE_CHECK_STICKY();
  StreamOf(stream)->Push([=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
  return CUDA_SUCCESS;
}
CUresult MemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  std::lock_guard<std::mutex> lock(S().mutex);
  auto found = Containing(address);
  if (found == S().mappings.end()) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = found->first;
  if (bytes != nullptr) *bytes = found->second.bytes;
  return CUDA_SUCCESS;
}
CUresult PointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  std::lock_guard<std::mutex> lock(S().mutex);
  auto found = Containing(address);
  if (found == S().mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  if (attribute != CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) return CUDA_ERROR_NOT_SUPPORTED;
  *static_cast<int*>(value) = found->second.device;
  return CUDA_SUCCESS;
}
CUresult IpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  std::lock_guard<std::mutex> lock(S().mutex);
  auto found = Containing(address);
  if (found == S().mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  IpcMemory memory;
  std::memset(&memory, 0, sizeof(memory));  // the padding too: equal handles have equal bytes
  std::memcpy(memory.magic, "fakemem", 8);
  memory.pid = getpid();
  memory.fd = found->second.fd;
  memory.device = found->second.device;
  memory.bytes = found->second.bytes;
  std::memset(handle, 0, sizeof(*handle));
  std::memcpy(handle, &memory, sizeof(memory));
  return CUDA_SUCCESS;
}
CUresult IpcOpenMemHandle(CUdeviceptr* address, CUipcMemHandle handle, unsigned int) {
  FAKE_CHECK_STICKY();
  IpcMemory memory;
  std::memcpy(&memory, &handle, sizeof(memory));
  if (std::memcmp(memory.magic, "fakemem", 8) != 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> lock(S().mutex);
  const std::string key(reinterpret_cast<const char*>(&handle), sizeof(handle));
  // The real driver refuses or counts; either way our own table should not let it come to this.
  if (S().opened.count(key) != 0) return CUDA_ERROR_ALREADY_MAPPED;
  const int fd = OpenOfProcess(memory.pid, memory.fd);
  if (fd < 0) return CUDA_ERROR_INVALID_VALUE;
  void* mapped = mmap(nullptr, memory.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return CUDA_ERROR_INVALID_VALUE;
  *address = reinterpret_cast<CUdeviceptr>(mapped);
  S().mappings[*address] = {memory.bytes, memory.device, fd, true, 1};
  S().opened[key] = *address;
  ++S().counts.ipc_opens;
  return CUDA_SUCCESS;
}
CUresult IpcCloseMemHandle(CUdeviceptr address) {
  std::lock_guard<std::mutex> lock(S().mutex);
  auto found = S().mappings.find(address);
  if (found == S().mappings.end() || !found->second.opened) return CUDA_ERROR_INVALID_VALUE;
  munmap(reinterpret_cast<void*>(address), found->second.bytes);
  close(found->second.fd);
  S().mappings.erase(found);
  for (auto it = S().opened.begin(); it != S().opened.end();)
    it = it->second == address ? S().opened.erase(it) : std::next(it);
  ++S().counts.ipc_closes;
  return CUDA_SUCCESS;
}

FakeEvent* EventOf(CUevent event) { return reinterpret_cast<FakeEvent*>(event); }
CUresult MakeEvent(CUevent* event, int fd) {
  auto* made = new FakeEvent;
  made->fd = fd;
  made->state = static_cast<EventState*>(
      mmap(nullptr, sizeof(EventState), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  *event = reinterpret_cast<CUevent>(made);
  return CUDA_SUCCESS;
}
CUresult EventCreate(CUevent* event, unsigned int) {
  return MakeEvent(event, Memfd(current_device, sizeof(EventState)));
}
CUresult EventDestroy(CUevent event) {
  FakeEvent* fake = EventOf(event);
  munmap(fake->state, sizeof(EventState));
  close(fake->fd);
  delete fake;
  return CUDA_SUCCESS;
}
CUresult IpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
  IpcEvent made = {{'f', 'a', 'k', 'e', 'e', 'v', 't', 0}, getpid(), EventOf(event)->fd};
  std::memset(handle, 0, sizeof(*handle));
  std::memcpy(handle, &made, sizeof(made));
  return CUDA_SUCCESS;
}
CUresult IpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
  FAKE_CHECK_STICKY();
  IpcEvent from;
  std::memcpy(&from, &handle, sizeof(from));
  if (std::memcmp(from.magic, "fakeevt", 8) != 0) return CUDA_ERROR_INVALID_VALUE;
  const int fd = OpenOfProcess(from.pid, from.fd);
  return fd < 0 ? CUDA_ERROR_INVALID_VALUE : MakeEvent(event, fd);
}
CUresult EventRecord(CUevent event, CUstream stream) {
  FAKE_CHECK_STICKY();
  EventState* state = EventOf(event)->state;
  const uint64_t number = state->recorded.fetch_add(1) + 1;
  StreamOf(stream)->Push([state, number] {
    state->at_ns.store(MonotonicNanos());
    uint64_t before = state->happened.load();
    while (before < number && !state->happened.compare_exchange_weak(before, number)) {
    }
  });
  return CUDA_SUCCESS;
}
CUresult EventQuery(CUevent event) {
  FAKE_CHECK_STICKY();
  const EventState* state = EventOf(event)->state;
  return state->happened.load() >= state->recorded.load() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult EventSynchronize(CUevent event) {
  while (EventQuery(event) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
  return Sticky();
}
CUresult EventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  FAKE_CHECK_STICKY();
  *milliseconds =
      static_cast<float>(EventOf(end)->state->at_ns.load() - EventOf(begin)->state->at_ns.load()) *
      1e-6f;
  return CUDA_SUCCESS;
}
CUresult StreamCreate(CUstream* stream, unsigned int, int) {
  FAKE_CHECK_STICKY();
  *stream = reinterpret_cast<CUstream>(new FakeStream);
  return CUDA_SUCCESS;
}
CUresult StreamDestroy(CUstream stream) {
  delete reinterpret_cast<FakeStream*>(stream);
  return CUDA_SUCCESS;
}
CUresult StreamWaitEvent(CUstream stream, CUevent event, unsigned int) {
  FAKE_CHECK_STICKY();
  const EventState* state = EventOf(event)->state;
  const uint64_t number = state->recorded.load();
  StreamOf(stream)->Push([state, number] {
    while (state->happened.load() < number && Sticky() == CUDA_SUCCESS) std::this_thread::yield();
  });
  return CUDA_SUCCESS;
}
CUresult StreamQuery(CUstream stream) {
  FAKE_CHECK_STICKY();
  return StreamOf(stream)->Idle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult StreamSynchronize(CUstream stream) {
  StreamOf(stream)->WaitIdle();
  return Sticky();
}
CUresult StreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int) {
  FAKE_CHECK_STICKY();
  StreamOf(stream)->Push([=] {
    reinterpret_cast<std::atomic<uint32_t>*>(address)->store(value, std::memory_order_release);
  });
  return CUDA_SUCCESS;
}
CUresult ModuleLoad(CUmodule* module, const void* code, unsigned int, CUjit_option*, void**) {
  FAKE_CHECK_STICKY();
  std::lock_guard<std::mutex> lock(S().mutex);
  if (S().counts.modules_loaded - S().counts.modules_unloaded >= S().settings.modules)
    return CUDA_ERROR_OUT_OF_MEMORY;
  ++S().counts.modules_loaded;
  *module = reinterpret_cast<CUmodule>(new FakeModule{static_cast<const char*>(code)});
  return CUDA_SUCCESS;
}
CUresult ModuleUnload(CUmodule module) {
  std::lock_guard<std::mutex> lock(S().mutex);
  ++S().counts.modules_unloaded;
  delete reinterpret_cast<FakeModule*>(module);
  return CUDA_SUCCESS;
}
CUresult ModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  if (reinterpret_cast<FakeModule*>(module)->code.find(name) == std::string::npos)
    return CUDA_ERROR_NOT_FOUND;
  const TestKernelFunction* kernel = FindTestKernel(name);
  if (kernel == nullptr) return CUDA_ERROR_NOT_FOUND;
  *function = reinterpret_cast<CUfunction>(const_cast<TestKernelFunction*>(kernel));
  return CUDA_SUCCESS;
}
CUresult FuncGetAttribute(int* value, CUfunction_attribute, CUfunction) {
  *value = 1024;
  return CUDA_SUCCESS;
}
CUresult FuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
CUresult Launch(CUfunction function, unsigned int x, unsigned int y, unsigned int z, unsigned int,
                unsigned int, unsigned int, unsigned int, CUstream stream, void** params, void**) {
  FAKE_CHECK_STICKY();
  const auto* kernel = reinterpret_cast<const TestKernelFunction*>(function);
  std::vector<uint64_t> values(static_cast<size_t>(kernel->params));
  for (size_t i = 0; i < values.size(); ++i) std::memcpy(&values[i], params[i], sizeof(uint64_t));
  {
    std::lock_guard<std::mutex> lock(S().mutex);
    ++S().counts.launches;
  }
  const uint64_t programs = uint64_t{x} * y * z;
  StreamOf(stream)->Push([kernel, values, programs] {
    if (!kernel->run(values.data(), programs, [] { return Sticky() != CUDA_SUCCESS; }))
      PoisonFakeGpu(CUDA_ERROR_ILLEGAL_ADDRESS);
  });
  return CUDA_SUCCESS;
}
CUresult LaunchEx(const CUlaunchConfig* config, CUfunction function, void** params, void** extra) {
  return Launch(function, config->gridDimX, config->gridDimY, config->gridDimZ, 0, 0, 0, 0,
                config->hStream, params, extra);
}
CUresult AddressReserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr,
                        unsigned long long) {
  FAKE_CHECK_STICKY();
  void* reserved =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(reserved);
  return CUDA_SUCCESS;
}
CUresult AddressFree(CUdeviceptr address, size_t bytes) {
  munmap(reinterpret_cast<void*>(address), bytes);
  return CUDA_SUCCESS;
}
CUresult Create(CUmemGenericAllocationHandle* handle, size_t bytes,
                const CUmemAllocationProp* properties, unsigned long long) {
  FAKE_CHECK_STICKY();
  std::lock_guard<std::mutex> lock(S().mutex);
  if (S().bytes + bytes > S().settings.memory_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  S().bytes += bytes;
  *handle = S().next_chunk++;
  S().chunks[*handle] = {Memfd(properties->location.id, bytes), bytes, properties->location.id};
  return CUDA_SUCCESS;
}
CUresult Release(CUmemGenericAllocationHandle handle) {
  std::lock_guard<std::mutex> lock(S().mutex);
  auto found = S().chunks.find(handle);
  if (found == S().chunks.end()) return CUDA_ERROR_INVALID_VALUE;
  close(found->second.fd);
  S().chunks.erase(found);
  return CUDA_SUCCESS;
}
CUresult Map(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
             unsigned long long) {
  FAKE_CHECK_STICKY();
  std::lock_guard<std::mutex> lock(S().mutex);
  auto found = S().chunks.find(handle);
  if (found == S().chunks.end() || offset + bytes > found->second.bytes)
    return CUDA_ERROR_INVALID_VALUE;
  if (mmap(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
           found->second.fd, static_cast<off_t>(offset)) == MAP_FAILED)
    return CUDA_ERROR_INVALID_VALUE;
  S().mappings[address] = {bytes, found->second.device, -1, false, 1};
  return CUDA_SUCCESS;
}
CUresult Unmap(CUdeviceptr address, size_t bytes) {
  std::lock_guard<std::mutex> lock(S().mutex);
  S().mappings.erase(S().mappings.lower_bound(address), S().mappings.lower_bound(address + bytes));
  return CUDA_SUCCESS;
}
CUresult SetAccess(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) { return Sticky(); }
CUresult Export(void* fd, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType,
                unsigned long long) {
  std::lock_guard<std::mutex> lock(S().mutex);
  *static_cast<int*>(fd) = fcntl(S().chunks.at(handle).fd, F_DUPFD_CLOEXEC, 0);
  return CUDA_SUCCESS;
}
CUresult Import(CUmemGenericAllocationHandle* handle, void* fd, CUmemAllocationHandleType) {
  FAKE_CHECK_STICKY();
  std::lock_guard<std::mutex> lock(S().mutex);
  const int number = static_cast<int>(reinterpret_cast<intptr_t>(fd));
  struct stat info;
  if (DeviceOf(number) < 0 || fstat(number, &info) != 0) return CUDA_ERROR_INVALID_VALUE;
  *handle = S().next_chunk++;
  S().chunks[*handle] = {fcntl(number, F_DUPFD_CLOEXEC, 0), static_cast<uint64_t>(info.st_size),
                         DeviceOf(number)};
  return CUDA_SUCCESS;
}
CUresult Granularity(size_t* bytes, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
  *bytes = kGranularity;
  return CUDA_SUCCESS;
}
CUresult Properties(CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
  std::lock_guard<std::mutex> lock(S().mutex);
  *properties = {};
  properties->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties->location.id = S().chunks.at(handle).device;
  return CUDA_SUCCESS;
}

}  // namespace

FakeGpuSettings& FakeGpu() { return S().settings; }
FakeGpuCounts FakeGpuCount() {
  std::lock_guard<std::mutex> lock(S().mutex);
  return S().counts;
}
void PoisonFakeGpu(CUresult error) {
  int none = CUDA_SUCCESS;
  S().error.compare_exchange_strong(none, error);
}

const CudaDriver* FakeCudaDriver() {
  static const CudaDriver* table = [] {
    auto* driver = new CudaDriver;
    driver->cuInit = Init;
    driver->cuDriverGetVersion = DriverGetVersion;
    driver->cuGetErrorName = GetErrorName;
    driver->cuGetErrorString = GetErrorString;
    driver->cuDeviceGetCount = DeviceGetCount;
    driver->cuDeviceGet = DeviceGet;
    driver->cuDeviceGetName = DeviceGetName;
    driver->cuDeviceGetUuid = DeviceGetUuid;
    driver->cuDeviceGetAttribute = DeviceGetAttribute;
    driver->cuDeviceGetPCIBusId = DeviceGetPCIBusId;
    driver->cuDeviceTotalMem = DeviceTotalMem;
    driver->cuDevicePrimaryCtxRetain = PrimaryCtxRetain;
    driver->cuDevicePrimaryCtxRelease = PrimaryCtxRelease;
    driver->cuCtxSetCurrent = CtxSetCurrent;
    driver->cuCtxSynchronize = CtxSynchronize;
    driver->cuCtxGetStreamPriorityRange = CtxGetStreamPriorityRange;
    driver->cuMemGetInfo = MemGetInfo;
    driver->cuMemAlloc = MemAlloc;
    driver->cuMemFree = MemFree;
    driver->cuMemHostAlloc = MemHostAlloc;
    driver->cuMemFreeHost = MemFreeHost;
    driver->cuMemHostRegister = MemHostRegister;
    driver->cuMemHostUnregister = MemHostUnregister;
    driver->cuMemHostGetDevicePointer = MemHostGetDevicePointer;
    driver->cuMemcpyAsync = MemcpyAsync;
    driver->cuMemcpyHtoD = MemcpyHtoD;
    driver->cuMemcpyDtoH = MemcpyDtoH;
    driver->cuMemsetD8Async = MemsetD8Async;
    driver->cuMemGetAddressRange = MemGetAddressRange;
    driver->cuPointerGetAttribute = PointerGetAttribute;
    driver->cuIpcGetMemHandle = IpcGetMemHandle;
    driver->cuIpcOpenMemHandle = IpcOpenMemHandle;
    driver->cuIpcCloseMemHandle = IpcCloseMemHandle;
    driver->cuIpcGetEventHandle = IpcGetEventHandle;
    driver->cuIpcOpenEventHandle = IpcOpenEventHandle;
    driver->cuEventCreate = EventCreate;
    driver->cuEventDestroy = EventDestroy;
    driver->cuEventRecord = EventRecord;
    driver->cuEventQuery = EventQuery;
    driver->cuEventSynchronize = EventSynchronize;
    driver->cuEventElapsedTime = EventElapsedTime;
    driver->cuStreamCreateWithPriority = StreamCreate;
    driver->cuStreamDestroy = StreamDestroy;
    driver->cuStreamWaitEvent = StreamWaitEvent;
    driver->cuStreamQuery = StreamQuery;
    driver->cuStreamSynchronize = StreamSynchronize;
    driver->cuStreamWriteValue32 = StreamWriteValue32;
    driver->cuModuleLoadDataEx = ModuleLoad;
    driver->cuModuleUnload = ModuleUnload;
    driver->cuModuleGetFunction = ModuleGetFunction;
    driver->cuFuncGetAttribute = FuncGetAttribute;
    driver->cuFuncSetAttribute = FuncSetAttribute;
    driver->cuLaunchKernel = Launch;
    driver->cuLaunchKernelEx = LaunchEx;
    driver->cuMemAddressReserve = AddressReserve;
    driver->cuMemAddressFree = AddressFree;
    driver->cuMemCreate = Create;
    driver->cuMemRelease = Release;
    driver->cuMemMap = Map;
    driver->cuMemUnmap = Unmap;
    driver->cuMemSetAccess = SetAccess;
    driver->cuMemExportToShareableHandle = Export;
    driver->cuMemImportFromShareableHandle = Import;
    driver->cuMemGetAllocationGranularity = Granularity;
    driver->cuMemGetAllocationPropertiesFromHandle = Properties;
    return driver;
  }();
  return table;
}

}  // namespace tessera::runtime
