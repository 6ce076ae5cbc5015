#include "chief/status_metrics.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "runtime/prometheus_text.h"

namespace downpour {
namespace {

using Json = nlohmann::json;

struct Metric {
  const char* name;
  const char* type;
  const char* at;  // in the status, or in a task of it
  const char* help;
};

constexpr char kGauge[] = "gauge";
constexpr char kCounter[] = "counter";

constexpr Metric kOfJob[] = {
    {"elapsed_seconds", kGauge, "/elapsedSeconds", "Time since the job began in its folder."},
    {"remaining_seconds", kGauge, "/remainingSeconds", "Time until the last lease is committed, at the present rate."},
    {"epochs_committed", kGauge, "/progress/epoch", "Whole epochs that are committed."},
    {"epochs_planned", kGauge, "/progress/epochs", "Epochs with which the job ends."},
    {"examples_planned", kGauge, "/progress/examples", "Examples with which the job ends."},
    {"examples_committed", kGauge, "/progress/examplesCommitted", "Examples of committed leases."},
    {"examples_per_second", kGauge, "/progress/examplesPerSecond", "Rate of the last seconds."},
    {"commits_total", kCounter, "/progress/commits", "Leases that this chief has committed."},
    {"loss", kGauge, "/progress/loss", "Mean training loss of the leases reported last."},
    {"evaluation_epoch", kGauge, "/evaluation/epoch", "Epochs committed when the last evaluation began."},
    {"evaluation_loss", kGauge, "/evaluation/loss", "Loss of the last evaluation."},
    {"evaluation_accuracy_ratio", kGauge, "/evaluation/accuracy", "Accuracy of the last evaluation."},
    {"checkpoint_age_seconds", kGauge, "/checkpoint/ageSeconds", "Age of the last durable checkpoint."},
    {"checkpoint_bytes", kGauge, "/checkpoint/bytes", "Size of the last durable checkpoint."},
    {"checkpoint_interval_seconds", kGauge, "/checkpoint/intervalSeconds", "From one round's begin to the next."},
    {"checkpoint_round_seconds", kGauge, "/checkpoint/roundSeconds", "How long rounds took lately."},
    {"workers_wanted", kGauge, "/workers/wanted", "Workers that the job wants."},
    {"staleness_mean_updates", kGauge, "/staleness/mean", "Mean staleness of all applied pushes."},
    {"staleness_p99_updates", kGauge, "/staleness/p99", "99th percentile of the staleness of all applied pushes."},
    {"staleness_max_updates", kGauge, "/staleness/max", "Greatest staleness of any applied push."},
    {"table_rows", kGauge, "/tables/rows", "Rows of all tables that take memory."},
    {"table_bytes", kGauge, "/tables/bytes", "Memory that all tables take."},
    {"table_keys_unborn", kGauge, "/tables/keysUnborn", "Pushes of keys for which there was no room (maxRows)."},
    {"chief_restarts_total", kCounter, "/recovery/chiefRestarts", "The job's chiefs but the first."},
    {"workers_lost_total", kCounter, "/recovery/workersLost", "Workers that fell silent or were replaced."},
    {"servers_lost_total", kCounter, "/recovery/psLost", "Parameter servers whose place another one took."},
    {"leases_handed_on_total", kCounter, "/recovery/leasesHandedOn", "Leases that workers died or left with."},
    {"batches_recomputed_total", kCounter, "/recovery/batchesRecomputed", "Committed batches that are computed again."},
    {"messages_rejected_total", kCounter, "/chief/rejected", "Messages of strangers that the chief ignored."},
    {"handshakes_refused_total", kCounter, "/chief/refused", "Handshakes at the chief without a key of the cluster."},
};

// That a text says something is 1.
constexpr Metric kOfTexts[] = {
    {"stalled", kGauge, "/stalled", "1 while nothing moves though there is work."},
    {"diverging", kGauge, "/diverging", "1 while training gets nowhere."},
    {"checkpoint_failing", kGauge, "/checkpoint/lastError", "1 while the last checkpoint round had an error."},
};

constexpr Metric kOfLists[] = {
    {"tasks_pending", kGauge, "/pending", "Tasks that are missing or not ready."},
    {"waits", kGauge, "/waits", "Waits of more than a second."},
};

constexpr Metric kOfTask[] = {
    {"task_steps_total", kCounter, "/step", "Steps of a worker, pushes consumed by a parameter server."},
    {"task_steps_per_second", kGauge, "/stepsPerSecond", "Rate of the last seconds."},
    {"task_examples_per_second", kGauge, "/examplesPerSecond", "Rate of the last seconds."},
    {"task_cpu_ratio", kGauge, "/cpuShare", "Cores that the task keeps busy."},
    {"task_cpu_seconds_total", kCounter, "/cpuSeconds", "Time on a core."},
    {"task_resident_memory_bytes", kGauge, "/residentBytes", "Resident memory."},
    {"task_received_bytes_total", kCounter, "/bytesIn", "Bytes received."},
    {"task_sent_bytes_total", kCounter, "/bytesOut", "Bytes sent."},
    {"task_table_rows", kGauge, "/tables/rows", "Rows of tables on the parameter server that take memory."},
    {"task_table_bytes", kGauge, "/tables/bytes", "Memory that its tables take."},
    {"task_table_keys_unborn", kGauge, "/tables/keysUnborn", "Pushes of keys for which there was no room (maxRows)."},
    {"task_heartbeat_age_seconds", kGauge, "/lastHeartbeatSeconds", "Time since the last heartbeat."},
    {"task_staleness_mean_updates", kGauge, "/staleness/mean", "Mean staleness of the task's pushes."},
    {"task_gpu_utilization_ratio", kGauge, "/gpu/utilisation", "Share of the time in which the GPU computes."},
    {"task_gpu_memory_used_bytes", kGauge, "/gpu/memoryUsedBytes", "Memory in use on the GPU, by any process."},
    {"task_gpu_memory_total_bytes", kGauge, "/gpu/memoryTotalBytes", "Memory of the GPU."},
    {"task_gpu_temperature_celsius", kGauge, "/gpu/celsius", "Temperature of the GPU."},
};

constexpr const char* kJobStates[] = {"QUEUED",     "PREPARING", "RUNNING", "SUCCEEDED",
                                      "CANCELLING", "CANCELLED", "FAILED"};

const Json* Find(const Json& json, const char* at) {
  const Json::json_pointer place(at);
  return json.contains(place) ? &json.at(place) : nullptr;
}

std::string Text(const Json& json, const char* at) {
  const Json* found = Find(json, at);
  return found != nullptr && found->is_string() ? found->get<std::string>() : "";
}

class Scrape {
 public:
  explicit Scrape(const Json& status) : status_(status) {}

  void Begin(const Metric& metric) { text_.Begin(absl::StrCat("downpour_", metric.name), metric.type, metric.help); }

  void AddJob(double examples_counted) {
    Begin({"job_info", kGauge, "", "The job's name and run."});
    text_.Add(1, {{"job", Text(status_, "/job")}, {"run", Text(status_, "/run")}});
    Begin({"job_state", kGauge, "", "1 for the state that the job is in, 0 for the others."});
    for (const char* state : kJobStates) text_.Add(Text(status_, "/state") == state, {{"state", state}});
    Begin({"examples_total", kCounter, "", "Examples committed; those that were opened again count again."});
    text_.Add(examples_counted);
    for (const Metric& metric : kOfJob) {
      Begin(metric);
      AddNumber(status_, metric.at, {});
    }
    for (const Metric& metric : kOfTexts) {
      Begin(metric);
      text_.Add(Text(status_, metric.at).empty() ? 0 : 1);
    }
    for (const Metric& metric : kOfLists) {
      Begin(metric);
      const Json* list = Find(status_, metric.at);
      text_.Add(list != nullptr ? static_cast<double>(list->size()) : 0);
    }
    AddEach({"evaluation_metric", kGauge, "/evaluation/metrics", "The job's metrics in its last evaluation."},
            "metric");
    AddEach({"pushes_total", kCounter, "/pushes", "Pushes to slices, by what became of them."}, "result");
  }

  void AddTasks() {
    const Json* tasks = Find(status_, "/tasks");
    if (tasks == nullptr || !tasks->is_array()) return;
    Begin({"task_up", kGauge, "", "1 for a task that runs."});
    for (const Json& task : *tasks) text_.Add(Text(task, "/state") == "RUNNING", LabelsOf(task));
    for (const Metric& metric : kOfTask) {
      Begin(metric);
      for (const Json& task : *tasks) AddNumber(task, metric.at, LabelsOf(task));
    }
  }

  const std::string& text() const { return text_.text(); }

 private:
  static PrometheusText::Labels LabelsOf(const Json& task) {
    return {{"task", Text(task, "/name")}, {"role", Text(task, "/role")}};
  }
  void AddNumber(const Json& json, const char* at, const PrometheusText::Labels& labels) {
    const Json* found = Find(json, at);
    if (found != nullptr && found->is_number()) text_.Add(found->get<double>(), labels);
  }
  void AddEach(const Metric& metric, const char* label) {
    Begin(metric);
    const Json* values = Find(status_, metric.at);
    if (values == nullptr || !values->is_object()) return;
    for (const auto& [name, value] : values->items()) {
      if (value.is_number()) text_.Add(value.get<double>(), {{label, name}});
    }
  }

  const Json& status_;
  PrometheusText text_;
};

}  // namespace

std::string StatusMetrics::TextOf(const std::string& status) {
  const Json json = Json::parse(status, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return "";
  const Json* found = Find(json, "/progress/examplesCommitted");
  const double examples = found != nullptr && found->is_number() ? found->get<double>() : 0;
  examples_ += std::max(0.0, examples - last_examples_);
  last_examples_ = examples;
  Scrape scrape(json);
  scrape.AddJob(examples_);
  scrape.AddTasks();
  return scrape.text();
}

}  // namespace downpour
