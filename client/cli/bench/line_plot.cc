#include "client/cli/bench/line_plot.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "client/cli/bench/stroke_font.h"

namespace tessera::cli {
namespace {

struct Colour {
  uint8_t r, g, b;
};
constexpr Colour kInk = {40, 40, 40}, kGrid = {222, 222, 222};
// Told apart by people who see no red or no green, and in print by their lightness.
constexpr Colour kColours[] = {{0, 114, 178}, {213, 94, 0},   {0, 158, 115}, {204, 121, 167},
                               {20, 20, 20},  {86, 180, 233}, {230, 159, 0}, {120, 120, 120},
                               {150, 60, 20}, {90, 60, 160}};

constexpr double kWidth = 900, kHeight = 560, kLeft = 90, kRight = 190, kTop = 50, kBottom = 60;

enum class Anchor { kBegin, kMiddle, kEnd };

// Coordinates in pixels of the SVG, y downwards.
class Canvas {
 public:
  virtual ~Canvas() = default;
  virtual void Line(const Polyline& points, Colour colour, double width) = 0;
  // `upward`: turned by a quarter, reading upwards.
  virtual void Text(double x, double y, double size, Anchor anchor, const std::string& text,
                    bool upward = false) = 0;
};

class SvgCanvas : public Canvas {
 public:
  void Line(const Polyline& points, Colour colour, double width) override {
    absl::StrAppend(&body_, "<polyline fill=\"none\" stroke=\"", Rgb(colour), "\" stroke-width=\"",
                    width, "\" stroke-linejoin=\"round\" points=\"");
    for (const auto& [x, y] : points) absl::StrAppendFormat(&body_, "%.1f,%.1f ", x, y);
    absl::StrAppend(&body_, "\"/>\n");
  }
  void Text(double x, double y, double size, Anchor anchor, const std::string& text,
            bool upward) override {
    const char* where = anchor == Anchor::kBegin    ? "start"
                        : anchor == Anchor::kMiddle ? "middle"
                                                    : "end";
    absl::StrAppendFormat(
        &body_, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%g\" text-anchor=\"%s\"%s>%s</text>\n", x,
        y, size, where, upward ? absl::StrFormat(" transform=\"rotate(-90 %.1f %.1f)\"", x, y) : "",
        absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}}));
  }
  std::string File() const {
    return absl::StrFormat(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" "
        "font-family=\"sans-serif\" fill=\"%s\">\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n%s</svg>\n",
        kWidth, kHeight, Rgb(kInk), body_);
  }

 private:
  static std::string Rgb(Colour c) { return absl::StrFormat("#%02x%02x%02x", c.r, c.g, c.b); }
  std::string body_;
};

class RasterCanvas : public Canvas {
 public:
  static constexpr int kScale = 2;

  RasterCanvas() : pixels_(static_cast<size_t>(width_ * height_ * 3), 255) {}

  void Line(const Polyline& points, Colour colour, double width) override {
    double radius = width * kScale / 2;
    for (size_t i = 0; i + 1 < points.size(); ++i)
      Segment(points[i].first * kScale, points[i].second * kScale, points[i + 1].first * kScale,
              points[i + 1].second * kScale, colour, radius);
  }

  void Text(double x, double y, double size, Anchor anchor, const std::string& text,
            bool upward) override {
    double height = 0.72 * size;  // of capitals
    double width = static_cast<double>(text.size()) * kLetterAdvance * height;
    double shift = anchor == Anchor::kBegin ? 0 : anchor == Anchor::kMiddle ? width / 2 : width;
    for (Polyline& stroke : Strokes(text)) {
      for (auto& [u, v] : stroke) {
        double along = u * height - shift, up = v * height;
        u = upward ? x - up : x + along;
        v = upward ? y - along : y - up;
      }
      Line(stroke, kInk, size / 11);
    }
  }

  std::string File() const {
    std::string rows;
    for (int y = 0; y < height_; ++y) {
      rows += '\0';  // no filter
      rows.append(reinterpret_cast<const char*>(&pixels_[static_cast<size_t>(y) * width_ * 3]),
                  static_cast<size_t>(width_) * 3);
    }
    uLongf bytes = compressBound(rows.size());
    std::string packed(bytes, '\0');
    compress2(reinterpret_cast<Bytef*>(packed.data()), &bytes,
              reinterpret_cast<const Bytef*>(rows.data()), rows.size(), 9);
    packed.resize(bytes);
    std::string header = absl::StrCat(BigEndian(width_), BigEndian(height_));
    header += std::string("\x08\x02\x00\x00\x00", 5);  // 8 bits, RGB
    return absl::StrCat(std::string("\x89PNG\r\n\x1a\n", 8), Chunk("IHDR", header),
                        Chunk("IDAT", packed), Chunk("IEND", ""));
  }

 private:
  static std::string BigEndian(uint32_t value) {
    std::string text;
    for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift);
    return text;
  }
  static std::string Chunk(const std::string& type, const std::string& data) {
    std::string body = type + data;
    uLong sum =
        crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
    return absl::StrCat(BigEndian(static_cast<uint32_t>(data.size())), body,
                        BigEndian(static_cast<uint32_t>(sum)));
  }

  // Pixels are covered by how near they lie to the segment.
  void Segment(double x0, double y0, double x1, double y1, Colour colour, double radius) {
    double dx = x1 - x0, dy = y1 - y0, length = dx * dx + dy * dy;
    int left = std::max(0, static_cast<int>(std::min(x0, x1) - radius - 1));
    int right = std::min(width_ - 1, static_cast<int>(std::max(x0, x1) + radius + 1));
    int top = std::max(0, static_cast<int>(std::min(y0, y1) - radius - 1));
    int bottom = std::min(height_ - 1, static_cast<int>(std::max(y0, y1) + radius + 1));
    for (int y = top; y <= bottom; ++y)
      for (int x = left; x <= right; ++x) {
        double px = x + 0.5 - x0, py = y + 0.5 - y0;
        double t = length == 0 ? 0 : std::clamp((px * dx + py * dy) / length, 0.0, 1.0);
        double cover = std::clamp(radius + 0.5 - std::hypot(px - t * dx, py - t * dy), 0.0, 1.0);
        if (cover == 0) continue;
        uint8_t* pixel = &pixels_[(static_cast<size_t>(y) * width_ + x) * 3];
        const uint8_t ink[] = {colour.r, colour.g, colour.b};
        for (int c = 0; c < 3; ++c)
          pixel[c] = static_cast<uint8_t>(std::lround(pixel[c] * (1 - cover) + ink[c] * cover));
      }
  }

  const int width_ = static_cast<int>(kWidth) * kScale,
            height_ = static_cast<int>(kHeight) * kScale;
  std::vector<uint8_t> pixels_;
};

// 1, 2 or 5 times a power of ten: some five steps up to `range`.
double Step(double range) {
  double power = std::pow(10, std::floor(std::log10(range / 5)));
  for (double factor : {1.0, 2.0, 5.0})
    if (range / (power * factor) <= 6) return power * factor;
  return power * 10;
}

void Draw(const LinePlot& plot, Canvas* canvas) {
  double x_end = 0, y_end = 0;
  for (const LinePlot::Series& series : plot.series)
    for (const auto& [x, y] : series.points) {
      x_end = std::max(x_end, x);
      y_end = std::max(y_end, y);
    }
  if (x_end <= 0) x_end = 1;
  y_end = y_end <= 0 ? 1 : y_end * 1.03;
  auto x_of = [&](double x) { return kLeft + x / x_end * (kWidth - kLeft - kRight); };
  auto y_of = [&](double y) { return kHeight - kBottom - y / y_end * (kHeight - kTop - kBottom); };

  for (double x = 0, step = Step(x_end); x <= x_end * 1.0001; x += step) {
    canvas->Line({{x_of(x), y_of(0)}, {x_of(x), y_of(y_end)}}, kGrid, 1);
    canvas->Text(x_of(x), y_of(0) + 18, 13, Anchor::kMiddle, absl::StrFormat("%g", x));
  }
  for (double y = 0, step = Step(y_end); y <= y_end; y += step) {
    canvas->Line({{x_of(0), y_of(y)}, {x_of(x_end), y_of(y)}}, kGrid, 1);
    canvas->Text(x_of(0) - 8, y_of(y) + 4, 13, Anchor::kEnd, absl::StrFormat("%g", y));
  }
  canvas->Line({{x_of(0), y_of(y_end)}, {x_of(0), y_of(0)}, {x_of(x_end), y_of(0)}}, kInk, 1);
  canvas->Text(kWidth / 2, 28, 16, Anchor::kMiddle, plot.title);
  canvas->Text(x_of(x_end / 2), kHeight - 16, 14, Anchor::kMiddle, plot.x_label);
  canvas->Text(24, y_of(y_end / 2), 14, Anchor::kMiddle, plot.y_label, /*upward=*/true);
  for (size_t i = 0; i < plot.series.size(); ++i) {
    Colour colour = kColours[i % std::size(kColours)];
    Polyline line;
    for (const auto& [x, y] : plot.series[i].points) line.emplace_back(x_of(x), y_of(y));
    canvas->Line(line, colour, 2);
    double y = kTop + 16 + 22 * static_cast<double>(i), x = kWidth - kRight + 16;
    canvas->Line({{x, y}, {x + 26, y}}, colour, 3);
    canvas->Text(x + 34, y + 4, 13, Anchor::kBegin, plot.series[i].name);
  }
}

}  // namespace

std::string ToSvg(const LinePlot& plot) {
  SvgCanvas canvas;
  Draw(plot, &canvas);
  return canvas.File();
}

std::string ToPng(const LinePlot& plot) {
  RasterCanvas canvas;
  Draw(plot, &canvas);
  return canvas.File();
}

}  // namespace tessera::cli
