// Job: one training job of the service, as it is kept and as ml v1 shows it.
//
//   absl::StatusOr<Job> job = ReadJob(body);      // what a client posted
//   std::string answer = ResourceOf(*job).dump();  // {"jobId": ..., "state": "QUEUED", ...}
//
// Shapes: `training_input` is a JSON object, as it was given. Times are milliseconds since 1970, 0: not yet.
// Errors: INVALID_ARGUMENT with the field and what is allowed.
// Source: the Google Cloud SDK's ml_v1_messages.py (GoogleCloudMlV1__Job).
// Tests: tests/unit/service/job_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "job/job_file.h"
#include "service/labels.h"

namespace downpour {

// What trainingInput says that a job file may say as well.
inline constexpr const char* kSizeOfInput[] = {"scaleTier", "workerCount", "parameterServerCount", "scheduling"};

enum class JobState { kQueued, kPreparing, kRunning, kSucceeded, kFailed, kCancelling, kCancelled };
std::string NameOf(JobState state);
std::optional<JobState> StateNamed(std::string_view name);
bool IsOver(JobState state);

// What a trial of a tuning job has beyond a job. Its name is its job's, a slash and its number from 1: wd1/3.
struct Trial {
  std::map<std::string, std::string> values = {};  // of each parameter
  std::vector<double> units = {};                  // the same as a point of the unit cube (tuning_spec.h)
  std::string metric = {};                         // the objective's name
  std::optional<double> objective = {};            // once it is over and has one
  int64_t step = 0;                                // at which that was evaluated
  bool stopped_early = false;
};

struct Job {
  std::string name;
  std::string id = {};  // of this submission (submission.h); empty: of a release that had none
  Labels labels = {};
  std::string training_input = "{}";
  std::string job_file = {};    // our own field jobFile: the text of a job file; empty: there is none
  std::string settings = "{}";  // our own field downpour: an object with keys of a job file, which beat all others
  JobState state = JobState::kQueued;
  std::string error = {};  // why it failed or was cancelled
  int64_t created_ms = 0, started_ms = 0, ended_ms = 0;
  uint64_t revision = 1;  // rises with each change
  std::optional<Trial> trial = {};
  std::string state_message = {};  // why it is not further, as its backend sees it now; not stored
};

// JSON from outside. Errors: also for more than 32 levels, which would cost the stack later.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text);

// A letter, then letters, digits and _, as gcloud has it too.
bool IsJobName(const std::string& name);
absl::StatusOr<Job> ReadJob(std::string_view body);

nlohmann::json ResourceOf(const Job& job);

// A mark by which a client continues to read, as it is given out and as it comes back. It is the job's own: that of a
// deleted job of the same name gives nothing. A client may leave its characters as they are in an address.
std::string MarkOf(const Job& job, std::string_view mark);
bool IsMark(std::string_view text);  // of any job
std::optional<std::string> ReadMark(const Job& job, std::string_view mark);

// Whether it predicts the rows of files (batch_prediction.h). Its training_input is {"predictionInput": ...} then.
bool IsPrediction(const Job& job);
// Whether it has trials, which train in its place.
bool IsTuning(const Job& job);
// Whether it trains a Python module, which says the model and the data; else its job file does.
bool HasModule(const Job& job);
std::string TrialName(const std::string& job, int number);
// 0 of what is no trial.
int TrialNumber(const std::string& name);
// As JobStore keeps it; nothing for no trial.
std::string TextOf(const std::optional<Trial>& trial);
std::optional<Trial> TrialOf(const std::string& text);

// The mark of one submission, whatever its name.
std::string NewSubmissionId();  // 16 hexadecimal digits

// 2026-01-31T23:59:59.123Z
std::string TimeText(int64_t unix_ms);

// The tasks that compute at a time: what the job takes from the machine's cores. A tuning job's trials take theirs.
int CoresOf(const Job& job);

// The GPUs that its masterConfig and its workers' workerConfig ask for by acceleratorConfig; 1 of BASIC_GPU.
int GpusOf(const Job& job);

// The names of the metrics that its evaluations have; none where it has no data for them.
std::vector<std::string> EvaluatedMetrics(const JobSpec& job);
// Why a search cannot go by that metric: "is auc, but WHO evaluates accuracy, loss"; empty: it can.
std::string WhyNoMetric(const std::string& metric, const JobSpec& job, const std::string& who);

// What `downpour run` is given as its job file: the job's own one, or its name and its size.
std::string JobFileOf(const Job& job);

// What beats the job file, as --set takes it and in that order: the size that trainingInput asks for, `settings`, and
// the values of a trial without a module.
std::vector<std::string> OverridesOf(const Job& job);

// All that the job says of its run, with a warning for each thing that has no meaning here. With a module its errors
// are those that the module's code cannot mend.
JobFileResult ReadInput(const Job& job);

}  // namespace downpour
