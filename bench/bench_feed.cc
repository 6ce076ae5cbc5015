// What a worker's host does for a device before that can have a batch, or parameters, against a plain copy of as many
// bytes that lie in a row. Plain memory stands in for pinned one.
//
//   bench_feed [--runs N]
//
// A batch:
//   read:  its examples, as the plan draws them, out of the data set.
//   stage: from there into memory as large as a backend's ring.
// Parameters of a large model, of which a device keeps kernels as bfloat16:
//   stage:        into that ring, which is what a step begins with where they did not come ahead.
//   stage ahead:  into frames of their own, on the thread that does so while they arrive.
//   take:         what a step begins with then, but for asking the device for a copy of each slice.
#include <glog/logging.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "bench/bench_gpu_model.h"
#include "bench/bench_series.h"
#include "data/idx.h"
#include "job/slice_grid.h"
#include "model/slice_frames.h"
#include "runtime/plan.h"
#include "tensor/apply_kernels.h"

namespace downpour {
namespace {

constexpr int kBatches = 16;  // of the data set
constexpr size_t kRing = size_t{16} << 20;
constexpr size_t kChunk = size_t{1} << 20;

struct Case {
  uint32_t side;  // of an image
  int64_t batch;
};

template <class Run>
double Milliseconds(const Run& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

class Ring {
 public:
  void CopyRounded(absl::Span<const float> numbers) {
    constexpr size_t kNumbers = kChunk / sizeof(Bf16);
    for (size_t done = 0; done < numbers.size(); done += kNumbers) {
      RoundToBf16(numbers.subspan(done, kNumbers), reinterpret_cast<Bf16*>(memory_.data() + at_));
      at_ = (at_ + kChunk) % kRing;
    }
  }
  void Copy(absl::Span<const uint8_t> bytes) {
    for (size_t done = 0; done < bytes.size(); done += kChunk) {
      std::memcpy(memory_.data() + at_, bytes.data() + done, std::min(kChunk, bytes.size() - done));
      at_ = (at_ + kChunk) % kRing;
    }
  }

 private:
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(kRing, 1);
  size_t at_ = 0;
};

void Print(std::initializer_list<std::pair<const char*, const Series*>> rows) {
  for (const auto& [what, series] : rows) {
    std::printf("  %-12s %8.3f [%.3f, %.3f]\n", what, series->Median(), series->Smallest(), series->Largest());
  }
}

void MeasureBatches(const Case& c, int runs, const std::string& folder) {
  const uint32_t count = static_cast<uint32_t>(kBatches * c.batch);
  const size_t width = size_t{c.side} * c.side;
  const SetFiles files{folder + "/images", folder + "/labels"};
  CHECK(WriteIdx(files.images, {count, c.side, c.side}, std::vector<uint8_t>(count * width, 7)).ok());
  CHECK(WriteIdx(files.labels, {count}, std::vector<uint8_t>(count, 1)).ok());
  const auto data = std::move(*OpenDataset(DataSpec(), files));
  JobSpec job;
  job.training.batch_size = c.batch;
  job.training.lease_batches = kBatches;
  const Plan plan(job, count);

  const size_t bytes = static_cast<size_t>(c.batch) * width;
  std::vector<uint8_t> elsewhere(count * width, 1);
  std::vector<ColumnValues> columns(2);
  std::vector<uint64_t> ids;
  Ring ring;
  Series read, stage, copy, ratio;
  for (int run = -kBatches; run < runs; ++run) {  // the first ones warm up
    const size_t batch = static_cast<size_t>(run + kBatches) % kBatches;
    plan.Examples(LeaseId{0}, static_cast<Step>(batch + 1), &ids);
    const double reading = Milliseconds([&] { CHECK(data->ReadBatch(ids, {0, 1}, absl::MakeSpan(columns)).ok()); });
    const auto& inputs = std::get<std::vector<uint8_t>>(columns[0]);
    const double staging = Milliseconds([&] { ring.Copy(inputs); });
    const double copying =
        Milliseconds([&] { ring.Copy(absl::MakeConstSpan(elsewhere).subspan(batch * bytes, bytes)); });
    if (run < 0) continue;
    read.values.push_back(reading);
    stage.values.push_back(staging);
    copy.values.push_back(copying);
    ratio.values.push_back(copying / (reading + staging));
  }
  std::printf("batches of %ld x %zu bytes: ms\n", static_cast<long>(c.batch), width);
  Print({{"read", &read}, {"stage", &stage}, {"plain copy", &copy}});
  std::printf("  a plain copy takes %.2f [%.2f, %.2f] of both\n", ratio.Median(), ratio.Smallest(), ratio.Largest());
}

void MeasureParameters(int runs) {
  const SliceGrid grid = GridOf(LargeModel()).value();
  std::vector<bool> rounded;
  for (const VariableSpec& variable : grid.variables) rounded.push_back(variable.shape.size() > 1);
  SliceFrames frames;
  CHECK(frames
            .Open(grid, rounded,
                  [](size_t bytes) { return std::shared_ptr<void>(std::aligned_alloc(64, bytes), std::free); })
            .ok());
  std::vector<Payload> values;
  double bytes = 0;
  for (const Slice& slice : grid.slices) {
    values.push_back(Payload::Zeros(grid.WireBytes(slice.id)));
    bytes += static_cast<double>(values.back().size());
  }
  Ring ring;
  Series stage, ahead, take, copy, ratio;
  for (int run = -4; run < runs; ++run) {  // the first ones touch all memory
    const double staging = Milliseconds([&] {
      for (const Slice& slice : grid.slices) {
        const Payload& of = values[ToNumber(slice.id)];
        rounded[slice.variable] ? ring.CopyRounded(of.floats()) : ring.Copy(of.as<uint8_t>());
      }
    });
    const double staging_ahead = Milliseconds([&] {
      for (const Slice& slice : grid.slices) frames.Pack(slice.id, values[ToNumber(slice.id)]);
    });
    const double taking = Milliseconds([&] {
      for (const Slice& slice : grid.slices) CHECK(frames.Take(slice.id, values[ToNumber(slice.id)]) != nullptr);
    });
    if (run % 2 == 0) frames.FreeTaken();  // as where the next ones come while these are copied
    const double copying = Milliseconds([&] {
      for (const Payload& of : values) ring.Copy(of.as<uint8_t>());
    });
    if (run < 0) continue;
    stage.values.push_back(staging);
    ahead.values.push_back(staging_ahead);
    take.values.push_back(taking);
    copy.values.push_back(copying);
    ratio.values.push_back(copying / staging_ahead);
  }
  std::printf("parameters of %.0f MB, kernels rounded: ms\n", bytes / 1e6);
  Print({{"stage", &stage}, {"stage ahead", &ahead}, {"take", &take}, {"plain copy", &copy}});
  std::printf("  a plain copy takes %.2f [%.2f, %.2f] of staging them ahead\n", ratio.Median(), ratio.Smallest(),
              ratio.Largest());
}

}  // namespace
}  // namespace downpour

int main(int argc, char** argv) {
  CLI::App app("What a worker's host does before a device can have a batch, or parameters");
  int runs = 64;
  app.add_option("--runs", runs, "Measurements of each")->capture_default_str()->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  std::string folder = (std::filesystem::temp_directory_path() / "bench_feed_XXXXXX").string();
  CHECK(mkdtemp(folder.data()) != nullptr) << folder;
  for (const downpour::Case& c : {downpour::Case{64, 4096}, {28, 128}}) {
    downpour::MeasureBatches(c, runs, folder);
  }
  std::filesystem::remove_all(folder);
  downpour::MeasureParameters(runs);
}
