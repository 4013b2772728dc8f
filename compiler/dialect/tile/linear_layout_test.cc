// Layouts against brute force over all registers, lanes and warps.
#include "compiler/dialect/tile/linear_layout.h"

#include <map>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace tessera::tile {
namespace {

using Shape = std::vector<int64_t>;

// How many places hold each element.
std::map<int32_t, int> Holders(const LinearLayout& layout) {
  std::map<int32_t, int> holders;
  for (int w = 0; w < layout.num_warps(); ++w)
    for (int l = 0; l < 1 << layout.bits(LinearLayout::kLane); ++l)
      for (int r = 0; r < layout.registers(); ++r) ++holders[layout.Apply(r, l, w)];
  return holders;
}

struct Case {
  Shape shape;
  int64_t run;
  int num_warps;
  std::vector<int32_t> order;
};

const Case kCases[] = {
    {{1024}, 4, 4, {0}},         {{16}, 8, 4, {0}},          {{1}, 1, 8, {0}},        {{128, 64}, 8, 4, {1, 0}},
    {{128, 64}, 8, 4, {0, 1}},   {{4, 1024}, 4, 8, {1, 0}},  {{2, 4, 8}, 2, 2, {2, 1, 0}}, {{1, 256}, 4, 1, {1, 0}},
    {{32, 2, 16}, 4, 4, {0, 2, 1}}, {{}, 1, 4, {}},
};

TEST(LinearLayoutTest, CoalescedHoldsEachElementEquallyOften) {
  for (const Case& c : kCases) {
    LinearLayout layout = LinearLayout::Coalesced(c.shape, c.run, c.num_warps, c.order);
    EXPECT_TRUE(layout.IsSurjective());
    EXPECT_TRUE(layout.IsDisjoint());
    std::map<int32_t, int> holders = Holders(layout);
    ASSERT_EQ(static_cast<int64_t>(holders.size()), layout.elements());
    for (auto [flat, count] : holders) EXPECT_EQ(count, holders[0]) << flat;
  }
}

TEST(LinearLayoutTest, PlacesWithoutFreeBitsHoldEachElementOnce) {
  std::vector<LinearLayout> layouts;
  for (const Case& c : kCases) {
    layouts.push_back(LinearLayout::Coalesced(c.shape, c.run, c.num_warps, c.order));
    for (int d = 0; d < layouts.back().rank(); ++d) {
      LinearLayout sliced = LinearLayout::Coalesced(c.shape, c.run, c.num_warps, c.order).Sliced(d);
      layouts.push_back(sliced);
    }
  }
  for (const LinearLayout& layout : layouts) {
    std::set<int32_t> seen;
    int places = 0;
    for (int w = 0; w < layout.num_warps(); ++w) {
      for (int l = 0; l < 32; ++l) {
        for (int r = 0; r < layout.registers(); ++r) {
          if ((r & layout.FreeBits(LinearLayout::kRegister)) || (l & layout.FreeBits(LinearLayout::kLane)) ||
              (w & layout.FreeBits(LinearLayout::kWarp)))
            continue;
          seen.insert(layout.Apply(r, l, w));
          ++places;
        }
      }
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()), layout.elements());
    EXPECT_EQ(places, layout.elements());
  }
}

TEST(LinearLayoutTest, CoalescedReadsRunsThenLanes) {
  LinearLayout layout = LinearLayout::Coalesced({1024}, 4, 4, {0});
  EXPECT_EQ(layout.Apply(3, 0, 0), 3);
  EXPECT_EQ(layout.Apply(0, 1, 0), 4);
  EXPECT_EQ(layout.Apply(0, 0, 1), 128);
  EXPECT_EQ(layout.Apply(4, 0, 0), 512);
  LinearLayout matrix = LinearLayout::Coalesced({128, 64}, 8, 4, {1, 0});
  EXPECT_EQ(matrix.CoordinatesOf(matrix.Apply(0, 7, 0)), (LinearLayout::Coordinates{0, 56}));
  EXPECT_EQ(matrix.CoordinatesOf(matrix.Apply(0, 8, 0)), (LinearLayout::Coordinates{1, 0}));
  EXPECT_EQ(matrix.CoordinatesOf(matrix.Apply(0, 0, 1)), (LinearLayout::Coordinates{4, 0}));
}

TEST(LinearLayoutTest, VectorsHoldConsecutiveElements) {
  for (const Case& c : kCases) {
    LinearLayout layout = LinearLayout::Coalesced(c.shape, c.run, c.num_warps, c.order);
    for (int dim = 0; dim < layout.rank(); ++dim) {
      LinearLayout::Vector vector = layout.VectorAlong(dim, 16);
      for (int w = 0; w < layout.num_warps(); ++w) {
        for (int l = 0; l < 32; ++l) {
          for (int r = 0; r < layout.registers(); ++r) {
            if (r & vector.Mask()) continue;
            LinearLayout::Coordinates first = layout.CoordinatesOf(layout.Apply(r, l, w));
            EXPECT_EQ(first[dim] % vector.size, 0);
            for (int64_t i = 0; i < vector.size; ++i) {
              LinearLayout::Coordinates at = layout.CoordinatesOf(layout.Apply(vector.Register(r, i), l, w));
              EXPECT_EQ(at[dim], first[dim] + i);
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(LinearLayout::Coalesced({128, 64}, 8, 4, {1, 0}).VectorAlong(1, 16).size, 8);
  EXPECT_EQ(LinearLayout::Coalesced({128, 64}, 8, 4, {1, 0}).VectorAlong(1, 4).size, 4);
}

TEST(LinearLayoutTest, AlgebraAgreesWithCoordinates) {
  LinearLayout layout = LinearLayout::Coalesced({8, 32, 4}, 4, 2, {1, 2, 0});
  LinearLayout transposed = layout.Transposed({2, 0, 1});
  LinearLayout expanded = layout.Expanded(1);
  LinearLayout reshaped = layout.Reshaped({256, 4});
  LinearLayout joined = layout.Joined();
  EXPECT_EQ(transposed.shape(), llvm::ArrayRef<int64_t>({4, 8, 32}));
  for (int w = 0; w < 2; ++w) {
    for (int l = 0; l < 32; ++l) {
      for (int r = 0; r < layout.registers(); ++r) {
        LinearLayout::Coordinates at = layout.CoordinatesOf(layout.Apply(r, l, w));
        EXPECT_EQ(transposed.CoordinatesOf(transposed.Apply(r, l, w)), (LinearLayout::Coordinates{at[2], at[0], at[1]}));
        EXPECT_EQ(expanded.CoordinatesOf(expanded.Apply(r, l, w)), (LinearLayout::Coordinates{at[0], 0, at[1], at[2]}));
        EXPECT_EQ(reshaped.CoordinatesOf(reshaped.Apply(r, l, w)), (LinearLayout::Coordinates{at[0] * 32 + at[1], at[2]}));
        for (int half = 0; half < 2; ++half)
          EXPECT_EQ(joined.CoordinatesOf(joined.Apply(r * 2 + half, l, w)), (LinearLayout::Coordinates{at[0], at[1], at[2], half}));
      }
    }
  }
  EXPECT_EQ(*joined.Split(), layout);
  EXPECT_FALSE(layout.Reshaped({16, 32, 2}).Transposed({2, 0, 1}).Split().has_value());
}

TEST(LinearLayoutTest, SlicesProject) {
  LinearLayout layout = LinearLayout::Coalesced({16, 64}, 4, 4, {1, 0});
  LinearLayout rows = layout.Sliced(1);
  EXPECT_EQ(rows.shape(), llvm::ArrayRef<int64_t>({16}));
  for (int w = 0; w < 4; ++w)
    for (int l = 0; l < 32; ++l)
      EXPECT_EQ(rows.Apply(0, l, w), layout.CoordinatesOf(layout.Apply(0, l, w))[0] );
  std::map<int32_t, int> holders = Holders(rows);
  EXPECT_EQ(holders.size(), 16u);
  EXPECT_EQ(layout.CollapsedTo({16, 1}), rows.Expanded(1));
}

TEST(LinearLayoutTest, ConcatenatesInOrder) {
  LinearLayout layout = LinearLayout::Coalesced({256}, 2, 4, {0}).Concatenated();
  EXPECT_EQ(layout.elements(), 512);
  EXPECT_TRUE(layout.IsSurjective());
  EXPECT_EQ(layout.Apply(layout.registers() / 2, 0, 0), 256);
}

TEST(LinearLayoutTest, FindsRegistersOfDependentBits) {
  LinearLayout layout({64}, {LinearLayout::Bases{3, 1, 12, 40}, {}, {}, {}});
  for (int r = 0; r < layout.registers(); ++r) EXPECT_EQ(layout.FindRegister(layout.Apply(r, 0, 0)), r);
  EXPECT_FALSE(layout.FindRegister(4).has_value());
}

TEST(LinearLayoutTest, DependentRegistersAreDropped) {
  LinearLayout layout({4}, {LinearLayout::Bases{1, 0, 2, 3}, {}, {}, {}});
  EXPECT_EQ(layout.registers(), 4);
}

TEST(LinearLayoutTest, FragmentsRepeatOverWarpsThenRegisters) {
  // The accumulator of an m16n8 product.
  LinearLayout fragment({16, 8}, {LinearLayout::Bases{1, 64}, LinearLayout::Bases{2, 4, 8, 16, 32}, {}, {}});
  EXPECT_TRUE(fragment.IsSurjective());
  LinearLayout layout = LinearLayout::Tiled(fragment, {64, 32}, {2, 2}, {1, 0});
  EXPECT_TRUE(layout.IsSurjective());
  EXPECT_EQ(layout.registers(), 16);
  for (int l = 0; l < 32; ++l) {
    for (int r = 0; r < 16; ++r) {
      for (int w = 0; w < 4; ++w) {
        LinearLayout::Coordinates at = layout.CoordinatesOf(layout.Apply(r, l, w));
        EXPECT_EQ(at[0], l / 4 + (r >> 1 & 1) * 8 + (w >> 1) * 16 + (r >> 3 & 1) * 32);
        EXPECT_EQ(at[1], l % 4 * 2 + (r & 1) + (w & 1) * 8 + (r >> 2 & 1) * 16);
      }
    }
  }
  // A block smaller than the fragment is replicated.
  std::map<int32_t, int> holders = Holders(LinearLayout::Tiled(fragment, {8, 8}, {2, 2}, {1, 0}));
  EXPECT_EQ(holders.size(), 64u);
  for (auto [flat, count] : holders) EXPECT_EQ(count, holders[0]);
}

TEST(LinearLayoutTest, SwizzlesPermuteEachRow) {
  LinearLayout layout = LinearLayout::Swizzled({16, 64}, 8, 1, 8);
  for (int32_t offset = 0; offset < 1024; ++offset) {
    int32_t row = offset / 64, column = offset % 64;
    EXPECT_EQ(layout.Apply(offset, 0, 0), row * 64 + (column ^ (row % 8) * 8));
  }
}

}  // namespace
}  // namespace tessera::tile
