#include "tests/sim/learning/learning_world.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "chief/chief_role.h"
#include "model/trainer.h"
#include "ps/ps_role.h"
#include "tensor/host_backend.h"
#include "worker/worker_role.h"

namespace downpour {
namespace {

constexpr char kChief[] = "chief-host:7000";

MemberOptions Member(const std::string& name, int32_t index, uint64_t nonce) {
  MemberOptions options;
  options.chief = kChief;
  options.join.index = index;
  options.join.host = name;
  options.join.nonce = nonce;
  return options;
}

}  // namespace

LearningWorld::LearningWorld(Options options)
    : options_(std::move(options)),
      prng_(MixAll(options_.seed, 1)),
      network_({.codec = false}, MixAll(options_.seed, 2), &events_, &findings_,
               [this](Life to, Input input) { Give(to, std::move(input)); }),
      disk_(MixAll(options_.seed, 3)),
      device_(std::make_unique<Trainer>(MakeHostBackend({}))) {
  processes_.push_back(nullptr);
  const ClusterSpec& cluster = options_.job.cluster;
  Add("chief", kChief,
      std::make_unique<ChiefRole>(ChiefOptions{.job = options_.job,
                                               .job_dir = "/jobs/simulated",
                                               .host = "chief-host",
                                               .pid = 1,
                                               .nonce = prng_.Next(),
                                               .timing = {}}));
  for (int32_t i = 0; i < cluster.parameter_server_count; ++i) {
    const std::string name = absl::StrCat("ps-", i), endpoint = absl::StrCat(name, ":7001");
    PsOptions ps{.member = Member(name, i, prng_.Next()), .has_job_dir = true, .window = {}, .crashes = {}};
    ps.member.join.endpoint = endpoint;
    Add(name, endpoint, std::make_unique<PsRole>(std::move(ps)));
  }
  for (int32_t i = 0; i < cluster.worker_count; ++i) {
    const std::string name = absl::StrCat("worker-", i);
    Add(name, "", std::make_unique<WorkerRole>(WorkerOptions{.member = Member(name, i, prng_.Next())}));
  }
}

Life LearningWorld::Add(const std::string& name, const std::string& endpoint, std::unique_ptr<Role> role) {
  const Life life{static_cast<uint32_t>(processes_.size())};
  Process& process = *processes_.emplace_back(std::make_unique<Process>());
  process.name = name;
  process.role = std::move(role);
  process.worker = static_cast<size_t>(life);
  if (!endpoint.empty()) network_.Listen(life, endpoint);
  events_.After(Duration::zero(), [this, life, endpoint] { Give(life, Started{1700000000000, endpoint}); });
  events_.After(Duration(prng_.Below(static_cast<uint64_t>(Timing{}.tick.count()))),
                [this, life] { ScheduleTick(life); });
  return life;
}

void LearningWorld::ScheduleTick(Life life) {
  if (!At(life).alive) return;
  Give(life, Tick{});
  events_.After(Timing{}.tick, [this, life] { ScheduleTick(life); });
}

void LearningWorld::Give(Life life, Input input) {
  if (!At(life).alive) return;
  Effects out;
  At(life).role->Step(events_.now(), std::move(input), out);
  for (Effect& effect : out.Take()) {
    if (At(life).alive) Carry(life, effect);
  }
}

void LearningWorld::Carry(Life life, Effect& effect) {
  Process& process = At(life);
  if (auto* send = std::get_if<Send>(&effect)) {
    network_.Send(life, send->to, std::move(send->message), send->run);
  } else if (const auto* op = std::get_if<StorageOp>(&effect)) {
    events_.After(Duration::zero(), [this, life, done = disk_.Carry(*op)] { Give(life, done); });
  } else if (auto* compute = std::get_if<Compute>(&effect)) {
    process.waiting.push_back(std::move(*compute));
    if (!process.busy) Begin(life);
  } else if (const auto* wake = std::get_if<Wake>(&effect)) {
    events_.After(wake->in, [this, life] { Give(life, Tick{}); });
  } else if (const auto* dial = std::get_if<Dial>(&effect)) {
    network_.Dial(life, dial->peer, dial->endpoint);
  } else if (const auto* hang_up = std::get_if<HangUp>(&effect)) {
    network_.HangUp(life, hang_up->peer);
  } else if (const auto* exit = std::get_if<Exit>(&effect)) {
    process.alive = false;
    network_.Vanish(life);
    ended_ |= process.name == "chief";
    if (exit->code != 0 && trouble_.empty()) trouble_ = absl::StrCat(process.name, ": ", exit->why);
  }
}

// All that it answers comes when the drawn time is over.
void LearningWorld::Begin(Life life) {
  Process& process = At(life);
  if (process.waiting.empty() || !process.alive) return;
  process.busy = true;
  const Compute compute = std::move(process.waiting.front());
  process.waiting.pop_front();
  std::vector<ComputeDone> answers;
  device_.Run(process.worker, compute.request, [&](absl::Status status, ComputeResult result) {
    answers.push_back({compute.ticket, std::move(status), std::move(result)});
  });
  const auto half = static_cast<uint64_t>(options_.step.count() / 2);
  const Duration took = options_.step * 3 / 4 + Duration(prng_.Below(half + 1));
  events_.After(took, [this, life, answers = std::move(answers)]() mutable {
    At(life).busy = false;
    for (ComputeDone& answer : answers) Give(life, std::move(answer));
    if (!At(life).busy) Begin(life);
  });
}

absl::StatusOr<nlohmann::json> LearningWorld::Run() {
  while (!ended_ && findings_.ok() && events_.RunNext()) {
    if (events_.now().time_since_epoch() > options_.give_up_after)
      return absl::DeadlineExceededError("it does not end");
  }
  const nlohmann::json summary =
      nlohmann::json::parse(disk_.ReadSeen("summary.json").value_or(""), nullptr, /*allow_exceptions=*/false);
  if (!summary.is_object()) return absl::InternalError(trouble_.empty() ? "there is no summary" : trouble_);
  return summary;
}

}  // namespace downpour
