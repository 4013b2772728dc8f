#include "server/launch/guard_policy.h"

namespace tessera::server {

bool IsGuarded(const storage::LaunchOptions& options) {
  auto option = options.extra().find(kGuardedOption);
  return option != options.extra().end() && option->second != "0";
}

GuardPolicy GuardInForce(GuardPolicy asked, bool shared_by_mps, bool same_user) {
  if (asked.mode != GuardPolicy::Mode::kDefault) return asked;
  asked.mode = shared_by_mps || !same_user ? GuardPolicy::Mode::kFirst : GuardPolicy::Mode::kNever;
  return asked;
}

bool GuardRecord::Due(const GuardPolicy& policy) {
  switch (policy.mode) {
    case GuardPolicy::Mode::kDefault:
    case GuardPolicy::Mode::kNever:
      return false;
    case GuardPolicy::Mode::kFirst:
      return !proven();
    case GuardPolicy::Mode::kEveryNth:
      return launches_.fetch_add(1, std::memory_order_relaxed) % policy.n == 0 || !proven();
    case GuardPolicy::Mode::kAlways:
      return true;
  }
  return true;
}

}  // namespace tessera::server
