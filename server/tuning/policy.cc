#include "server/tuning/policy.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/status/error_detail.h"

namespace tessera::server {

absl::Status TuningPolicy::ParseKind(absl::string_view text, TuningPolicy* policy) {
  absl::string_view rest = text;
  if (text == "fixed") {
    policy->kind = Kind::kFixed;
  } else if (text == "bucketed") {
    policy->kind = Kind::kBucketed;
  } else if (text == "exhaustive") {
    policy->kind = Kind::kExhaustive;
  } else if (text == "amortised") {
    policy->kind = Kind::kAmortised;
  } else if (absl::ConsumePrefix(&rest, "candidates(") && absl::ConsumeSuffix(&rest, ")") &&
             absl::SimpleAtoi(rest, &policy->candidates) && policy->candidates > 0) {
    policy->kind = Kind::kCandidates;
  } else {
    return Error(absl::StatusCode::kInvalidArgument, "BAD_POLICY",
                 absl::StrCat("'", text, "' is no tuning policy; accepted: fixed, bucketed, candidates(N), exhaustive, amortised"));
  }
  return absl::OkStatus();
}

std::string TuningPolicy::KindText() const {
  switch (kind) {
    case Kind::kFixed:
      return "fixed";
    case Kind::kBucketed:
      return "bucketed";
    case Kind::kCandidates:
      return absl::StrCat("candidates(", candidates, ")");
    case Kind::kExhaustive:
      return "exhaustive";
    case Kind::kAmortised:
      return "amortised";
  }
  return "";
}

BucketRule TuningPolicy::DefaultRule() const {
  BucketRule rule;
  if (kind != Kind::kExhaustive && kind != Kind::kCandidates) rule.kind = BucketRule::Kind::kPow2;
  return rule;
}

const BucketRule* TuningPolicy::RuleOf(const std::string& argument) const {
  auto found = buckets.find(argument);
  return found == buckets.end() ? nullptr : &found->second;
}

std::shared_ptr<const TuningPolicy> TuningPolicies::Of(const std::string& kernel) const {
  absl::ReaderMutexLock lock(&mutex_);
  auto found = by_kernel_.find(kernel);
  return found == by_kernel_.end() ? otherwise_ : found->second;
}

void TuningPolicies::Set(const std::string& kernel, TuningPolicy policy) {
  auto shared = std::make_shared<const TuningPolicy>(std::move(policy));
  absl::MutexLock lock(&mutex_);
  if (kernel.empty())
    otherwise_ = std::move(shared);
  else
    by_kernel_[kernel] = std::move(shared);
  version_.fetch_add(1, std::memory_order_release);
}

}  // namespace tessera::server
