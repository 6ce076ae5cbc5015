#include "tools/digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/idx.h"
#include "runtime/prng.h"

namespace downpour {
namespace {

struct Point {
  double x = 0;
  double y = 0;
};
Point operator+(Point a, Point b) { return {a.x + b.x, a.y + b.y}; }
Point operator-(Point a, Point b) { return {a.x - b.x, a.y - b.y}; }
Point operator*(double s, Point p) { return {s * p.x, s * p.y}; }
double Dot(Point a, Point b) { return a.x * b.x + a.y * b.y; }

// A smooth stroke through its points, in a unit box with y downwards.
using Stroke = std::vector<Point>;
using Glyph = std::vector<Stroke>;

// Several ways to write each digit.
const std::array<std::vector<Glyph>, 10>& Glyphs() {
  static const auto& glyphs = *new std::array<std::vector<Glyph>, 10>{{
      {{{{.5, .05}, {.2, .22}, {.13, .5}, {.2, .78}, {.5, .95}, {.8, .78}, {.87, .5}, {.8, .22}, {.5, .05}}},
       {{{.62, .08}, {.3, .2}, {.18, .55}, {.32, .88}, {.62, .9}, {.8, .6}, {.75, .22}, {.5, .06}, {.42, .14}}}},
      {{{{.5, .05}, {.5, .5}, {.5, .95}}},
       {{{.28, .3}, {.54, .05}}, {{.54, .05}, {.54, .95}}},
       {{{.3, .25}, {.52, .05}}, {{.52, .05}, {.52, .95}}, {{.28, .95}, {.78, .95}}}},
      {{{{.2, .27}, {.36, .08}, {.62, .07}, {.78, .26}, {.68, .48}, {.42, .72}, {.18, .93}}, {{.18, .93}, {.84, .93}}},
       {{{.18, .2}, {.5, .06}, {.78, .24}, {.6, .6}, {.3, .92}, {.18, .82}, {.32, .76}, {.58, .92}, {.86, .88}}}},
      {{{{.2, .14}, {.46, .05}, {.74, .16}, {.72, .36}, {.44, .47}},
        {{.44, .47}, {.78, .58}, {.82, .8}, {.5, .95}, {.18, .85}}},
       {{{.2, .07}, {.78, .07}},
        {{.78, .07}, {.46, .42}},
        {{.46, .42}, {.8, .56}, {.78, .84}, {.46, .95}, {.18, .84}}}},
      {{{{.6, .05}, {.15, .64}}, {{.15, .64}, {.87, .64}}, {{.68, .34}, {.64, .95}}},
       {{{.24, .06}, {.2, .5}}, {{.2, .5}, {.8, .5}}, {{.76, .06}, {.74, .95}}}},
      {{{{.78, .07}, {.28, .07}},
        {{.28, .07}, {.25, .44}},
        {{.25, .44}, {.56, .37}, {.82, .58}, {.76, .85}, {.45, .95}, {.18, .86}}},
       {{{.8, .06}, {.36, .1}, {.26, .42}, {.6, .46}, {.78, .7}, {.56, .93}, {.2, .9}}}},
      {{{{.68, .05}, {.4, .24}, {.2, .58}, {.28, .88}, {.58, .95}, {.8, .76}, {.64, .54}, {.36, .58}, {.22, .74}}},
       {{{.4, .05}, {.24, .4}, {.24, .78}, {.5, .95}, {.76, .8}, {.7, .58}, {.46, .52}, {.25, .66}}}},
      {{{{.16, .08}, {.84, .08}}, {{.84, .08}, {.56, .48}, {.42, .95}}},
       {{{.16, .1}, {.5, .13}, {.84, .08}}, {{.84, .08}, {.6, .5}, {.46, .95}}, {{.34, .5}, {.76, .48}}}},
      {{{{.5, .48},
         {.26, .3},
         {.34, .09},
         {.66, .09},
         {.74, .3},
         {.5, .48},
         {.2, .7},
         {.3, .93},
         {.7, .93},
         {.8, .7},
         {.5, .48}}},
       {{{.74, .14},
         {.4, .06},
         {.26, .26},
         {.5, .46},
         {.76, .7},
         {.6, .93},
         {.3, .88},
         {.28, .66},
         {.56, .44},
         {.76, .16}}}},
      {{{{.78, .3}, {.6, .07}, {.3, .1}, {.2, .33}, {.42, .52}, {.7, .44}, {.78, .3}},
        {{.78, .3}, {.74, .62}, {.58, .95}}},
       {{{.74, .12}, {.4, .06}, {.22, .28}, {.38, .48}, {.66, .4}, {.74, .12}}, {{.74, .12}, {.73, .95}}}},
  }};
  return glyphs;
}

// Nearly normal, mean 0: a sum of uniforms, so that no libm function is needed. Twelve of them have variance 1.
double SumOfUniforms(Prng& prng, int count) {
  double sum = -0.5 * count;
  for (int i = 0; i < count; ++i) sum += prng.Uniform();
  return sum;
}
double Normal(Prng& prng) { return SumOfUniforms(prng, 12); }
double Between(Prng& prng, double low, double high) { return low + (high - low) * prng.Uniform(); }

// A point of the Catmull-Rom spline between b and c.
Point Spline(Point a, Point b, Point c, Point d, double t) {
  const double t2 = t * t;
  const double t3 = t2 * t;
  return 0.5 * ((2.0 * b) + t * (c - a) + t2 * (2.0 * a - 5.0 * b + 4.0 * c - d) + t3 * (3.0 * b - a - 3.0 * c + d));
}

std::vector<Point> Flatten(const Stroke& stroke) {
  constexpr int kPieces = 5;
  std::vector<Point> line = {stroke.front()};
  const size_t n = stroke.size();
  for (size_t i = 0; i + 1 < n; ++i) {
    const Point before = i == 0 ? stroke[0] : stroke[i - 1];
    const Point after = i + 2 < n ? stroke[i + 2] : stroke[n - 1];
    for (int k = 1; k <= kPieces; ++k) {
      line.push_back(Spline(before, stroke[i], stroke[i + 1], after, static_cast<double>(k) / kPieces));
    }
  }
  return line;
}

// Unit box -> pixels: scale, shear, rotation by the half-angle form (no sine needed), shift.
struct Transform {
  double xx, xy, yx, yy;
  Point shift;

  explicit Transform(Prng& prng) {
    const double half = Between(prng, -0.17, 0.17);  // tangent of half the angle: up to 19 degrees
    const double cosine = (1 - half * half) / (1 + half * half);
    const double sine = 2 * half / (1 + half * half);
    const double shear = Between(prng, -0.35, 0.35);
    const double width = Between(prng, 11, 18);
    const double height = Between(prng, 16, 22);
    xx = cosine * width;
    xy = (cosine * shear - sine) * height;
    yx = sine * width;
    yy = (sine * shear + cosine) * height;
    shift = {13.5 + Between(prng, -2.6, 2.6), 13.5 + Between(prng, -2.6, 2.6)};
  }
  Point operator()(Point p) const {
    const double x = p.x - 0.5;
    const double y = p.y - 0.5;
    return Point{xx * x + xy * y, yx * x + yy * y} + shift;
  }
};

using Distances = std::array<double, kDigitSide * kDigitSide>;  // squared, from each pixel to the nearest ink

void AddSegment(Point a, Point b, double reach, Distances& nearest) {
  const Point along = b - a;
  const double length2 = std::max(Dot(along, along), 1e-12);
  const auto clamp = [](double v) { return static_cast<int>(std::min(std::max(v, 0.0), double{kDigitSide - 1})); };
  for (int y = clamp(std::min(a.y, b.y) - reach); y <= clamp(std::max(a.y, b.y) + reach + 1); ++y) {
    for (int x = clamp(std::min(a.x, b.x) - reach); x <= clamp(std::max(a.x, b.x) + reach + 1); ++x) {
      const Point to = Point{double(x), double(y)} - a;
      const double t = std::min(std::max(Dot(to, along) / length2, 0.0), 1.0);
      const Point off = to - t * along;
      double& least = nearest[y * kDigitSide + x];
      least = std::min(least, Dot(off, off));
    }
  }
}

void DrawGlyph(const Glyph& glyph, double pen, double wobble, Prng& prng, Distances& nearest) {
  const Transform transform(prng);
  for (Stroke stroke : glyph) {
    for (Point& p : stroke) p = transform(p + wobble * Point{Normal(prng), Normal(prng)});
    const std::vector<Point> line = Flatten(stroke);
    for (size_t i = 0; i + 1 < line.size(); ++i) AddSegment(line[i], line[i + 1], pen + 1, nearest);
  }
}

// How digits of a difficulty are drawn: brightnesses from 0 to 255, the wobble of points in units of their box.
struct Look {
  double wobble, background, least_ink, most_ink, least_noise, most_noise;
};
constexpr Look kUsual = {
    .wobble = 0.035, .background = 0, .least_ink = 170, .most_ink = 255, .least_noise = 4, .most_noise = 26};
constexpr Look kHard = {
    .wobble = 0.07, .background = 80, .least_ink = 80, .most_ink = 150, .least_noise = 70, .most_noise = 120};

}  // namespace

uint8_t DrawDigit(uint64_t seed, uint64_t index, Difficulty difficulty, uint8_t* pixels) {
  const Look& look = difficulty == Difficulty::kHard ? kHard : kUsual;
  Prng prng(MixAll(seed, index));
  const auto label = static_cast<uint8_t>(prng.Below(10));
  const std::vector<Glyph>& ways = Glyphs()[label];
  const double pen = Between(prng, 0.7, 1.7);  // half the stroke's thickness, in pixels

  Distances nearest;
  nearest.fill(1e9);
  DrawGlyph(ways[prng.Below(ways.size())], pen, look.wobble, prng, nearest);

  const double ink = Between(prng, look.least_ink, look.most_ink);
  const double noise = Between(prng, look.least_noise, look.most_noise);
  for (int i = 0; i < kDigitSide * kDigitSide; ++i) {
    const double cover = std::min(std::max(pen + 0.5 - std::sqrt(nearest[i]), 0.0), 1.0);
    const double value = look.background + ink * cover + noise * SumOfUniforms(prng, 3);
    pixels[i] = static_cast<uint8_t>(std::min(std::max(value, 0.0), 255.0));
  }
  return label;
}

namespace {

// One that is there stays: somebody may have changed it.
absl::Status WriteJob(const std::string& path) {
  if (std::filesystem::exists(path)) return absl::OkStatus();
  std::ofstream file(path);
  file << DigitsJob() << std::flush;
  return file ? absl::OkStatus() : absl::UnavailableError("cannot write " + path);
}

}  // namespace

absl::Status WriteDigits(const std::string& folder, uint64_t seed, Difficulty difficulty) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot make ", folder, ": ", error.message()));

  struct Split {
    const char* prefix;
    uint32_t count;
    uint64_t first;
  };
  constexpr uint32_t kSide = kDigitSide;
  for (const Split& split : {Split{"train", 60000, 0}, Split{"t10k", 10000, 60000}}) {
    std::vector<uint8_t> images(size_t{split.count} * kSide * kSide);
    std::vector<uint8_t> labels(split.count);
    for (uint32_t i = 0; i < split.count; ++i) {
      labels[i] = DrawDigit(seed, split.first + i, difficulty, images.data() + size_t{i} * kSide * kSide);
    }
    const std::string path = absl::StrCat(folder, "/", split.prefix);
    absl::Status status = WriteIdx(path + "-images-idx3-ubyte", {split.count, kSide, kSide}, images);
    if (status.ok()) status = WriteIdx(path + "-labels-idx1-ubyte", {split.count}, labels);
    if (!status.ok()) return status;
  }
  return WriteJob(folder + "/job.yaml");
}

}  // namespace downpour
