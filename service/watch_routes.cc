#include "service/watch_routes.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cluster/job_command.h"
#include "cluster/job_folder.h"
#include "schema/text.h"
#include "service/batch_prediction.h"
#include "service/http_answer.h"
#include "service/job_checkpoints.h"
#include "service/job_filter.h"
#include "service/job_history.h"
#include "service/job_logs.h"
#include "service/progress_board.h"
#include "service/status_answer.h"
#include "service/trial_metrics.h"
#include "service/tuner.h"

namespace downpour {
namespace {

using httplib::Request;
using httplib::Response;
using nlohmann::json;

constexpr int kUsualRows = 50, kMostRows = 1000;
constexpr size_t kMostLogLines = 2000;

absl::StatusOr<int64_t> NumberOf(const Request& request, const char* name, int64_t usual) {
  const std::string said = request.get_param_value(name);
  int64_t number = 0;
  if (said.empty()) return usual;
  if (absl::SimpleAtoi(said, &number)) return number;
  return absl::InvalidArgumentError(absl::StrCat(name, " must be a whole number"));
}

json RowOf(const Job& job, const JobProgress& progress) {
  json row = {{"jobId", job.name}, {"state", NameOf(job.state)}, {"createTime", TimeText(job.created_ms)}};
  if (job.started_ms != 0) row["startTime"] = TimeText(job.started_ms);
  if (job.ended_ms != 0) row["endTime"] = TimeText(job.ended_ms);
  if (!job.error.empty()) row["errorMessage"] = job.error;
  if (!job.state_message.empty()) row["stateMessage"] = job.state_message;
  const std::pair<const char*, MaybeNumber> numbers[] = {{"done", progress.done},
                                                         {"elapsedSeconds", progress.elapsed},
                                                         {"remainingSeconds", progress.remaining},
                                                         {"loss", progress.loss},
                                                         {"accuracy", progress.accuracy}};
  for (const auto& [name, number] : numbers) {
    if (number) row[name] = *number;
  }
  return row;
}

// Of a tuning job, whose trials train in its place.
absl::StatusOr<json> SearchOf(const Job& job, JobService& service) {
  const absl::StatusOr<std::vector<Job>> trials = service.Trials(job.name);
  if (!trials.ok()) return trials.status();
  return SearchProgress(SpecOf(job), *trials);
}

absl::Status AddSearch(const Job& job, JobService& service, json* row) {
  const absl::StatusOr<json> search = SearchOf(job, service);
  if (!search.ok()) return search.status();
  const auto over = (*search)["over"].get<double>(), wanted = (*search)["wanted"].get<double>();
  (*row)["trials"] = *search;
  (*row)["done"] = job.state == JobState::kSucceeded ? 1 : std::min(1.0, over / std::max(1.0, wanted));
  const std::string metric = (*search)["metric"];
  if (search->contains("best") && (metric == "loss" || metric == "accuracy")) (*row)[metric] = (*search)["best"];
  return absl::OkStatus();
}

// The newest first; `states` counts the jobs that the filter holds for without regard to `state`.
absl::StatusOr<json> Overview(const Request& request, JobService& service, ProgressBoard& board) {
  const std::string said = request.get_param_value("filter");
  const absl::StatusOr<Filter> filter = ReadJobFilter(said);
  const absl::StatusOr<int64_t> from = NumberOf(request, "from", 0);
  const absl::StatusOr<int64_t> most = NumberOf(request, "count", kUsualRows);
  const absl::StatusOr<std::vector<Job>> jobs = service.All();
  for (const absl::Status& status : {filter.status(), from.status(), most.status(), jobs.status()}) {
    if (!status.ok()) return status;
  }
  const std::string state = request.get_param_value("state");
  std::vector<Job> found;
  json states = json::object();
  for (auto job = jobs->rbegin(); job != jobs->rend(); ++job) {
    if (!said.empty() && !filter->Holds(ResourceOf(*job))) continue;
    states[NameOf(job->state)] = states.value(NameOf(job->state), 0) + 1;
    if (state.empty() || state == NameOf(job->state)) found.push_back(*job);
  }
  const auto size = static_cast<int64_t>(found.size());
  const int64_t begin = std::clamp<int64_t>(*from, 0, size);
  const int64_t end = std::min(size, begin + std::clamp<int64_t>(*most, 1, kMostRows));
  const std::vector<Job> shown(found.begin() + begin, found.begin() + end);
  board.Want(shown, [&](const Job& job) { return service.FolderOf(job.name).job_dir(); });
  json answer = {{"jobs", json::array()}, {"states", states}, {"from", begin}, {"total", size}};
  for (const Job& job : shown) {
    json row = RowOf(job, board.Of(job));
    if (IsPrediction(job)) row["done"] = ProgressOfBatch(service.FolderOf(job.name).job_dir()).done;
    if (const absl::Status added = IsTuning(job) ? AddSearch(job, service, &row) : absl::OkStatus(); !added.ok()) {
      return added;
    }
    answer["jobs"].push_back(std::move(row));
  }
  return answer;
}

// Of a tuning job its trials. Of another one whichever there is: the status of a chief that leads the job, or the
// summary of one that has ended it.
absl::StatusOr<std::string> StatusOf(const Request& request, JobService& service, ChiefStatuses& statuses) {
  const absl::StatusOr<int64_t> most = NumberOf(request, "tasks", -1);
  if (!most.ok()) return most.status();
  absl::StatusOr<Job> job = service.Find(request.matches[1]);
  if (!job.ok()) return job.status();
  const auto state_alone = [&] { return json{{"state", NameOf(job->state)}}.dump(); };
  if (IsTuning(*job)) {
    const absl::StatusOr<json> search = SearchOf(*job, service);
    if (!search.ok()) return search.status();
    return json{{"state", NameOf(job->state)}, {"trials", *search}}.dump(-1, ' ', false,
                                                                         json::error_handler_t::replace);
  }
  const std::string job_dir = service.FolderOf(job->name).job_dir();
  // No chief has ever been there, as while a Python program builds its model.
  if (absl::IsNotFound(ReadChiefLocation(job_dir).status())) return state_alone();
  const absl::StatusOr<SharedAnswer> answer = statuses.Of(*job, job_dir);
  // The answer may have been waited for, and the job have ended meanwhile.
  job = service.Find(request.matches[1]);
  if (!job.ok()) return job.status();
  if (answer.ok()) {
    const std::optional<size_t> most_tasks = *most < 0 ? std::nullopt : std::optional(static_cast<size_t>(*most));
    return StatusAnswer(NameOf(job->state), **answer, most_tasks);
  }
  // A chief that was cancelled as it started, or was killed, has left nothing to show.
  if (IsOver(job->state) || job->state == JobState::kCancelling) return state_alone();
  return answer.status();
}

// "chief:120,ps-0:77" and back.
std::string TextOf(const LogMarks& marks) {
  std::string text;
  for (const auto& [log, mark] : marks) absl::StrAppend(&text, text.empty() ? "" : ",", log, ":", mark);
  return text;
}
LogMarks MarksIn(const std::string& text) {
  LogMarks marks;
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> words = absl::StrSplit(part, absl::MaxSplits(':', 1));
    int64_t mark = 0;
    if (absl::SimpleAtoi(words.second, &mark)) marks[words.first] = mark;
  }
  return marks;
}

json Logs(const Request& request, const Job& job, const std::string& job_dir) {
  const LogChoice choice{.task = request.get_param_value("task"), .severity = request.get_param_value("severity")};
  const std::string after = request.get_param_value("after");
  const std::optional<std::string> own = ReadMark(job, after);
  LogMarks marks = MarksIn(own.value_or(""));
  const std::vector<LogEntry> entries = ReadNewLogs(job, job_dir, choice, &marks);
  const size_t skipped = entries.size() - std::min(entries.size(), kMostLogLines);
  json answer = {{"mark", MarkOf(job, TextOf(marks))},
                 {"restarted", !after.empty() && !own},
                 {"entries", json::array()},
                 {"skipped", skipped},
                 {"tasks", json::array()}};
  for (const auto& [log, mark] : marks) answer["tasks"].push_back(TaskName(log));
  for (size_t i = skipped; i < entries.size(); ++i) {
    answer["entries"].push_back({{"time", entries[i].time},
                                 {"task", entries[i].task},
                                 {"severity", entries[i].severity},
                                 {"message", entries[i].message}});
  }
  return answer;
}

json History(const Request& request, const Job& job, const std::string& job_dir) {
  const std::string said = request.get_param_value("after");
  int64_t after = 0;
  const bool is_own = said.empty() || absl::SimpleAtoi(ReadMark(job, said).value_or(""), &after);
  json history = ReadHistory(job_dir + "/metrics.jsonl", is_own ? after : 0);
  history["mark"] = MarkOf(job, absl::StrCat(history["mark"].get<int64_t>()));
  if (!is_own) history["restarted"] = true;
  return history;
}

json Checkpoints(const Request&, const Job& job, const std::string& job_dir) {
  json answer = {{"checkpoints", ListCheckpoints(job_dir)}};
  if (std::string command = CommandToResume(job, job_dir); !command.empty()) answer["resume"] = std::move(command);
  return answer;
}

// One log as it is: its end is where the task writes.
void RawLog(const Request& request, Response& response, JobService& service) {
  const absl::StatusOr<Job> job = service.Find(request.matches[1]);
  if (!job.ok()) return AnswerError(job.status(), response);
  const std::string task = request.matches[2];
  const std::string path = LogFileOf(service.FolderOf(job->name).job_dir(), task);
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error) {
    const std::string why = absl::StrCat("the job ", job->name, " has no log of ", OneLine(task, 100));
    return AnswerError(absl::NotFoundError(why), response);
  }
  response.set_header("Content-Disposition", absl::StrCat("attachment; filename=\"", job->name, "-", task, ".log\""));
  AnswerFile(path, bytes, "text/plain; charset=utf-8", response);
}

// Of the job that the path names.
using JobHandler = std::function<absl::StatusOr<json>(const Request&, const Job&, const std::string& job_dir)>;
httplib::Server::Handler OfJob(JobService& service, JobHandler handler) {
  return [&service, handler](const Request& request, Response& response) {
    const absl::StatusOr<Job> job = service.Find(request.matches[1]);
    if (!job.ok()) return AnswerError(job.status(), response);
    AnswerOr(handler(request, *job, service.FolderOf(job->name).job_dir()), response);
  };
}

absl::StatusOr<json> WriteCheckpoint(const std::string& name, JobService& service) {
  const absl::StatusOr<Job> job = service.Find(name);
  if (!job.ok()) return job.status();
  if (job->state != JobState::kRunning) {
    return absl::FailedPreconditionError(
        absl::StrCat("the job ", name, " is ", NameOf(job->state), ": only one that runs can write a checkpoint"));
  }
  const std::string job_dir = service.FolderOf(name).job_dir();
  if (absl::IsNotFound(ReadChiefLocation(job_dir).status())) {
    return absl::FailedPreconditionError(absl::StrCat("the job ", name, " does not run yet, and has nothing to write"));
  }
  StatusAsker asker({.chief = "", .job_dir = job_dir});
  const absl::StatusOr<CommandOutcome> told = CommandJob(asker, ControlKind::kCheckpoint);
  if (!told.ok()) return told.status();
  if (told->was_over) return absl::FailedPreconditionError(absl::StrCat("the job ", name, " is over"));
  return json{{"message", told->words}};
}

}  // namespace

void AddWatchRoutes(httplib::Server& server, JobService& service) {
  const std::string jobs = "/v1/projects/[^/]+/jobs", job = jobs + "/([A-Za-z0-9_]+)";
  struct Eyes {
    ChiefStatuses statuses;
    ProgressBoard board{statuses};
  };
  const auto eyes = std::make_shared<Eyes>();
  server.Get(jobs + ":overview", [&service, eyes](const Request& request, Response& response) {
    AnswerOr(Overview(request, service, eyes->board), response);
  });
  server.Get(job + "/status", [&service, eyes](const Request& request, Response& response) {
    const absl::StatusOr<std::string> status = StatusOf(request, service, eyes->statuses);
    if (!status.ok()) return AnswerError(status.status(), response);
    response.set_content(*status, "application/json");
  });
  server.Get(job + "/history", OfJob(service, History));
  server.Get(job + "/checkpoints", OfJob(service, Checkpoints));
  server.Get(job + "/logs", OfJob(service, Logs));
  server.Get(job + "/logs/([^/]+)",
             [&service](const Request& request, Response& response) { RawLog(request, response, service); });
  server.Post(job + ":checkpoint", WithBody([&service](const Request& request, const std::string&) {
                return WriteCheckpoint(request.matches[1], service);
              }));
}

}  // namespace downpour
