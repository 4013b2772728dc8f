#include "cache/family/meta/meta_key.h"

#include "gtest/gtest.h"

namespace tessera::cache {
namespace {

TEST(MetaKey, HasTheBytesThatItAlwaysHad) { EXPECT_EQ(SchemaKey(), "schema"); }

}  // namespace
}  // namespace tessera::cache
