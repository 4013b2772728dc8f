#include "cache/store/explain_entry.h"

#include <string>

#include "cache/store/conformance/test_records.h"
#include "cache/store/memory/memory_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::cache {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

CompileKey Put(CacheStore* store, const std::string& kernel, uint32_t num_warps) {
  storage::CompileJob job;
  job.set_kernel(kernel);
  job.mutable_options()->set_num_warps(num_warps);
  const CompileKey key = MakeCompileKey(job, "def " + kernel, "build");
  EXPECT_TRUE(store->PutArtifact(key, TestArtifact(kernel)).ok());
  return key;
}

TEST(ExplainEntry, SaysWhatAKeyHoldsAndHowItsSiblingsDiffer) {
  const auto store = NewMemoryStore();
  const CompileKey four = Put(store.get(), "k", 4), eight = Put(store.get(), "k", 8);
  Put(store.get(), "other", 2);
  const auto text = ExplainEntry(store.get(), four.hex().substr(0, 11), "");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, AllOf(HasSubstr(four.hex()), HasSubstr("kernel = k\n"), HasSubstr(eight.hex().substr(0, 16)),
                           HasSubstr("- option num_warps = 4\n+ option num_warps = 8\n"), Not(HasSubstr("num_warps = 2"))));
}

TEST(ExplainEntry, SaysWhyTwoEntriesAreNotOne) {
  const auto store = NewMemoryStore();
  const CompileKey four = Put(store.get(), "k", 4), eight = Put(store.get(), "k", 8);
  EXPECT_EQ(*ExplainEntry(store.get(), eight.hex(), four.hex()), "- option num_warps = 8\n+ option num_warps = 4\n");
  EXPECT_EQ(*ExplainEntry(store.get(), four.hex(), four.hex()), "they are one entry\n");
}

TEST(ExplainEntry, ExplainsACompileThatFailed) {
  const auto store = NewMemoryStore();
  ASSERT_TRUE(store->PutFailure(TestKey("broken"), {}).ok());
  EXPECT_THAT(*ExplainEntry(store.get(), TestKey("broken").hex(), ""),
              AllOf(HasSubstr("failed"), HasSubstr("kernel = broken\n")));
}

TEST(ExplainEntry, RefusesWhatNamesNoneOrSeveral) {
  const auto store = NewMemoryStore();
  EXPECT_EQ(ExplainEntry(store.get(), "ab", "").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ExplainEntry(store.get(), "", "").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ExplainEntry(store.get(), "xyz", "").status().code(), absl::StatusCode::kInvalidArgument);
  for (int i = 0; i < 17; ++i) Put(store.get(), "k" + std::to_string(i), 4);
  bool several = false;
  for (char digit : std::string("0123456789abcdef")) {
    several |= ExplainEntry(store.get(), std::string(1, digit), "").status().code() == absl::StatusCode::kInvalidArgument;
  }
  EXPECT_TRUE(several);  // 17 keys, 16 first digits
}

}  // namespace
}  // namespace tessera::cache
