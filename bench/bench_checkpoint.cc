// What a checkpoint costs the pushes that go on meanwhile, and how fast slices come back from it.
//
//   bench_checkpoint [--mib N] [--servers N] [--workers N] [--every SECONDS] [--rounds N] [--restores N]
//
// Chief and ps are real processes on this machine. The load is real workers whose devices compute nothing: they pull
// and push every slice as fast as they are let. Seconds in which a checkpoint is written are held against the other
// seconds of the same run. A pause of acknowledgements is how long a worker that waits for some hears of none; while it
// pulls it waits for none. Then every ps is killed, and what their successors take to have their slices again is held
// against a plain read of the same files; before either, the files are dropped from memory.
#include <fcntl.h>
#include <glog/logging.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/bench_load.h"
#include "bench/bench_series.h"
#include "bench/bench_tool.h"
#include "cluster/role_commands.h"
#include "cluster/status_source.h"
#include "job/job_file.h"
#include "runtime/posix/fd.h"
#include "runtime/posix/process.h"
#include "runtime/process/child.h"
#include "runtime/world_time.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr Duration kLook = 5ms;  // between two questions to the chief

Time Now() { return Time(std::chrono::steady_clock::now().time_since_epoch()); }

struct Settings {
  int64_t mib = 1024;
  int servers = 1;
  int workers = 2;
  int64_t every = 36;  // seconds
  int rounds = 5;
  int restores = 5;
};

JobSpec MakeJob(const Settings& settings) {
  JobSpec job;
  job.name = "bench-checkpoint";
  job.model.inputs = {{"x", {settings.mib * 512}}};
  job.model.layers = {{"dense", {"x"}, DenseSpec{512, Activation::kNone, false}}};
  job.cluster.worker_count = settings.workers;
  job.cluster.parameter_server_count = settings.servers;
  job.training.batch_size = 1;
  job.training.optimizer.learning_rate = 1e-6;
  job.data.train = {"images", "labels"};
  job.checkpoint.every = std::chrono::seconds(settings.every);
  return job;
}

// ---- The cluster ----------------------------------------------------------------------------------------------------

// Chief and ps with a folder of their own, all of which end with it.
class Cluster {
 public:
  explicit Cluster(const JobSpec& job) : supervisor_(Supervisor::Create().value()) {
    CHECK(mkdtemp(folder_.data()) != nullptr) << folder_;
    commands_.job_dir = folder_ + "/job";
    commands_.job_file = folder_ + "/job.json";
    commands_.launcher = "bench";
    std::ofstream(commands_.job_file) << CanonicalJob(job);
    fs::create_directories(commands_.job_dir + "/logs");
    const absl::Status found = FindPrograms(fs::path(DownpourOfThisBuild()).parent_path().string(), &commands_);
    CHECK(found.ok()) << found;
    CHECK(supervisor_->Start(ChiefProcess(commands_)).ok());
    asker_.emplace(StatusSource{.chief = "", .job_dir = commands_.job_dir});
    for (int i = 0; i < job.cluster.parameter_server_count; ++i) servers_.push_back(absl::StrCat("ps-", i));
    StartServers();
  }
  ~Cluster() { Clear(); }

  // New ones, in the place of those before if there were any.
  void StartServers() {
    const std::string chief = chief_endpoint();
    for (const std::string& server : servers_) {
      CHECK(supervisor_->Start(MemberProcess(commands_, server, chief, attempt_)).ok());
    }
    ++attempt_;
  }
  void KillServers() {
    std::vector<pid_t> pids;
    for (const std::string& server : servers_) pids.push_back(supervisor_->PidOf(server));
    for (const std::string& server : servers_) supervisor_->Send(server, SIGKILL);
    for (size_t i = 0; i < servers_.size(); ++i) {
      for (; supervisor_->PidOf(servers_[i]) == pids[i]; supervisor_->Collect()) std::this_thread::sleep_for(1ms);
    }
  }

  // The first status of which that holds. A signal, or a process that ends by itself, ends this one.
  Json WaitFor(const std::function<bool(const Json&)>& condition) {
    for (;; std::this_thread::sleep_for(kLook)) {
      const Supervisor::News news = supervisor_->Collect();
      for (const Exited& task : news.exited) Leave(1, absl::StrCat(task.name, ": ", DescribeEnd(task.wait_status)));
      for (const int signal : news.signals) Leave(128 + signal, DescribeSignal(signal));
      const absl::StatusOr<Answer> answer = asker_->Ask();
      if (!answer.ok()) continue;  // the chief is not there yet
      Json status = Json::parse(answer->json);
      if (const std::string error = status.value("errorMessage", ""); !error.empty()) Leave(1, error);
      if (condition(status)) return status;
    }
  }
  std::string chief_endpoint() {
    return WaitFor([](const Json&) { return true; }).at("chief").at("endpoint");
  }
  const std::string& job_dir() const { return commands_.job_dir; }
  const std::vector<std::string>& servers() const { return servers_; }
  pid_t PidOf(const std::string& task) const { return supervisor_->PidOf(task); }

 private:
  void Clear() {
    supervisor_->KillAll();
    fs::remove_all(folder_);
  }
  // At once: workers wait for a ps that is gone.
  [[noreturn]] void Leave(int code, const std::string& why) {
    Clear();
    std::fprintf(stderr, "bench_checkpoint: %s\n", why.c_str());
    std::_Exit(code);
  }

  std::string folder_ = (fs::temp_directory_path() / "bench_checkpoint_XXXXXX").string();
  LocalCluster commands_;
  std::unique_ptr<Supervisor> supervisor_;
  std::optional<StatusAsker> asker_;
  std::vector<std::string> servers_;
  uint32_t attempt_ = 0;
};

double ResidentMib(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/statm"));
  double pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

void Print(const char* what, const Series& series) {
  std::printf("%-52s %9.2f  [%.2f, %.2f]\n", what, series.Median(), series.Smallest(), series.Largest());
}

// ---- Writing --------------------------------------------------------------------------------------------------------

// A stretch of time in which a checkpoint was being written, or none was.
struct Stretch {
  bool writing = false;
  Time begin, end;
  double ps_mib = 0, chief_mib = 0;  // the most memory seen
};

// Begins with the load before any round and ends with the last round: one stretch without, one with, and so on.
std::vector<Stretch> WatchRounds(Cluster& cluster, int rounds) {
  std::vector<Stretch> stretches;
  cluster.WaitFor([&](const Json& status) {
    const bool writing = status.at("checkpoint").at("writing") != "";
    if (stretches.empty() || stretches.back().writing != writing) {
      stretches.push_back({.writing = writing, .begin = Now(), .end = Now()});
    }
    Stretch& now = stretches.back();
    now.end = Now();
    double ps_mib = 0;
    for (const std::string& server : cluster.servers()) ps_mib += ResidentMib(cluster.PidOf(server));
    now.ps_mib = std::max(now.ps_mib, ps_mib);
    now.chief_mib = std::max(now.chief_mib, ResidentMib(cluster.PidOf(kChiefTask)));
    return !writing && stretches.size() > 2 * static_cast<size_t>(rounds);
  });
  stretches.pop_back();
  return stretches;
}

struct Flow {
  double per_second = 0;
  double longest_pause_ms = 0;
};

Flow FlowIn(const Stretch& stretch, const std::vector<Acknowledgement>& acknowledged) {
  Flow flow;
  const auto earlier = [](const Acknowledgement& one, Time when) { return one.at < when; };
  const auto first = std::lower_bound(acknowledged.begin(), acknowledged.end(), stretch.begin, earlier);
  const auto last = std::lower_bound(first, acknowledged.end(), stretch.end, earlier);
  for (auto one = first; one != last; ++one) {
    flow.longest_pause_ms = std::max(flow.longest_pause_ms, 1e3 * Seconds(one->pause));
  }
  flow.per_second = static_cast<double>(last - first) / Seconds(stretch.end - stretch.begin);
  return flow;
}

void ReportPushes(const std::vector<Stretch>& stretches, const std::vector<Acknowledgement>& acknowledged) {
  Series without, with, ratio, pause_without, pause_with, seconds;
  for (size_t i = 2; i < stretches.size(); i += 2) {  // in the first stretch the worker joins
    const Stretch &before = stretches[i], &writing = stretches[i + 1];
    const Flow calm = FlowIn(before, acknowledged), busy = FlowIn(writing, acknowledged);
    without.values.push_back(calm.per_second);
    with.values.push_back(busy.per_second);
    ratio.values.push_back(busy.per_second / calm.per_second);
    pause_without.values.push_back(calm.longest_pause_ms);
    pause_with.values.push_back(busy.longest_pause_ms);
    seconds.values.push_back(Seconds(writing.end - writing.begin));
  }
  Print("pushes of a slice per second, between rounds", without);
  Print("pushes of a slice per second, while writing", with);
  Print("  of those between rounds", ratio);
  Print("longest pause of acknowledgements between rounds, ms", pause_without);
  Print("longest pause of acknowledgements while writing, ms", pause_with);
  Print("a round takes, seconds", seconds);
}

// At most, and how much of that came with the rounds.
void ReportMemory(const char* task, double Stretch::*mib, const std::vector<Stretch>& stretches) {
  double most = 0;
  for (const Stretch& stretch : stretches) most = std::max(most, stretch.*mib);
  std::printf("%-52s %9.0f  of which %.0f since the first round began\n",
              absl::StrCat("memory of the ", task, ", MiB").c_str(), most, most - stretches.front().*mib);
}

// ---- Restoring ------------------------------------------------------------------------------------------------------

std::vector<std::string> ShardsOf(Cluster& cluster) {
  const Json status = cluster.WaitFor([](const Json& now) { return now.at("checkpoint").at("writing") == ""; });
  const std::string folder =
      absl::StrCat(cluster.job_dir(), "/", status.at("checkpoint").at("path").get<std::string>());
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".shard") files.push_back(entry.path().string());
  }
  return files;
}

void DropFromMemory(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
    PCHECK(fd.ok() && fdatasync(fd.get()) == 0 && posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED) == 0) << file;
  }
}

// Bytes per second.
double ReadPlainly(const std::vector<std::string>& files) {
  const Time begin = Now();
  std::vector<char> piece(1 << 20);
  double bytes = 0;
  for (const std::string& file : files) {
    const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
    PCHECK(fd.ok()) << file;
    for (ssize_t got = 1; got > 0; bytes += static_cast<double>(got)) {
      PCHECK((got = read(fd.get(), piece.data(), piece.size())) >= 0) << file;
    }
  }
  return bytes / Seconds(Now() - begin);
}

// Seconds from the joining of the first new ps until each has reported every slice.
double RestoreOnce(Cluster& cluster) {
  cluster.KillServers();
  cluster.StartServers();
  const auto count = [&cluster](const Json& status, const char* state) {
    const std::vector<std::string>& servers = cluster.servers();
    return std::count_if(servers.begin(), servers.end(), [&](const std::string& name) {
      const Json& tasks = status.at("tasks");
      return std::any_of(tasks.begin(), tasks.end(), [&](const Json& task) {
        return task.at("name") == name && task.at("state") == state && task.at("pid") == cluster.PidOf(name);
      });
    });
  };
  cluster.WaitFor([&](const Json& status) { return count(status, "PREPARING") > 0; });
  const Time begin = Now();
  cluster.WaitFor([&](const Json& status) { return count(status, "RUNNING") == std::ssize(cluster.servers()); });
  return Seconds(Now() - begin);
}

void MeasureRestores(Cluster& cluster, int restores) {
  Series plain, restored, ratio;
  for (int i = 0; i < restores; ++i) {
    const std::vector<std::string> files = ShardsOf(cluster);
    double bytes = 0;
    for (const std::string& file : files) bytes += static_cast<double>(fs::file_size(file));
    ReadPlainly(files);  // else a virtual disk's host would have them for the second reader only
    DropFromMemory(files);
    plain.values.push_back(ReadPlainly(files) / 1e9);
    DropFromMemory(files);
    restored.values.push_back(bytes / RestoreOnce(cluster) / 1e9);
    ratio.values.push_back(restored.values.back() / plain.values.back());
  }
  Print("a plain read of the files, GB/s", plain);
  Print("a restore onto new ps, GB/s", restored);
  Print("  of the plain read", ratio);
}

void Measure(const Settings& settings) {
  Cluster cluster(MakeJob(settings));
  BenchLoad load(cluster.chief_endpoint(), settings.workers);
  const std::vector<Stretch> stretches = WatchRounds(cluster, settings.rounds + 1);
  const std::vector<Acknowledgement> acknowledged = load.End();
  std::printf("%ld MiB of state on %d ps, %d workers, %d rounds, %d restores: median [smallest, largest]\n",
              static_cast<long>(settings.mib), settings.servers, settings.workers, settings.rounds, settings.restores);
  ReportPushes(stretches, acknowledged);
  ReportMemory("ps", &Stretch::ps_mib, stretches);
  ReportMemory("chief", &Stretch::chief_mib, stretches);
  MeasureRestores(cluster, settings.restores);
}

}  // namespace
}  // namespace downpour

int main(int argc, char** argv) {
  CLI::App app("What a checkpoint costs the pushes that go on meanwhile, and how fast slices come back from it");
  downpour::Settings settings;
  const auto add = [&app](const char* name, auto& value, const char* what, const CLI::Validator& check) {
    app.add_option(name, value, what)->capture_default_str()->check(check);
  };
  add("--mib", settings.mib, "State on all ps, MiB", CLI::Range(64, 1 << 20));
  add("--servers", settings.servers, "Servers that hold it", CLI::PositiveNumber);
  add("--workers", settings.workers, "Workers that push", CLI::PositiveNumber);
  add("--every", settings.every, "Seconds between checkpoints, more than one takes", CLI::PositiveNumber);
  add("--rounds", settings.rounds, "Checkpoints that are measured", CLI::PositiveNumber);
  add("--restores", settings.restores, "Restores that are measured", CLI::Range(1, 5));
  CLI11_PARSE(app, argc, argv);
  FLAGS_logtostderr = true;
  FLAGS_minloglevel = google::GLOG_WARNING;
  downpour::KeepFreedMemory();
  downpour::Measure(settings);
}
