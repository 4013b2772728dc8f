// What every CacheStore must do. A store joins with one INSTANTIATE_TEST_SUITE_P in its own test file:
//
//   INSTANTIATE_TEST_SUITE_P(Memory, StoreConformanceTest, ::testing::Values(StoreUnderTest{...}));
#ifndef TESSERA_CACHE_STORE_CONFORMANCE_STORE_CONFORMANCE_H_
#define TESSERA_CACHE_STORE_CONFORMANCE_STORE_CONFORMANCE_H_

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "cache/store/cache_store.h"
#include "cache/store/conformance/temporary_directory.h"
#include "cache/store/conformance/test_records.h"
#include "gtest/gtest.h"

namespace tessera::cache {

struct StoreUnderTest {
  std::string name;
  // Opens the store that lives in `directory`, if it lives on disk.
  std::function<std::unique_ptr<CacheStore>(const std::string& directory)> open;
  bool survives_reopening = false;
};

inline std::ostream& operator<<(std::ostream& out, const StoreUnderTest& store) { return out << store.name; }

class StoreConformanceTest : public ::testing::TestWithParam<StoreUnderTest> {
 protected:
  StoreConformanceTest() : store_(GetParam().open(directory_.path())) {}

  void Reopen() {
    store_.reset();
    store_ = GetParam().open(directory_.path());
  }

  TemporaryDirectory directory_;
  std::unique_ptr<CacheStore> store_;
};

}  // namespace tessera::cache

#endif  // TESSERA_CACHE_STORE_CONFORMANCE_STORE_CONFORMANCE_H_
