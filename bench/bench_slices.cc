// What a step costs the role threads of a worker and of a ps, as a model gets more slices: a step of four times as many
// is to cost little more than four times as much.
//
//   bench_slices [--runs N] [--slices N]
//
// The roles are driven by hand, without sockets, devices or arithmetic: each slice travels in a message of its own, as
// full slices do. The worker is answered at once by whoever plays its chief, its device and its ps. Its slices have 1
// MiB, all in the same memory; the ps gets empty pushes, and pulls of what it has already sent.
#include <glog/logging.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <deque>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bench/bench_job.h"
#include "bench/bench_series.h"
#include "job/job_file.h"
#include "job/slice_grid.h"
#include "ps/ps_role.h"
#include "worker/worker_role.h"

namespace downpour {
namespace {

constexpr Incarnation kWorker{5}, kServer{10};
constexpr PeerId kChief{1}, kPs{2}, kCaller = PeerId::kFirstAccepted;
constexpr SliceEpoch kEpoch{1, 1};
constexpr uint64_t kExamples = uint64_t{1} << 30;

// Seconds of one step, on the mean of those since the first one.
class Clock {
 public:
  void Begin() { begun_ = std::chrono::steady_clock::now(); }
  double SecondsOf(int steps) const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count() / steps;
  }

 private:
  std::chrono::steady_clock::time_point begun_;
};

JobSpec JobOfFullSlices(int64_t slices) { return JobOfVariables(1, slices * kMaxSliceElements); }
JobSpec JobOfSmallSlices(int64_t slices) { return JobOfVariables(slices, 1); }

Welcome WelcomeOf(Incarnation you, const JobSpec& job) {
  return {.you = you, .term = 1, .name = "task-0", .job = CanonicalJob(job), .run = 1};
}

// ---- A worker -------------------------------------------------------------------------------------------------------

class WorkerAlone {
 public:
  explicit WorkerAlone(const JobSpec& job)
      : job_(job), grid_(GridOf(job.model).value()), frame_(Payload::Zeros(kMaxSliceElements * sizeof(float))) {
    Give(Started{});
    Give(Received{kChief, WelcomeOf(kWorker, job), 1});
  }

  // Of the role alone; what its peers do is not counted.
  double SecondsOfStep(int steps) {
    const int until = trained_ + 1 + steps;
    while (trained_ <= until - steps) Advance();
    taken_ = {};
    while (trained_ <= until) Advance();
    return std::chrono::duration<double>(taken_).count() / steps;
  }

 private:
  void Give(Input input) { waiting_.push_back(std::move(input)); }
  void Advance() {
    CHECK(!waiting_.empty()) << "the worker waits for nothing";
    Input input = std::move(waiting_.front());
    waiting_.pop_front();
    Effects effects;
    const auto begin = std::chrono::steady_clock::now();
    role_.Step(now_, std::move(input), effects);
    taken_ += std::chrono::steady_clock::now() - begin;
    for (Effect& effect : effects.Take()) {
      std::visit([this](auto& one) { On(one); }, effect);
    }
  }

  void On(Send& send) {
    std::visit([this](auto& message) { Answer(message); }, send.message);
  }
  void On(Compute& compute) {
    if (std::holds_alternative<Prepare>(compute.request)) {
      return Give(ComputeDone{compute.ticket, absl::OkStatus(), Prepared{.train_examples = kExamples}});
    }
    ++trained_;
    Gradients gradients{.slices = {}, .last = true, .examples = 1};
    for (const Slice& slice : grid_.slices) gradients.slices.emplace_back(slice.id, frame_);
    Give(ComputeDone{compute.ticket, absl::OkStatus(), std::move(gradients)});
  }
  void On(Exit& exit) { LOG(FATAL) << exit.why; }
  void On(auto&) {}

  void Answer(DataReport&) {
    Placement placement{kWorker, 1, 1, kExamples, {{kServer, "ps-0", "h:1"}}, {}};
    for (const Slice& slice : grid_.slices) placement.slices.push_back({slice.id, kEpoch, 0});
    Give(Received{kChief, std::move(placement), 1});
  }
  void Answer(WorkRequest& request) {
    for (uint32_t i = 0; i < request.wanted; ++i) Give(Received{kChief, Grant{kWorker, LeaseId{next_lease_++}}, 1});
  }
  void Answer(LeaseDone& done) { Give(Received{kChief, LeaseDoneReply{.lease = done.lease, .committed = true}, 1}); }
  void Answer(Probe& probe) {
    PushReply reply{kServer, probe.lease, {}, Window().bytes};
    for (const Probe::Item& item : probe.slices) reply.slices.push_back({.slice = item.slice, .epoch = kEpoch});
    Give(Received{kPs, std::move(reply), 1});
  }
  void Answer(Push& push) {
    PushReply reply{kServer, push.lease, {}, Window().bytes};
    for (const Push::Item& item : push.slices) {
      reply.slices.push_back({.slice = item.slice, .epoch = kEpoch, .consumed = push.step, .acked = push.step});
    }
    Give(Received{kPs, std::move(reply), 1});
  }
  void Answer(Pull& pull) {
    PullReply reply{kServer, pull.request, {}, Window().bytes};
    for (const Pull::Item& item : pull.slices) {
      reply.slices.push_back({item.slice, SliceRefusal::kNone, {kEpoch, item.have.n + 1}, frame_});
    }
    Give(Received{kPs, std::move(reply), 1});
  }
  void Answer(auto&) {}

  const JobSpec job_;
  const SliceGrid grid_;
  const Payload frame_;  // of values and gradients alike
  WorkerRole role_{WorkerOptions{}};
  const Time now_ = Time(std::chrono::hours(1));
  std::deque<Input> waiting_;
  uint64_t next_lease_ = 0;
  int trained_ = 0;
  std::chrono::steady_clock::duration taken_{};
};

// ---- A ps -----------------------------------------------------------------------------------------------------------

class ServerAlone {
 public:
  explicit ServerAlone(const JobSpec& job) : grid_(GridOf(job.model).value()) {
    Give(Started{0, "h:1"});
    Give(Received{kChief, WelcomeOf(kServer, job), 1});
    Assign assign{kServer, kExamples, {}};
    for (const Slice& slice : grid_.slices) assign.slices.push_back({slice.id, kEpoch, SliceSource::kInitialValues});
    Give(Received{kChief, std::move(assign), 1});
    while (role_.Find(SliceId{static_cast<uint32_t>(grid_.size() - 1)}) == nullptr) Give(Tick{});
  }

  double SecondsOfStep(int steps) {
    Clock clock;
    clock.Begin();
    for (int i = 0; i < steps; ++i) {
      ++step_;
      for (const Slice& slice : grid_.slices) {
        Push push{kWorker, LeaseId{step_ / 64}, static_cast<Step>(step_ % 64 + 1), {}};
        push.slices.push_back({slice.id, kEpoch, {kEpoch, 0}, Payload()});
        Give(Received{kCaller, std::move(push), 1});
      }
      for (const Slice& slice : grid_.slices) {
        Pull pull{kWorker, step_, {{slice.id, kEpoch, {kEpoch, 0}}}};
        Give(Received{kCaller, std::move(pull), 1});
      }
    }
    const double seconds = clock.SecondsOf(steps);
    CHECK_EQ(role_.stats().pushes_refused, 0u);
    return seconds;
  }

 private:
  void Give(Input input) {
    Effects effects;
    role_.Step(now_, std::move(input), effects);
    for (const Effect& effect : effects.Take()) {
      if (const auto* exit = std::get_if<Exit>(&effect)) LOG(FATAL) << exit->why;
    }
  }

  const SliceGrid grid_;
  PsRole role_{PsOptions{}};
  const Time now_ = Time(std::chrono::hours(1));
  uint64_t step_ = ~uint64_t{0};  // the next one is 0
};

// ---- Both -----------------------------------------------------------------------------------------------------------

template <typename Alone>
void Measure(const char* who, JobSpec (*job_of)(int64_t), int64_t slices, int runs) {
  constexpr int kSteps = 3;
  Series few, many, ratio;
  for (int run = 0; run < runs; ++run) {
    few.values.push_back(Alone(job_of(slices)).SecondsOfStep(kSteps) * 1e3);
    many.values.push_back(Alone(job_of(4 * slices)).SecondsOfStep(kSteps) * 1e3);
    ratio.values.push_back(many.values.back() / few.values.back());
  }
  std::printf("  %-8s %10.2f %10.2f   %5.2f [%.2f, %.2f]\n", who, few.Median(), many.Median(), ratio.Median(),
              ratio.Smallest(), ratio.Largest());
}

}  // namespace
}  // namespace downpour

int main(int argc, char** argv) {
  CLI::App app("What a step costs the role threads, as a model gets more slices");
  int runs = 5;
  int64_t slices = 2000;
  app.add_option("--runs", runs, "Measurements of each")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--slices", slices, "How many, and four times as many")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  std::printf("ms of a step's role thread with %ld slices on one ps, with %ld, and how many times as much\n",
              static_cast<long>(slices), static_cast<long>(4 * slices));
  downpour::Measure<downpour::WorkerAlone>("worker", downpour::JobOfFullSlices, slices, runs);
  downpour::Measure<downpour::ServerAlone>("ps", downpour::JobOfSmallSlices, slices, runs);
}
