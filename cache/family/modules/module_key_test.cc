#include "cache/family/modules/module_key.h"

#include <string>

#include "gtest/gtest.h"

namespace tessera::cache {
namespace {

TEST(ModuleKey, HasTheBytesThatItAlwaysHad) {
  std::string key;
  ASSERT_TRUE(EncodeModuleKey("00ff" + std::string(60, 'a'), &key));
  EXPECT_EQ(key, std::string("\x00\xff", 2) + std::string(30, '\xaa'));
  EXPECT_EQ(DecodeModuleKey(key), "00ff" + std::string(60, 'a'));
}

TEST(ModuleKey, RefusesWhatIsNoId) {
  std::string key;
  EXPECT_FALSE(EncodeModuleKey("", &key));
  EXPECT_FALSE(EncodeModuleKey(std::string(63, 'a'), &key));
  EXPECT_FALSE(EncodeModuleKey(std::string(63, 'a') + "g", &key));
}

}  // namespace
}  // namespace tessera::cache
