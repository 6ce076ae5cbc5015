#include "bench/bench_load.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>
#include <variant>

#include "job/slice_grid.h"
#include "runtime/posix/process.h"
#include "runtime/zmq/driver.h"
#include "worker/worker_role.h"

namespace downpour {
namespace {

constexpr uint64_t kExamples = 1'000'000;

// Has its gradients ready.
class InstantDevice final : public Computer {
 public:
  void Run(const ComputeRequest& request, const Done& done) override {
    if (const auto* prepare = std::get_if<Prepare>(&request)) {
      grid_ = GridOf(prepare->job.model).value();
      return done(absl::OkStatus(), Prepared{.train_examples = kExamples, .eval_examples = 0, .fingerprint = 1});
    }
    Gradients gradients{.slices = {}, .last = true, .loss_sum = 0, .examples = 1};
    for (const Slice& slice : grid_.slices) gradients.slices.emplace_back(slice.id, GradientOf(slice));
    done(absl::OkStatus(), std::move(gradients));
  }

 private:
  // All slices share one, but for a last one that is shorter.
  Payload GradientOf(const Slice& slice) {
    const auto bytes = static_cast<size_t>(slice.bytes());
    if (shared_.size() < bytes) {
      shared_ = Payload::Allocate(bytes);
      std::fill_n(shared_.mutable_floats().data(), shared_.floats().size(), 1e-3f);
    }
    return shared_.Sub(0, bytes);
  }

  SliceGrid grid_;
  Payload shared_;
};

}  // namespace

// Notes how its pushes are acknowledged, and ends when told so.
class BenchLoad::Worker final : public Role {
 public:
  explicit Worker(const std::string& chief) : role_(Options(chief)) {}

  void Step(Time now, Input input, Effects& effects) override {
    role_.Step(now, std::move(input), effects);
    for (Effect& effect : effects.Take()) {
      Note(now, effect);
      effects.Add(std::move(effect));
    }
    if (stop) effects.Add(Exit{});
  }

  void Run() {
    Mailbox mailbox;
    ComputeThread computer(std::make_unique<InstantDevice>(), &mailbox);
    auto driver = ZmqDriver::Open({}, {.mailbox = &mailbox, .computer = &computer}).value();
    driver->Run(*this);
  }

  std::atomic<bool> stop = false;
  std::vector<Acknowledgement> acknowledged;  // once it has ended

 private:
  static WorkerOptions Options(const std::string& chief) {
    WorkerOptions options;
    options.member.chief = chief;
    options.member.join.nonce = RandomNonce();
    options.member.join.device = "none";
    return options;
  }
  void Note(Time now, const Effect& effect) {
    const auto* record = std::get_if<TraceRecord>(&effect);
    if (record != nullptr && record->kind == TraceRecord::Kind::kAcked) {
      acknowledged.push_back({now, now - waiting_since_});
      waiting_since_ = now;
      --unanswered_;
    }
    const auto* send = std::get_if<Send>(&effect);
    const auto* push = send != nullptr ? std::get_if<Push>(&send->message) : nullptr;
    if (push == nullptr) return;
    if (unanswered_ <= 0) waiting_since_ = now;
    unanswered_ += static_cast<int64_t>(push->slices.size());
  }

  WorkerRole role_;
  int64_t unanswered_ = 0;  // slices
  Time waiting_since_{};
};

BenchLoad::BenchLoad(const std::string& chief, int workers) {
  for (int i = 0; i < workers; ++i) workers_.push_back(std::make_unique<Worker>(chief));
  for (const auto& worker : workers_) threads_.emplace_back([&worker] { worker->Run(); });
}
BenchLoad::~BenchLoad() = default;

std::vector<Acknowledgement> BenchLoad::End() {
  std::vector<Acknowledgement> all;
  for (const auto& worker : workers_) worker->stop = true;
  for (std::thread& thread : threads_) thread.join();
  for (const auto& worker : workers_) all.insert(all.end(), worker->acknowledged.begin(), worker->acknowledged.end());
  std::sort(all.begin(), all.end(), [](auto& one, auto& other) { return one.at < other.at; });
  return all;
}

}  // namespace downpour
