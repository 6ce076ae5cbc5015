#include "service/job_routes.h"

#include <algorithm>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "job/nearest_name.h"
#include "runtime/prometheus_text.h"
#include "schema/text.h"
#include "service/http_answer.h"
#include "service/job_filter.h"
#include "service/job_logs.h"
#include "service/prediction_metrics.h"

namespace downpour {
namespace {

using httplib::Request;
using httplib::Response;
using nlohmann::json;

constexpr const char* kJobs = R"(/v1/projects/[^/]+/jobs)";
constexpr const char* kJob = R"(/v1/projects/[^/]+/jobs/([A-Za-z0-9_]+))";
// A page of a log is given out after so many lines, though the filter held for few of them.
constexpr int kMostLinesSeen = 20'000;
constexpr const char* kCancel = R"(/v1/projects/[^/]+/jobs/([A-Za-z0-9_]+):cancel)";

// Of a token by which nothing is found.
absl::Status WrongToken(const std::string& token) {
  if (!IsMark(token)) return ForeignToken();
  return absl::InvalidArgumentError("the pageToken is of another list, or its job was deleted: list again");
}

// The newest first. A page's token names its last job.
absl::StatusOr<json> List(const Request& request, JobService& service) {
  const absl::StatusOr<Filter> filter = ReadJobFilter(request.get_param_value("filter"));
  if (!filter.ok()) return filter.status();
  const absl::StatusOr<int> size = PageSize(request.get_param_value("pageSize"), 20, 100);
  if (!size.ok()) return size.status();
  absl::StatusOr<std::vector<Job>> jobs = service.All();
  if (!jobs.ok()) return jobs.status();
  std::reverse(jobs->begin(), jobs->end());
  auto from = jobs->begin();
  if (const std::string token = request.get_param_value("pageToken"); !token.empty()) {
    from = std::find_if(jobs->begin(), jobs->end(), [&](const Job& job) { return MarkOf(job, job.name) == token; });
    if (from == jobs->end()) return WrongToken(token);
    ++from;
  }
  json answer = json::object();
  std::string last;
  for (; from != jobs->end(); ++from) {
    json resource = ResourceOf(*from);
    if (!filter->Holds(resource)) continue;
    if (answer.contains("jobs") && static_cast<int>(answer["jobs"].size()) == *size) {
      answer["nextPageToken"] = last;
      break;
    }
    last = MarkOf(*from, from->name);
    answer["jobs"].push_back(std::move(resource));
  }
  return answer;
}

absl::StatusOr<json> Patch(const Request& request, const std::string& body, JobService& service) {
  for (const absl::string_view field : absl::StrSplit(request.get_param_value("updateMask"), ',')) {
    if (field != "labels" && field != "etag") {
      return absl::InvalidArgumentError("updateMask must be labels: nothing else of a job can be changed");
    }
  }
  const absl::StatusOr<json> job = ParseJson(body);
  if (!job.ok()) return job.status();
  if (!job->is_object() || (job->contains("etag") && !(*job)["etag"].is_string())) {
    return absl::InvalidArgumentError("a job must be an object, its etag text");
  }
  for (const auto& [key, value] : job->items()) {  // those of ml v1's Job, and ours
    const std::vector<std::string> known = {
        "jobId",      "labels",    "trainingInput", "trainingOutput", "predictionInput", "predictionOutput",
        "createTime", "startTime", "endTime",       "state",          "errorMessage",    "stateMessage",
        "etag",       "jobFile",   "jobFolder",     "jobPosition",    "downpour"};
    if (absl::c_linear_search(known, key)) continue;  // a slip for labels would take all of them away
    return absl::InvalidArgumentError(absl::StrCat(OneLine(key, 100), " is no field of a job", DidYouMean(key, known)));
  }
  const absl::StatusOr<Labels> labels = ReadLabels(job->value("labels", json::object()));
  if (!labels.ok()) return labels.status();
  const absl::StatusOr<Job> changed = service.SetLabels(request.matches[1], *labels, job->value("etag", ""));
  if (!changed.ok()) return changed.status();
  return ResourceOf(*changed);
}

// One job and its folder, and of a tuning job its trials.
absl::StatusOr<json> Describe(const std::string& name, JobService& service) {
  const absl::StatusOr<Job> job = service.Find(name);
  if (!job.ok()) return job.status();
  json resource = ResourceOf(*job);
  resource["jobFolder"] = service.FolderOf(name).job_dir();
  if (IsPrediction(*job)) resource["predictionOutput"] = BatchOutputOf(*job, service.FolderOf(name).job_dir());
  if (!IsTuning(*job)) return resource;
  const absl::StatusOr<std::vector<Job>> trials = service.Trials(name);
  if (!trials.ok()) return trials.status();
  resource["trainingOutput"] = OutputOf(SpecOf(*job), *trials, service.FolderOf(name).job_dir());
  return resource;
}

// Of the job, and of a tuning job's trials as well.
absl::StatusOr<std::vector<LogReader::JobLogs>> LogsOf(const Job& job, JobService& service) {
  std::vector<LogReader::JobLogs> logs = {{job, service.FolderOf(job.name).job_dir()}};
  const absl::StatusOr<std::vector<Job>> trials = service.Trials(job.name);
  if (!trials.ok()) return trials.status();
  for (const Job& trial : *trials) logs.push_back({trial, service.FolderOf(trial.name).job_dir()});
  return logs;
}

struct LogPage {
  std::vector<json> entries = {};
  std::string token = {};  // of the next one, without the job's own mark
};

// The token says where each log was left.
absl::StatusOr<LogPage> OldestFirst(const std::vector<LogReader::JobLogs>& logs, const std::string& job,
                                    const Filter& filter, size_t size, const std::string& token) {
  const std::optional<LogPlaces> places = token.empty() ? LogPlaces() : PlacesIn(token);
  if (!places) return ForeignToken();
  LogReader reader(logs, *places);
  LogPage page;
  for (int seen = 0; reader.HasLine() && page.entries.size() < size && seen < kMostLinesSeen; ++seen, reader.Pop()) {
    json resource = ResourceOf(reader.Entry(), job);
    if (filter.Holds(resource)) page.entries.push_back(std::move(resource));
  }
  if (reader.HasLine()) page.token = TextOf(reader.places());
  return page;
}

// The token names the last entry that was given. All before it is read, and a page of that kept.
absl::StatusOr<LogPage> NewestFirst(const std::vector<LogReader::JobLogs>& logs, const std::string& job,
                                    const Filter& filter, size_t size, const std::string& token) {
  std::deque<json> last;
  bool has_older = false;
  LogReader reader(logs, {});
  for (; reader.HasLine(); reader.Pop()) {
    const LogEntry entry = reader.Entry();
    if (entry.id == token) break;
    json resource = ResourceOf(entry, job);
    if (!filter.Holds(resource)) continue;
    last.push_back(std::move(resource));
    if (last.size() <= size) continue;
    last.pop_front();
    has_older = true;
  }
  if (!token.empty() && !reader.HasLine()) return ForeignToken();
  LogPage page{.entries = {std::make_move_iterator(last.rbegin()), std::make_move_iterator(last.rend())}};
  if (has_older) page.token = page.entries.back()["insertId"];
  return page;
}

absl::StatusOr<json> ResourceOr(const absl::StatusOr<Job>& job) {
  if (!job.ok()) return job.status();
  return ResourceOf(*job);
}

// Entries of one job, which the filter has to name.
absl::StatusOr<json> ListEntries(const std::string& body, JobService& service) {
  const absl::StatusOr<json> asked = ParseJson(body);
  if (!asked.ok()) return asked.status();
  const auto text = [&](const char* key) {
    const auto found = asked->is_object() ? asked->find(key) : asked->end();
    if (!asked->is_object() || found == asked->end()) return std::string();
    return found->is_string() ? found->get<std::string>() : found->dump();
  };
  const std::string said = text("filter");
  const absl::StatusOr<Filter> filter = Filter::Parse(said);
  if (!filter.ok()) return filter.status();
  std::smatch named;
  if (!std::regex_search(said, named, std::regex(R"(resource\.labels\.job_id="?([A-Za-z0-9_]+))"))) {
    return absl::InvalidArgumentError("the filter must name a job: resource.labels.job_id=\"NAME\"");
  }
  const absl::StatusOr<int> size = PageSize(text("pageSize"), 1000, 1000);
  if (!size.ok()) return size.status();
  const absl::StatusOr<Job> job = service.Find(named[1]);
  if (!job.ok()) return job.status();
  std::optional<std::string> token = text("pageToken");
  if (!token->empty()) token = ReadMark(*job, *token);
  if (!token) return WrongToken(text("pageToken"));
  const absl::StatusOr<std::vector<LogReader::JobLogs>> logs = LogsOf(*job, service);
  if (!logs.ok()) return logs.status();
  const auto read = text("orderBy") == "timestamp desc" ? NewestFirst : OldestFirst;
  absl::StatusOr<LogPage> page = read(*logs, job->name, *filter, static_cast<size_t>(*size), *token);
  if (!page.ok()) return page.status();
  json answer = json::object();
  if (!page->entries.empty()) answer["entries"] = std::move(page->entries);
  if (!page->token.empty()) answer["nextPageToken"] = MarkOf(*job, page->token);
  return answer;
}

}  // namespace

void AddJobRoutes(httplib::Server& server, JobService& service) {
  server.Post(kJobs,
              WithBody([&](const Request&, const std::string& body) { return ResourceOr(service.Submit(body)); }));
  server.Get(kJobs, [&](const Request& request, Response& response) { AnswerOr(List(request, service), response); });
  server.Get(kJob, [&](const Request& request, Response& response) {
    AnswerOr(Describe(request.matches[1], service), response);
  });
  server.Post(kCancel, WithBody([&](const Request& request, const std::string&) -> absl::StatusOr<json> {
                const absl::Status status = service.Cancel(request.matches[1]);
                if (!status.ok()) return status;
                return json::object();
              }));
  server.Patch(
      kJob, WithBody([&](const Request& request, const std::string& body) { return Patch(request, body, service); }));
  server.Delete(kJob, WithBody([&](const Request& request, const std::string&) -> absl::StatusOr<json> {
                  const absl::Status status = service.Delete(request.matches[1]);
                  if (!status.ok()) return status;
                  return json::object();
                }));
}

void AddLogRoutes(httplib::Server& server, JobService& service) {
  server.Post(kEntriesPath,
              WithBody([&](const Request&, const std::string& body) { return ListEntries(body, service); }));
}

void AddMetricsRoute(httplib::Server& server, JobService& service, const ModelService& models) {
  server.Get("/metrics", [&](const Request&, Response& response) {
    const absl::StatusOr<std::vector<Job>> jobs = service.All();
    if (!jobs.ok()) return AnswerError(jobs.status(), response);
    std::map<JobState, int> counts;
    for (const Job& job : *jobs) ++counts[job.state];
    PrometheusText text;
    text.Begin("downpour_jobs", "gauge", "Jobs of this service, by their state.");
    for (int i = 0; i <= static_cast<int>(JobState::kCancelled); ++i) {
      const auto state = static_cast<JobState>(i);
      text.Add(counts[state], {{"state", NameOf(state)}});
    }
    AddPredictionMetrics(models.All(), &text);
    response.set_content(text.text(), PrometheusText::kType);
  });
}

}  // namespace downpour
