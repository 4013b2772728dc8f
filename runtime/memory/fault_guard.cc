#include "runtime/memory/fault_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tessera::runtime {
namespace {

// Everything the handlers touch is static and lock-free. A slot is in use while `begin` is not 0.
struct Slot {
  std::atomic<uint64_t> begin;  // the pages mapped
  std::atomic<uint64_t> end;
  std::atomic<uint64_t> data;  // the region proper
  std::atomic<uint64_t> bytes;
  std::atomic<uint64_t> region;
  std::atomic<bool> lost;
};
Slot slots[kMaxGuardedRegions];
std::atomic<int> slots_used{0};  // slots at and above this were never used
std::atomic<FaultRecord*> fault_record{nullptr};
std::atomic<bool> fault_recorded{false};

std::mutex free_mutex;
std::vector<int>& FreeSlots() {
  static auto* free_slots = new std::vector<int>;
  return *free_slots;
}

constexpr uint64_t kPage = 4096;

// The slot whose pages, widened by `margin` on both sides, hold `address`; nullptr: none.
Slot* FindSlot(uint64_t address, uint64_t margin) {
  const int used = slots_used.load(std::memory_order_acquire);
  for (int i = 0; i < used; ++i) {
    const uint64_t begin = slots[i].begin.load(std::memory_order_acquire);
    if (begin != 0 && address >= begin - margin &&
        address < slots[i].end.load(std::memory_order_relaxed) + margin) {
      return &slots[i];
    }
  }
  return nullptr;
}

// Puts zeros in place of everything from the page of `address` to the end: what was cut off was cut
// at its end.
bool PatchHole(Slot* slot, uint64_t address) {
  const uint64_t begin = address / kPage * kPage;
  const uint64_t bytes = slot->end.load(std::memory_order_relaxed) - begin;
  const long mapped = syscall(SYS_mmap, begin, bytes, PROT_READ | PROT_WRITE,
                              MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == -1) return false;
  slot->lost.store(true, std::memory_order_release);
  return true;
}

void RecordFault(int signal, const siginfo_t* info) {
  FaultRecord* record = fault_record.load();
  if (record == nullptr || fault_recorded.exchange(true)) return;
  const bool has_address = signal == SIGSEGV || signal == SIGBUS;
  const uint64_t address = has_address ? reinterpret_cast<uint64_t>(info->si_addr) : 0;
  record->address.store(address);
  if (Slot* slot = has_address ? FindSlot(address, kGuardBytes) : nullptr) {
    record->region.store(slot->region.load());
    record->region_offset.store(static_cast<int64_t>(address - slot->data.load()));
    record->region_bytes.store(slot->bytes.load());
  }
  record->signal.store(static_cast<uint32_t>(signal));
}

void OnFault(int signal, siginfo_t* info, void*) {
  const int saved_errno = errno;
  if (signal == SIGBUS && info->si_code == BUS_ADRERR) {
    const uint64_t address = reinterpret_cast<uint64_t>(info->si_addr);
    Slot* slot = FindSlot(address, 0);
    if (slot != nullptr && PatchHole(slot, address)) {
      errno = saved_errno;
      return;  // the access is repeated and meets zeros
    }
  }
  RecordFault(signal, info);
  // Returning repeats the fault with the default action; a signal that was sent is sent again.
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  if (info->si_code <= 0) syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signal);
  errno = saved_errno;
}

}  // namespace

void InstallFaultGuard(FaultRecord* record) {
  fault_record.store(record);
  fault_recorded.store(false);
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    struct sigaction action = {};
    action.sa_sigaction = OnFault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
}

absl::StatusOr<GuardedRegion> GuardedRegion::Register(uint64_t region,
                                                      const GuardedMapping& mapping) {
  std::lock_guard<std::mutex> lock(free_mutex);
  int index;
  if (!FreeSlots().empty()) {
    index = FreeSlots().back();
    FreeSlots().pop_back();
  } else {
    index = slots_used.load();
    if (index == kMaxGuardedRegions) {
      return absl::ResourceExhaustedError(
          absl::StrCat("an executor maps at most ", kMaxGuardedRegions, " regions"));
    }
    slots_used.store(index + 1);
  }
  Slot& slot = slots[index];
  slot.lost.store(false);
  slot.region.store(region);
  slot.data.store(reinterpret_cast<uint64_t>(mapping.data()));
  slot.bytes.store(mapping.bytes());
  slot.end.store(reinterpret_cast<uint64_t>(mapping.pages_end()));
  slot.begin.store(reinterpret_cast<uint64_t>(mapping.pages_begin()), std::memory_order_release);
  return GuardedRegion(index);
}

GuardedRegion& GuardedRegion::operator=(GuardedRegion&& other) noexcept {
  std::swap(slot_, other.slot_);
  return *this;
}

GuardedRegion::~GuardedRegion() {
  if (slot_ < 0) return;
  slots[slot_].begin.store(0, std::memory_order_release);
  std::lock_guard<std::mutex> lock(free_mutex);
  FreeSlots().push_back(slot_);
}

bool GuardedRegion::lost() const {
  return slot_ >= 0 && slots[slot_].lost.load(std::memory_order_acquire);
}

}  // namespace tessera::runtime
