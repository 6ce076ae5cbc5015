// What a worker's host does for a batch before a device can have it, against a plain copy of as many bytes that lie in
// a row.
//
//   bench_feed [--runs N]
//
// read:  its examples, as the plan draws them, out of the data set.
// stage: from there into pinned memory, which is stood in for by plain memory as large as a backend's ring of it.
#include <glog/logging.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/plan.h"
#include "tools/bench_series.h"
#include "worker/data/idx.h"

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

void Measure(const Case& c, int runs, const std::string& folder) {
  const uint32_t count = static_cast<uint32_t>(kBatches * c.batch);
  const size_t width = size_t{c.side} * c.side;
  const FilePair files{folder + "/images", folder + "/labels"};
  CHECK(WriteIdx(files.images, {count, c.side, c.side}, std::vector<uint8_t>(count * width, 7)).ok());
  CHECK(WriteIdx(files.labels, {count}, std::vector<uint8_t>(count, 1)).ok());
  const auto data = std::move(*OpenDataset("idx", files));
  JobSpec job;
  job.training.batch_size = c.batch;
  job.training.lease_batches = kBatches;
  const Plan plan(job, count);

  std::vector<uint8_t> inputs(static_cast<size_t>(c.batch) * width, 1), elsewhere(count * width, 1);
  std::vector<int32_t> labels(static_cast<size_t>(c.batch));
  std::vector<uint64_t> ids;
  Ring ring;
  Series read, stage, copy, ratio;
  for (int run = -kBatches; run < runs; ++run) {  // the first ones warm up
    const size_t batch = static_cast<size_t>(run + kBatches) % kBatches;
    plan.Examples(LeaseId{0}, static_cast<Step>(batch + 1), &ids);
    const double reading = Milliseconds([&] { CHECK(data->ReadBatch(ids, inputs.data(), labels.data()).ok()); });
    const double staging = Milliseconds([&] { ring.Copy(inputs); });
    const double copying =
        Milliseconds([&] { ring.Copy(absl::MakeConstSpan(elsewhere).subspan(batch * inputs.size(), inputs.size())); });
    if (run < 0) continue;
    read.values.push_back(reading);
    stage.values.push_back(staging);
    copy.values.push_back(copying);
    ratio.values.push_back(copying / (reading + staging));
  }
  std::printf("batches of %ld x %zu bytes: ms\n", static_cast<long>(c.batch), width);
  for (const auto& [what, series] :
       {std::pair<const char*, const Series&>{"read", read}, {"stage", stage}, {"plain copy", copy}}) {
    std::printf("  %-12s %8.3f [%.3f, %.3f]\n", what, series.Median(), series.Smallest(), series.Largest());
  }
  std::printf("  a plain copy takes %.2f [%.2f, %.2f] of both\n", ratio.Median(), ratio.Smallest(), ratio.Largest());
}

}  // namespace
}  // namespace downpour

int main(int argc, char** argv) {
  CLI::App app("What a worker's host does for a batch before a device can have it");
  int runs = 64;
  app.add_option("--runs", runs, "Batches measured of each shape")->capture_default_str()->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  std::string folder = (std::filesystem::temp_directory_path() / "bench_feed_XXXXXX").string();
  CHECK(mkdtemp(folder.data()) != nullptr) << folder;
  for (const downpour::Case& c : {downpour::Case{64, 4096}, {28, 128}}) downpour::Measure(c, runs, folder);
  std::filesystem::remove_all(folder);
}
