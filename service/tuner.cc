#include "service/tuner.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cluster/job_folder.h"
#include "runtime/posix/process.h"
#include "runtime/posix/whole_file.h"
#include "service/optuna.h"
#include "service/run_folder.h"
#include "service/submission.h"

namespace downpour {

using nlohmann::json;

TuningSpec SpecOf(const Job& tuning) {
  return ReadTuningSpec(json::parse(tuning.training_input)["hyperparameters"]).value_or(TuningSpec());
}

absl::Status Tuner::Work(const std::string& name) {
  for (;;) {
    std::unique_lock hold(*mutex_);
    absl::StatusOr<Job> job = store_->Find(name);
    if (!job.ok()) return absl::OkStatus();  // deleted
    const absl::StatusOr<std::vector<Job>> trials = store_->Trials(name);
    if (!trials.ok()) return trials.status();
    const TuningSpec spec = SpecOf(*job);
    const absl::StatusOr<std::string> hopeless = WhyNoJudgement(*job, spec, *trials);
    if (!hopeless.ok()) return hopeless.status();
    const TuningAct act = Tune(spec, *trials, UnixMs(), &*job, *hopeless);
    std::vector<std::string> troubles = {WordsOnFailures(*trials)};
    if (const auto without = without_optuna_.find(name); without != without_optuna_.end()) {
      troubles.insert(troubles.begin(), without->second);
    }
    std::erase(troubles, "");
    troubles_[name] = absl::StrJoin(troubles, "; ");
    if (IsOver(job->state) || troubles_[name].empty()) troubles_.erase(name);
    // In the log before in the store: a client that sees the end finds the best one named.
    if (act.changed && IsOver(job->state)) SayTheBest(*job, spec, *trials);
    if (act.changed) {
      if (const absl::Status status = Keep(*job); !status.ok()) return status;
    }
    for (Job trial : *trials) {
      if (std::find(act.cancelled.begin(), act.cancelled.end(), trial.name) == act.cancelled.end()) continue;
      if (const absl::Status status = Cancel(UnixMs(), &trial); !status.ok()) return status;
      if (const absl::Status status = Keep(trial); !status.ok()) return status;
    }
    hold.unlock();
    if (act.proposes) {
      if (const absl::Status status = Begin(*job, spec, *trials); !status.ok()) return status;
    } else if (!act.changed || IsOver(job->state)) {
      return spec.stops_early && !IsOver(job->state) ? StopHopeless(spec, *trials) : absl::OkStatus();
    }
  }
}

// The first trial's code says which metrics there are as its run begins, before it trains. A run that is cancelled then
// takes that away with it, so it is kept, also for a later service. Of a job file the metrics were known as the job was
// submitted.
absl::StatusOr<std::string> Tuner::WhyNoJudgement(const Job& job, const TuningSpec& spec,
                                                  const std::vector<Job>& trials) {
  if (!HasModule(job)) return "";
  if (const auto verdict = verdicts_.find(job.name); verdict != verdicts_.end()) return verdict->second;
  const std::string file = RunFolder(JobFolderOf(root_, job.name)).Own("verdict");
  if (const absl::StatusOr<std::string> kept = ReadTextFile(file); kept.ok()) return verdicts_[job.name] = *kept;
  for (const Job& trial : trials) {
    const std::optional<JobSpec> described = DescribedJob(JobFolderOf(root_, trial.name));
    if (!described) continue;
    const std::string who = absl::StrCat("the Python code of trial ", TrialNumber(trial.name));
    const std::string why = WhyNoMetric(spec.metric, *described, who);
    if (why.empty()) return verdicts_[job.name] = "";
    const std::string verdict = absl::StrCat("trainingInput.hyperparameters.hyperparameterMetricTag ", why);
    const absl::Status kept = WriteWhole(file, verdict, 0644, WhereThere::kReplace);
    if (!kept.ok()) return kept;
    return verdicts_[job.name] = verdict;
  }
  return "";
}

absl::Status Tuner::Begin(const Job& job, const TuningSpec& spec, const std::vector<Job>& trials) {
  const RunFolder folder(JobFolderOf(root_, job.name));
  if (const absl::Status claimed = ClaimFolder(job, folder); !claimed.ok()) return claimed;
  const int number = static_cast<int>(trials.size()) + 1;
  Job trial{.name = TrialName(job.name, number),
            .id = NewSubmissionId(),
            .labels = job.labels,
            .job_file = job.job_file,
            .settings = job.settings};
  json input = json::parse(job.training_input);
  input.erase("hyperparameters");
  trial.training_input = input.dump();
  trial.trial = Trial{.units = Propose(job, spec, trials), .metric = spec.metric};
  trial.trial->values = ValuesAt(spec, trial.trial->units);
  trial.created_ms = UnixMs();
  const std::lock_guard hold(*mutex_);
  const absl::StatusOr<Job> now = store_->Find(job.name);
  if (!now.ok() || now->state != JobState::kRunning) return absl::OkStatus();  // cancelled meanwhile
  folder.Note(
      'I', absl::StrCat("trial ", number, " has ", absl::StrJoin(trial.trial->values, ", ", absl::PairFormatter("="))));
  // A store that was lost has all trials again that were proposed: their numbers have no gaps.
  const absl::Status claimed = ClaimFolder(trial, RunFolder(JobFolderOf(root_, trial.name)));
  return claimed.ok() ? store_->Insert(trial) : claimed;
}

absl::Status Tuner::Keep(const Job& job) { return KeepJob(job, RunFolder(JobFolderOf(root_, job.name)), store_); }

std::vector<double> Tuner::Propose(const Job& job, const TuningSpec& spec, const std::vector<Job>& trials) {
  const int number = static_cast<int>(trials.size()) + 1;
  if (spec.method == SearchMethod::kGrid) return GridUnits(spec, number);
  if (spec.method == SearchMethod::kBayesian && !without_optuna_.contains(job.name)) {
    const RunFolder folder(JobFolderOf(root_, job.name));
    const absl::StatusOr<std::vector<double>> asked = AskOptuna(spec, Seed(job.name), trials, folder.Own(""));
    if (asked.ok()) return *asked;
    const std::string why =
        absl::StrCat("random search is used instead of Bayesian: ", std::string(asked.status().message()));
    without_optuna_[job.name] = why;
    folder.Note('W', why);
  }
  return RandomUnits(spec, Seed(job.name), number);
}

absl::Status Tuner::StopHopeless(const TuningSpec& spec, const std::vector<Job>& trials) {
  std::vector<Curve> finished;
  for (const Job& trial : trials) {
    if (trial.state != JobState::kSucceeded || trial.trial->stopped_early) continue;
    GrowingCurve& curve = CurveOf(trial.name, spec);
    if (finished_.insert(trial.name).second) curve.Read();
    finished.push_back(curve.curve());
  }
  if (finished.size() < kLeastFinished) return absl::OkStatus();
  for (const Job& trial : trials) {
    if (trial.state != JobState::kRunning) continue;
    if (!IsHopeless(spec.maximize, CurveOf(trial.name, spec).Read(), finished)) continue;
    const std::lock_guard hold(*mutex_);
    absl::StatusOr<Job> now = store_->Find(trial.name);
    if (!now.ok()) continue;
    if (now->state != JobState::kRunning) continue;  // it ended meanwhile
    StopEarly(UnixMs(), &*now);
    if (const absl::Status status = Keep(*now); !status.ok()) return status;
  }
  return absl::OkStatus();
}

GrowingCurve& Tuner::CurveOf(const std::string& trial, const TuningSpec& spec) {
  return curves_.try_emplace(trial, JobFolderOf(root_, trial), spec.metric).first->second;
}

void Tuner::SayTheBest(const Job& job, const TuningSpec& spec, std::vector<Job> trials) {
  std::erase_if(curves_, [&](const auto& known) { return known.first.starts_with(job.name + "/"); });
  std::erase_if(finished_, [&](const std::string& trial) { return trial.starts_with(job.name + "/"); });
  verdicts_.erase(job.name);
  without_optuna_.erase(job.name);  // the next job of that name asks again
  SortBestFirst(spec.maximize, &trials);
  if (trials.empty() || !trials.front().trial->objective) return;
  const Job& best = trials.front();
  RunFolder(JobFolderOf(root_, job.name))
      .Note('I',
            absl::StrCat("the best trial is ", TrialNumber(best.name), ": ", spec.metric, " ", *best.trial->objective,
                         " by ", absl::StrJoin(best.trial->values, ", ", absl::PairFormatter("=")), ", in ",
                         JobFolderOf(root_, best.name)));
}

}  // namespace downpour
