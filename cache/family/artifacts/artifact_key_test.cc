#include "cache/family/artifacts/artifact_key.h"

#include <string>

#include "gtest/gtest.h"

namespace tessera::cache {
namespace {

TEST(ArtifactKey, IsTheHash) {
  CompileKey key;
  key.hash = std::string(32, 'h');
  std::string encoded;
  ASSERT_TRUE(EncodeArtifactKey(key, &encoded));
  EXPECT_EQ(encoded, std::string(32, 'h'));
}

TEST(ArtifactKey, RefusesAHashOfAnotherLength) {
  CompileKey key;
  key.hash = std::string(31, 'h');
  std::string encoded;
  EXPECT_FALSE(EncodeArtifactKey(key, &encoded));
}

}  // namespace
}  // namespace tessera::cache
