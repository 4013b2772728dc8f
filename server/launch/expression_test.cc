#include "server/launch/expression.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tessera::server {
namespace {

// Names: N = 1000, BLOCK = 64, BIG = 2^62, x is a tensor, bias is None, mode is "relu".
absl::StatusOr<ExpressionValue> Evaluate(absl::string_view text) {
  auto resolve = [](absl::string_view name) -> absl::StatusOr<int> {
    const char* names[] = {"N", "BLOCK", "BIG", "x", "bias", "mode"};
    for (int i = 0; i < 6; ++i)
      if (name == names[i]) return i;
    return absl::InvalidArgumentError(absl::StrCat("no name ", name));
  };
  absl::StatusOr<Expression> parsed = Expression::Parse(text, resolve);
  if (!parsed.ok()) return parsed.status();
  return parsed->Evaluate([](int name) -> absl::StatusOr<ExpressionValue> {
    switch (name) {
      case 0:
        return ExpressionValue::Integer(1000);
      case 1:
        return ExpressionValue::Integer(64);
      case 2:
        return ExpressionValue::Integer(int64_t{1} << 62);
      case 3:
        return ExpressionValue::Opaque();
      case 4:
        return ExpressionValue::None();
      default:
        return ExpressionValue::Text("relu");
    }
  });
}

TEST(Expression, GivesWhatPythonGives) {
  struct {
    const char* text;
    int64_t want;
  } cases[] = {
      {"1", 1},
      {"0x10", 16},
      {"1_000", 1000},
      {"N", 1000},
      {"2 + 3 * 4", 14},
      {"(2 + 3) * 4", 20},
      {"10 - 3 - 2", 5},
      {"7 // 2", 3},
      {"7 / 2", 3},
      {"-7 // 2", -4},
      {"7 // -2", -4},
      {"-7 % 3", 2},
      {"7 % -3", -2},
      {"-2 ** 2", -4},
      {"2 ** 3 ** 2", 512},
      {"2 ** 0", 1},
      {"0 ** 0", 1},
      {"(N + BLOCK - 1) // BLOCK", 16},
      {"cdiv(N, BLOCK)", 16},
      {"triton.cdiv(N, 1000)", 1},
      {"tl.cdiv(N, 999)", 2},
      {"cdiv(0, 5)", 0},
      {"cdiv(-3, 2)", -1},
      {"next_power_of_2(N)", 1024},
      {"triton.next_power_of_2(1)", 1},
      {"next_power_of_2(0)", 0},
      {"min(N, BLOCK, 7)", 7},
      {"max(N, BLOCK)", 1000},
      {"abs(-5)", 5},
      {"1 if N > 999 else 2", 1},
      {"1 if N < 999 else 2 if N == 1000 else 3", 2},
      {"N % 16 == 0", 0},
      {"BLOCK % 16 == 0 and N >= 1000", 1},
      {"not N", 0},
      {"META['BLOCK'] * 2", 128},
      {"args[\"N\"] // 10", 100},
      {"args['x'] is not None", 1},
      {"bias is None", 1},
      {"mode == 'relu'", 1},
      {"mode == \"gelu\"", 0},
      {"bias == 0", 0},
      {"BIG + (BIG - 1)", 9223372036854775807},
  };
  for (const auto& c : cases) {
    absl::StatusOr<ExpressionValue> value = Evaluate(c.text);
    ASSERT_TRUE(value.ok()) << c.text << ": " << value.status();
    EXPECT_TRUE(value->integral()) << c.text;
    EXPECT_EQ(value->integer, c.want) << c.text;
  }
}

TEST(Expression, SaysWhatIsWrong) {
  struct {
    const char* text;
    absl::StatusCode code;
    const char* message;
  } cases[] = {
      {"", absl::StatusCode::kInvalidArgument, "ends too early"},
      {"1 +", absl::StatusCode::kInvalidArgument, "ends too early"},
      {"(1", absl::StatusCode::kInvalidArgument, "')' is expected"},
      {"1 2", absl::StatusCode::kInvalidArgument, "column 3"},
      {"Q + 1", absl::StatusCode::kInvalidArgument, "no name Q"},
      {"f(1)", absl::StatusCode::kInvalidArgument, "'f' with 1 arguments"},
      {"cdiv(1)", absl::StatusCode::kInvalidArgument, "'cdiv' with 1 arguments"},
      {"1 // 0", absl::StatusCode::kInvalidArgument, "division by zero"},
      {"cdiv(N, 0)", absl::StatusCode::kInvalidArgument, "division by zero"},
      {"x + 1", absl::StatusCode::kInvalidArgument, "not tensors"},
      {"1 < 2 < 3", absl::StatusCode::kInvalidArgument, "chained"},
      {"BIG * 2", absl::StatusCode::kOutOfRange, "overflow"},
      {"BIG + BIG", absl::StatusCode::kOutOfRange, "overflow"},
      {"2 ** 63", absl::StatusCode::kOutOfRange, "overflow"},
      {"next_power_of_2(BIG + 1)", absl::StatusCode::kOutOfRange, "overflow"},
      {"(-9223372036854775807 - 1) // -1", absl::StatusCode::kOutOfRange, "overflow"},
      {"9223372036854775808", absl::StatusCode::kInvalidArgument, "no number of 64 bits"},
      {"'a", absl::StatusCode::kInvalidArgument, "has no end"},
      {"__import__('os')", absl::StatusCode::kInvalidArgument, "not understood"},
  };
  for (const auto& c : cases) {
    absl::StatusOr<ExpressionValue> value = Evaluate(c.text);
    ASSERT_FALSE(value.ok()) << c.text;
    EXPECT_EQ(value.status().code(), c.code) << c.text;
    EXPECT_NE(std::string(value.status().message()).find(c.message), std::string::npos)
        << c.text << ": " << value.status().message();
  }
}

TEST(Expression, RefusesWhatIsTooLongOrTooDeep) {
  EXPECT_FALSE(Evaluate(std::string(2000, '1')).ok());
  EXPECT_FALSE(Evaluate(std::string(200, '(') + "1" + std::string(200, ')')).ok());
  EXPECT_FALSE(Evaluate(std::string(500, '-') + "1").ok());
}

}  // namespace
}  // namespace tessera::server
