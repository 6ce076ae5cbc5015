// How fast a bucket of a table gathers and updates rows, against what this core's memory allows.
//
//   bench_table [--rows N] [--lookups N] [--runs N] [--grow N]
//
// Rows have 16 floats and a sum of squares for each (Adagrad): 128 bytes. Millions of rows a second, of one thread, by
// the time that it had the CPU:
//   bound       two dependent cache misses for each row: a line of 64 bytes, chosen by the key's hash, has the number
//               of the row, and no key is compared. These misses of 16 rows at a time overlap. To update, the 128 bytes
//               of the row are read and written, with the same arithmetic
//   bucket      TableBucket::Gather and Apply, in pushes of 4096 keys, each once
//   flat map    absl::flat_hash_map from keys to row numbers, prefetched 32 keys ahead, and the same rows
// Each is measured in turn within a run, so that ratios are of the same minute. Then memory for each row, and the
// longest Apply while a bucket grows, and while it is recorded.
#include <absl/container/flat_hash_map.h>
#include <glog/logging.h>
#include <sys/mman.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "bench/bench_series.h"
#include "ps/table/table_bucket.h"
#include "runtime/prefetch.h"
#include "runtime/prng.h"

namespace downpour {
namespace {

constexpr uint32_t kWidth = 16;
constexpr size_t kPush = 4096;  // keys
constexpr size_t kAhead = 16;   // of the bound
constexpr size_t kBatch = 32;   // of the flat map
constexpr double kZipf = 1.05;
constexpr SquaresUpdate kAdagrad = {.learning_rate = 0.01f, .start = 0.1f, .epsilon = 1e-10f};
const TableSpec kSpec = {.id = 1, .width = kWidth, .seed = 1, .initial = 0.1f};
const RowShape kShape = ShapeOf(kSpec);

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

size_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  size_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident * 4096;
}

uint64_t KeyOf(uint64_t i) { return Mix(i); }

// Memory in huge pages, as the bucket has it.
template <typename T>
class Huge {
 public:
  explicit Huge(size_t count) : bytes_((count * sizeof(T) + kPage - 1) / kPage * kPage) {
    void* const memory = ::operator new(bytes_, std::align_val_t(kPage));
    madvise(memory, bytes_, MADV_HUGEPAGE);
    std::memset(memory, 0, bytes_);
    data_ = static_cast<T*>(memory);
  }
  Huge(const Huge&) = delete;
  Huge& operator=(const Huge&) = delete;
  ~Huge() { ::operator delete(data_, std::align_val_t(kPage)); }
  T& operator[](size_t i) { return data_[i]; }

 private:
  static constexpr size_t kPage = size_t{2} << 20;
  size_t bytes_;
  T* data_;
};

struct alignas(64) Row {
  float numbers[2 * kWidth];
};
struct alignas(64) NumberLine {
  uint32_t number;
};

// Which rows are looked up. In each push of kPush each once.
std::vector<uint32_t> DrawLookups(size_t rows, size_t lookups, bool zipf) {
  Prng prng(7);
  std::vector<uint32_t> drawn, taken_by(rows);
  const double exponent = 1 - kZipf, scale = std::pow(static_cast<double>(rows), exponent) - 1;
  for (uint32_t push = 1; drawn.size() < lookups; ++push) {
    for (size_t i = 0; i < kPush;) {
      const double rank = std::pow(prng.Uniform() * scale + 1, 1 / exponent) - 1;
      const uint64_t row = zipf ? Mix(static_cast<uint64_t>(rank)) % rows : prng.Below(rows);
      if (taken_by[row] == push) continue;
      taken_by[row] = push;
      drawn.push_back(static_cast<uint32_t>(row));
      ++i;
    }
  }
  return drawn;
}

// In pieces that become a load and a store each: of 64 bytes at once this compiler makes a slow string instruction.
void CopyValues(const Row& row, float* to) {
#pragma GCC unroll 4
  for (size_t i = 0; i < kWidth; i += 4) std::memcpy(to + i, row.numbers + i, 4 * sizeof(float));
}

// The rows at numbers that are known once a line is there.
class Bound {
 public:
  explicit Bound(size_t rows) : rows_(rows), lines_(rows / 4 + 1), line_count_(rows / 4 + 1) {
    for (size_t i = 0; i < line_count_; ++i) lines_[i].number = static_cast<uint32_t>(Mix(i) % rows);
  }

  template <class Use>
  void Walk(absl::Span<const uint64_t> keys, const Use& use) {
    uint32_t numbers[4 * kAhead];
    const auto line = [this](uint64_t key) -> NumberLine& { return lines_[(Mix(key) >> 32) * line_count_ >> 32]; };
    for (size_t i = 0; i < keys.size() + 2 * kAhead; ++i) {
      if (i < keys.size()) Prefetch(&line(keys[i]));
      if (i >= kAhead && i - kAhead < keys.size()) {
        const uint32_t number = line(keys[i - kAhead]).number;
        numbers[(i - kAhead) % (4 * kAhead)] = number;
        Prefetch(&rows_[number].numbers[0]);
        if constexpr (Use::kWholeRow) Prefetch(&rows_[number].numbers[kWidth]);
      }
      if (i >= 2 * kAhead) use(i - 2 * kAhead, rows_[numbers[(i - 2 * kAhead) % (4 * kAhead)]]);
    }
  }

 private:
  Huge<Row> rows_;
  Huge<NumberLine> lines_;
  uint64_t line_count_;
};

struct CopyRow {
  static constexpr bool kWholeRow = false;
  float* values;
  void operator()(size_t i, Row& row) const { CopyValues(row, values + i % kPush * kWidth); }
};

// Rows are updated 16 at a time, as a bucket does.
struct UpdateRow {
  static constexpr bool kWholeRow = true;
  GradientSpan gradients;
  std::vector<UpdatedRow>* waiting;
  void operator()(size_t i, Row& row) const {
    waiting->push_back({reinterpret_cast<std::byte*>(&row), i});
    if (waiting->size() < kAhead) return;
    UpdateRows(kAdagrad, kShape, gradients, *waiting);
    waiting->clear();
  }
};

class FlatMap {
 public:
  explicit FlatMap(size_t rows) : rows_(rows) {
    map_.reserve(rows);
    for (size_t i = 0; i < rows; ++i) map_[KeyOf(i)] = static_cast<uint32_t>(i);
  }

  template <class Use>
  void Walk(absl::Span<const uint64_t> keys, const Use& use) {
    Row* rows[kBatch];
    for (size_t begin = 0; begin < keys.size(); begin += kBatch) {
      for (size_t i = 0; i < kBatch; ++i) map_.prefetch(keys[begin + i]);
      for (size_t i = 0; i < kBatch; ++i) {
        rows[i] = &rows_[map_.find(keys[begin + i])->second];
        Prefetch(&rows[i]->numbers[0]);
        if constexpr (Use::kWholeRow) Prefetch(&rows[i]->numbers[kWidth]);
      }
      for (size_t i = 0; i < kBatch; ++i) use(begin + i, *rows[i]);
    }
  }

 private:
  Huge<Row> rows_;
  absl::flat_hash_map<uint64_t, uint32_t> map_;
};

// Seconds of one pass over all keys, push by push.
template <class Pass>
double MillionsOfRows(const std::vector<uint64_t>& keys, const Pass& pass) {
  const double begin = ThreadSeconds();
  for (size_t i = 0; i < keys.size(); i += kPush) pass(absl::MakeConstSpan(keys).subspan(i, kPush));
  return static_cast<double>(keys.size()) / (ThreadSeconds() - begin) / 1e6;
}

struct Rates {
  Series bound, bucket, map, of_bound, of_map;
  void Add(double by_bound, double by_bucket, double by_map) {
    bound.values.push_back(by_bound);
    bucket.values.push_back(by_bucket);
    map.values.push_back(by_map);
    of_bound.values.push_back(by_bucket / by_bound);
    of_map.values.push_back(by_bucket / by_map);
  }
  void Print(const char* what) const {
    std::printf("  %-16s %7.1f %7.1f %8.1f   %5.2f [%.2f, %.2f] %6.2f [%.2f, %.2f]\n", what, bound.Median(),
                bucket.Median(), map.Median(), of_bound.Median(), of_bound.Smallest(), of_bound.Largest(),
                of_map.Median(), of_map.Smallest(), of_map.Largest());
  }
};

std::vector<float> SmallGradients() { return std::vector<float>(kPush * kWidth, 1e-3f); }

void Fill(TableBucket& bucket, size_t rows, double* longest) {
  const std::vector<float> gradients = SmallGradients();
  std::vector<uint64_t> keys(kPush);
  for (size_t begin = 0; begin < rows; begin += kPush) {
    for (size_t i = 0; i < kPush; ++i) keys[i] = KeyOf(begin + i);
    const double before = ThreadSeconds();
    CHECK(bucket.Apply({keys, absl::MakeConstSpan(gradients), kAdagrad}).ok());
    *longest = std::max(*longest, ThreadSeconds() - before);
  }
}

void MeasureRates(TableBucket& bucket, size_t rows, size_t lookups, int runs) {
  Bound bound(rows);
  FlatMap map(rows);
  std::vector<float> values(kPush * kWidth);
  const std::vector<float> numbers = SmallGradients();
  const GradientSpan gradients = absl::MakeConstSpan(numbers);
  std::printf("million rows a second    bound  bucket flat map   of the bound       times flat map\n");
  for (const bool zipf : {false, true}) {
    std::vector<uint64_t> keys;
    for (uint32_t row : DrawLookups(rows, lookups, zipf)) keys.push_back(KeyOf(row));
    Rates gather, update;
    std::vector<UpdatedRow> waiting;
    for (int run = 0; run <= runs; ++run) {
      const CopyRow copy{values.data()};
      const UpdateRow apply{gradients, &waiting};
      const double a = MillionsOfRows(keys, [&](auto push) { bound.Walk(push, copy); });
      const double b = MillionsOfRows(keys, [&](auto push) { bucket.Gather(push, values.data()); });
      const double c = MillionsOfRows(keys, [&](auto push) { map.Walk(push, copy); });
      const double d = MillionsOfRows(keys, [&](auto push) { bound.Walk(push, apply); });
      const double e = MillionsOfRows(keys, [&](auto push) { CHECK(bucket.Apply({push, gradients, kAdagrad}).ok()); });
      const double f = MillionsOfRows(keys, [&](auto push) { map.Walk(push, apply); });
      if (run == 0) continue;  // the first warms up
      gather.Add(a, b, c);
      update.Add(d, e, f);
    }
    gather.Print(zipf ? "gather, Zipf" : "gather, uniform");
    update.Print(zipf ? "update, Zipf" : "update, uniform");
  }
}

// A record of all rows, with a push after each part.
void MeasureRecord(TableBucket& bucket, size_t rows) {
  const std::vector<float> numbers = SmallGradients();
  std::vector<uint64_t> keys;
  for (uint32_t row : DrawLookups(rows, rows / 4, false)) keys.push_back(KeyOf(row));
  double longest_push = 0, longest_part = 0, seconds = 0;
  size_t bytes = 0, most = 0, next = 0;
  const double begun = ThreadSeconds();
  bucket.BeginRecord(std::nullopt);
  const double began = ThreadSeconds() - begun;
  while (bucket.recording()) {
    const double before = ThreadSeconds();
    bytes += bucket.NextPart(size_t{1} << 20).size();
    const double middle = ThreadSeconds();
    if (next + kPush > keys.size()) next = 0;
    CHECK(bucket.Apply({absl::MakeConstSpan(keys).subspan(next, kPush), absl::MakeConstSpan(numbers), kAdagrad}).ok());
    next += kPush;
    longest_push = std::max(longest_push, ThreadSeconds() - middle);
    longest_part = std::max(longest_part, middle - before);
    seconds += middle - before;
    most = std::max(most, bucket.record_bytes());
  }
  std::printf(
      "record: %.0f MB/s, begun in %.2f ms; the longest part %.2f ms, the longest push meanwhile %.2f ms; "
      "at most %.3f of the bucket's memory more\n",
      static_cast<double>(bytes) / seconds / 1e6, began * 1e3, longest_part * 1e3, longest_push * 1e3,
      static_cast<double>(most) / static_cast<double>(bucket.bytes()));
}

void Run(size_t rows, size_t lookups, int runs, size_t grow) {
  rows = std::max(rows / kPush, size_t{1}) * kPush;
  double longest = 0;
  const size_t before = ResidentBytes();
  TableBucket bucket(kSpec, 1);
  const double begun = ThreadSeconds();
  Fill(bucket, rows, &longest);
  const double born = static_cast<double>(rows) / (ThreadSeconds() - begun) / 1e6;
  const double each = 8 + 2 * 4 * kWidth, all = static_cast<double>(rows) * each;
  std::printf("%zu rows: %.1f bytes a row by its own account, %.3f times key + value + state; resident %.3f times\n",
              rows, static_cast<double>(bucket.bytes()) / static_cast<double>(rows),
              static_cast<double>(bucket.bytes()) / all, static_cast<double>(ResidentBytes() - before) / all);
  std::printf("growth: %.2f million births a second, the longest push of %zu births %.2f ms\n", born, kPush,
              longest * 1e3);
  double most = 0;
  TableBucket grown(kSpec, 2);
  for (size_t size = kPush; size <= grow; size += kPush) {
    const std::vector<float> gradients = SmallGradients();
    std::vector<uint64_t> keys(kPush);
    for (size_t i = 0; i < kPush; ++i) keys[i] = KeyOf(size + i);
    CHECK(grown.Apply({keys, absl::MakeConstSpan(gradients), kAdagrad}).ok());
    if (size > 8 * kPush)
      most = std::max(most, static_cast<double>(grown.bytes()) / (static_cast<double>(size) * each));
  }
  if (most > 0) std::printf("on its way to %zu rows it had at most %.3f times key + value + state\n", grow, most);
  MeasureRates(bucket, rows, lookups, runs);
  MeasureRecord(bucket, rows);
}

}  // namespace
}  // namespace downpour

int main(int argc, char** argv) {
  CLI::App app("How fast a bucket of a table gathers and updates rows");
  size_t rows = 8'000'000, lookups = 2'000'000, grow = 1'000'000;
  int runs = 7;
  app.add_option("--rows", rows, "Rows of the bucket")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--lookups", lookups, "Keys of a run")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--runs", runs, "Measurements of each")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--grow", grow, "Rows of a second bucket, whose memory is looked at as it grows")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  downpour::Run(rows, lookups, runs, grow);
}
