// How fast a shard takes pushes, against how fast this core streams the same bytes.
//
//   bench_apply [--runs N] [--only OPTIMIZER]
//
// What is timed is all that a push costs a ps after its frames have arrived: decode, checks, copy-on-write, apply,
// counters and answer. The ceiling is measured in turn with it, in the same run: one addition per element over as many
// arrays; for Adam also with a division and a square root per element.
//   in place   nobody else holds the slice
//   copied     a pull of each slice is on its way while the push comes, up to a worker's window of them
//   stale      each push is computed from values of 7 updates ago, by the default method, and copied
#include <glog/logging.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/bench_series.h"
#include "bench/stream_kernel.h"
#include "job/job_file.h"
#include "job/job_names.h"
#include "ps/ps_role.h"
#include "ps/shard.h"
#include "runtime/member_session.h"
#include "schema/codec.h"

namespace downpour {
namespace {

constexpr Incarnation kPs{1}, kWorker{2};
constexpr PeerId kWorkerPeer = PeerId::kFirstAccepted;
constexpr uint64_t kTrainExamples = 1'000'000;
constexpr uint64_t kStale = 7;  // updates, as of eight workers

// Of this thread on its core: what other processes take of it in between does not count.
double SecondsNow() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

JobSpec MakeJob(OptimizerKind kind, int64_t inputs, const std::vector<int64_t>& units) {
  JobSpec job;
  job.name = "bench-apply";
  job.model.inputs = {{"x", {inputs}}};
  for (size_t i = 0; i < units.size(); ++i) {
    job.model.layers.push_back({"dense_" + std::to_string(i),
                                {i == 0 ? "x" : "dense_" + std::to_string(i - 1)},
                                DenseSpec{units[i], Activation::kRelu, true}});
  }
  job.training.batch_size = 1;
  job.training.lease_batches = kTrainExamples;  // one lease: its steps count the passes
  job.training.optimizer.kind = kind;
  job.training.optimizer.learning_rate = 1e-6;
  if (kind == OptimizerKind::kSgd) job.training.staleness_method = StalenessMethod::kSteepRate;  // that of no slot
  job.data.train = {"images", "labels"};
  return job;
}

// A ps that holds every slice of the job, and a worker that pushes to it.
class LoadedShard {
 public:
  explicit LoadedShard(const JobSpec& job) : role_(PsOptions{}), grid_(GridOf(job.model).value()) {
    Step(Started{0, "here:1"});
    Step(Received{MemberSession::kChief, Welcome{kPs, 1, "ps-0", CanonicalJob(job)}});
    Assign assign{.to = kPs, .train_examples = kTrainExamples, .slices = {}};
    for (const Slice& slice : grid_.slices) assign.slices.push_back({slice.id, kEpoch, SliceSource::kInitialValues});
    Step(Received{MemberSession::kChief, assign});
    for (const Slice& slice : grid_.slices) {
      while (role_.Find(slice.id) == nullptr) Step(Tick{});
      // As a received frame: somewhere behind a header, aligned to 4 bytes.
      Payload frame = Payload::Allocate(static_cast<size_t>(slice.bytes()) + 64);
      std::fill_n(frame.mutable_floats().data(), frame.floats().size(), 1e-3f);
      gradients_.push_back(frame.Sub(36, static_cast<size_t>(slice.bytes())));
    }
  }

  size_t elements() const {
    size_t sum = 0;
    for (const Slice& slice : grid_.slices) sum += static_cast<size_t>(slice.elements);
    return sum;
  }

  // Seconds to push every slice once, in messages as full as a worker's.
  double PushAll(bool held, uint64_t stale = 0) {
    ++step_;
    double seconds = 0;
    std::vector<Push::Item> slices;
    size_t bytes = 0;
    uint64_t newest = 0;
    for (const Slice& slice : grid_.slices) {
      const Payload& gradient = gradients_[ToNumber(slice.id)];
      if (bytes + gradient.size() > kMaxMessagePayload) {
        seconds += Deliver(std::exchange(slices, {}), newest);
        bytes = 0;
      }
      if (held) Hold(slice);
      Version computed_from = role_.Find(slice.id)->CurrentVersion();
      newest = computed_from.n;
      computed_from.n -= std::min(stale, newest);
      slices.push_back({slice.id, kEpoch, computed_from, gradient});
      bytes += gradient.size();
    }
    return seconds + Deliver(std::move(slices), newest);
  }

 private:
  static constexpr SliceEpoch kEpoch{1, 1};

  // `version`: of the last of them.
  double Deliver(std::vector<Push::Item> slices, uint64_t version) {
    const SliceId last = slices.back().slice;
    const std::vector<Payload> frames = Encode(Push{kWorker, LeaseId{0}, step_, std::move(slices)});
    const double begin = SecondsNow();
    absl::StatusOr<Message> message = Decode(frames);
    CHECK(message.ok()) << message.status();
    role_.Step(Time(), Received{kWorkerPeer, *std::move(message)}, effects_);
    const double seconds = SecondsNow() - begin;
    effects_.Take();
    CHECK_EQ(role_.Find(last)->version, version + 1);
    return seconds;
  }

  void Step(Input input) {
    role_.Step(Time(), std::move(input), effects_);
    effects_.Take();
  }

  // Pulls the slice; the reply is on its way until a window's bytes later.
  void Hold(const Slice& slice) {
    role_.Step(Time(), Received{kWorkerPeer, Pull{kWorker, 1, {{slice.id, kEpoch, Version{}}}}}, effects_);
    for (Effect& effect : effects_.Take()) {
      if (auto* send = std::get_if<Send>(&effect)) {
        held_.push_back(std::get<PullReply>(send->message).slices.at(0).values);
        held_bytes_ += held_.back().size();
      }
    }
    while (held_bytes_ > Window().bytes) {
      held_bytes_ -= held_.front().size();
      held_.pop_front();
    }
  }

  PsRole role_;
  SliceGrid grid_;
  Effects effects_;
  std::vector<Payload> gradients_;
  uint32_t step_ = 0;
  std::deque<Payload> held_;
  uint64_t held_bytes_ = 0;
};

// Arrays of the same size, streamed in place.
class Ceiling {
 public:
  Ceiling(size_t elements, size_t arrays) : gradient_(Payload::Zeros(4 * elements)) {
    for (size_t a = 0; a < arrays; ++a) memory_.push_back(Payload::Zeros(4 * elements));
    for (Payload& array : memory_) arrays_.push_back({array.floats().data(), array.mutable_floats().data()});
  }
  double Stream() {
    const double begin = SecondsNow();
    StreamArrays(gradient_.floats(), arrays_);
    return SecondsNow() - begin;
  }
  double StreamWithRoots() {
    const double begin = SecondsNow();
    StreamArraysWithRoots(gradient_.floats(), arrays_);
    return SecondsNow() - begin;
  }

 private:
  Payload gradient_;
  std::vector<Payload> memory_;
  std::vector<UpdatedArray> arrays_;
};

void Print(const char* what, Series rate, Series ratio) {
  std::printf("    %-30s %7.1f GB/s  [%5.1f, %5.1f]", what, rate.Median(), rate.Smallest(), rate.Largest());
  if (!ratio.values.empty()) {
    std::printf("   %5.2f of the ceiling  [%4.2f, %4.2f]", ratio.Median(), ratio.Smallest(), ratio.Largest());
  }
  std::printf("\n");
}

// `passes` over all slices make one measurement.
void Measure(const char* name, const JobSpec& job, int runs, int passes) {
  LoadedShard shard(job), stale_shard(job);  // a slice remembers how stale its pushes were
  const size_t arrays = 1 + static_cast<size_t>(SlotCount(job.training));
  Ceiling ceiling(shard.elements(), arrays);
  const double bytes = 4.0 * static_cast<double>((2 * arrays + 1) * shard.elements() * static_cast<size_t>(passes));
  const auto rate = [&](auto pass) {
    double seconds = 0;
    for (int i = 0; i < passes; ++i) seconds += pass();
    return bytes / seconds / 1e9;
  };
  const bool adam = job.training.optimizer.kind == OptimizerKind::kAdam;
  Series streamed, in_place, copied, in_place_ratio, copied_ratio, stale, stale_ratio, roots, roots_ratio;
  for (int run = -1; run < runs; ++run) {  // the first one warms up
    const double top = rate([&] { return ceiling.Stream(); });
    const double with_roots = adam ? rate([&] { return ceiling.StreamWithRoots(); }) : 0;
    const double own = rate([&] { return shard.PushAll(false); });
    const double shared = rate([&] { return shard.PushAll(true); });
    const double old = rate([&] { return stale_shard.PushAll(true, kStale); });
    if (run < 0) continue;
    streamed.values.push_back(top);
    in_place.values.push_back(own);
    copied.values.push_back(shared);
    in_place_ratio.values.push_back(own / top);
    copied_ratio.values.push_back(shared / top);
    stale.values.push_back(old);
    stale_ratio.values.push_back(old / top);
    if (!adam) continue;
    roots.values.push_back(with_roots);
    roots_ratio.values.push_back(own / with_roots);
  }
  std::printf("  %s, %zu bytes per parameter\n", name, 4 * (2 * arrays + 1));
  Print("ceiling", streamed, {});
  Print("in place", in_place, in_place_ratio);
  Print("copied", copied, copied_ratio);
  Print("copied, stale", stale, stale_ratio);
  if (!adam) return;
  Print("ceiling with division and root", roots, {});
  Print("in place", in_place, roots_ratio);
}

void StayOnThisCore() {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(sched_getcpu(), &set);
  PCHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
}

int Main(int argc, char** argv) {
  CLI::App app("Pushes applied by a shard against a streaming kernel on the same core", "bench_apply");
  int runs = 9;
  app.add_option("--runs", runs, "measurements of each; their median and range are printed")
      ->check(CLI::PositiveNumber);
  std::string only;
  app.add_option("--only", only, "one optimizer, such as momentum");
  CLI11_PARSE(app, argc, argv);
  StayOnThisCore();

  std::printf("kernels %s; medians of %d runs [smallest, largest]\n", CpuTargetName(), runs);
  const auto measure = [&](int64_t inputs, const std::vector<int64_t>& units, int passes) {
    for (const auto& [kind, name] : kOptimizers) {
      if (only.empty() || only == name) Measure(name, MakeJob(kind, inputs, units), runs, passes);
    }
  };
  std::printf("784-256-128-10: 0.9 MB of values in 6 slices\n");
  measure(784, {256, 128, 10}, 100);
  std::printf("64 MiB of values in slices of 1 MiB\n");
  measure(4095, {4096}, 1);
  return 0;
}

}  // namespace
}  // namespace downpour

int main(int argc, char** argv) { return downpour::Main(argc, argv); }
