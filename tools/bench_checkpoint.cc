// What a checkpoint costs the pushes that go on meanwhile, and how fast slices come back from it.
//
//   bench_checkpoint [--mib N] [--every SECONDS] [--rounds N] [--restores N]
//
// Chief and ps are real processes on this machine. The load is a real worker whose device computes nothing: it pulls and
// pushes every slice as fast as they let it. Seconds in which a checkpoint is written are held against the other seconds
// of the same run. Then the ps is killed, and what its successor takes to have its slices again is held against a plain
// read of the same files; before either, the files are dropped from memory.
#include <fcntl.h>
#include <glog/logging.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/posix_fd.h"
#include "runtime/posix_process.h"
#include "runtime/zmq_driver.h"
#include "schema/job_file.h"
#include "schema/slice_grid.h"
#include "tools/bench_series.h"
#include "tools/role_commands.h"
#include "tools/status_source.h"
#include "worker/worker_role.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr Duration kLook = 5ms;  // between two questions to the chief
constexpr uint64_t kExamples = 1'000'000;

Time Now() { return Time(std::chrono::steady_clock::now().time_since_epoch()); }

JobSpec MakeJob(int64_t mib, int64_t every) {
  JobSpec job;
  job.name = "bench-checkpoint";
  job.model.inputs = {{"x", {mib * 512}}};
  job.model.layers = {{"dense", {"x"}, DenseSpec{512, Activation::kNone, false}}};
  job.cluster.worker_count = job.cluster.parameter_server_count = 1;
  job.training.batch_size = 1;
  job.training.optimizer.learning_rate = 1e-6;
  job.data.train = {"images", "labels"};
  job.checkpoint.every = std::chrono::seconds(every);
  return job;
}

// ---- The load -------------------------------------------------------------------------------------------------------

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

// A worker that notes when its pushes are acknowledged, and ends when told so.
class NotingWorker final : public Role {
 public:
  explicit NotingWorker(const std::string& chief) : role_(Options(chief)) {}

  void Step(Time now, Input input, Effects& effects) override {
    role_.Step(now, std::move(input), effects);
    for (Effect& effect : effects.Take()) {
      const auto* record = std::get_if<TraceRecord>(&effect);
      if (record != nullptr && record->kind == TraceRecord::Kind::kAcked) acknowledged.push_back(now);
      effects.Add(std::move(effect));
    }
    if (stop) effects.Add(Exit{});
  }

  std::atomic<bool> stop = false;
  std::vector<Time> acknowledged;  // once it has ended

 private:
  static WorkerOptions Options(const std::string& chief) {
    WorkerOptions options;
    options.member.chief = chief;
    options.member.join.nonce = RandomNonce();
    options.member.join.device = "none";
    return options;
  }
  WorkerRole role_;
};

void RunWorker(NotingWorker& worker) {
  Mailbox mailbox;
  ComputeThread computer(std::make_unique<InstantDevice>(), &mailbox);
  auto driver = ZmqDriver::Open({}, {.mailbox = &mailbox, .computer = &computer}).value();
  driver->Run(worker);
}

// ---- The cluster ----------------------------------------------------------------------------------------------------

class Cluster {
 public:
  Cluster(const std::string& folder, const JobSpec& job) : supervisor_(Supervisor::Create().value()) {
    commands_.job_dir = folder + "/job";
    commands_.job_file = folder + "/job.json";
    commands_.launcher = "bench";
    std::ofstream(commands_.job_file) << CanonicalJob(job);
    fs::create_directories(commands_.job_dir + "/logs");
    const absl::Status found = FindPrograms(fs::canonical("/proc/self/exe").parent_path().string(), &commands_);
    CHECK(found.ok()) << found;
    CHECK(supervisor_->Start(ChiefProcess(commands_)).ok());
    asker_.emplace(StatusSource{.chief = "", .job_dir = commands_.job_dir});
    StartServer();
  }

  // A new ps, in the place of the one before if there was one.
  void StartServer() {
    const Json status = WaitFor([](const Json&) { return true; });
    const std::string chief = status.at("chief").at("endpoint");
    CHECK(supervisor_->Start(MemberProcess(commands_, "ps-0", chief, attempt_++)).ok());
  }
  void KillServer() {
    const pid_t pid = supervisor_->PidOf("ps-0");
    supervisor_->Send("ps-0", SIGKILL);
    while (supervisor_->PidOf("ps-0") == pid) {
      std::this_thread::sleep_for(1ms);
      supervisor_->Collect();
    }
  }

  // The first status of which that holds.
  Json WaitFor(const std::function<bool(const Json&)>& condition) {
    for (;; std::this_thread::sleep_for(kLook)) {
      const absl::StatusOr<Answer> answer = asker_->Ask();
      if (!answer.ok()) continue;  // the chief is not there yet
      Json status = Json::parse(answer->json);
      CHECK_EQ(status.value("errorMessage", ""), "") << "see " << commands_.job_dir;
      if (condition(status)) return status;
    }
  }
  std::string chief_endpoint() {
    return WaitFor([](const Json&) { return true; }).at("chief").at("endpoint");
  }
  const std::string& job_dir() const { return commands_.job_dir; }
  pid_t PidOf(const std::string& task) const { return supervisor_->PidOf(task); }

 private:
  LocalCluster commands_;
  std::unique_ptr<Supervisor> supervisor_;
  std::optional<StatusAsker> asker_;
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
    now.ps_mib = std::max(now.ps_mib, ResidentMib(cluster.PidOf("ps-0")));
    now.chief_mib = std::max(now.chief_mib, ResidentMib(cluster.PidOf(kChiefTask)));
    return !writing && stretches.size() > 2 * static_cast<size_t>(rounds);
  });
  stretches.pop_back();
  return stretches;
}

struct Flow {
  double per_second = 0;
  double longest_gap_ms = 0;
};

Flow FlowIn(const Stretch& stretch, const std::vector<Time>& acknowledged) {
  Flow flow;
  Time last = stretch.begin;
  const auto first = std::lower_bound(acknowledged.begin(), acknowledged.end(), stretch.begin);
  auto at = first;
  for (; at != acknowledged.end() && *at < stretch.end; last = *at++) {
    flow.longest_gap_ms = std::max(flow.longest_gap_ms, 1e3 * Seconds(*at - last));
  }
  flow.longest_gap_ms = std::max(flow.longest_gap_ms, 1e3 * Seconds(stretch.end - last));
  flow.per_second = static_cast<double>(at - first) / Seconds(stretch.end - stretch.begin);
  return flow;
}

void ReportPushes(const std::vector<Stretch>& stretches, const std::vector<Time>& acknowledged) {
  Series without, with, ratio, gap_without, gap_with, seconds;
  for (size_t i = 2; i < stretches.size(); i += 2) {  // in the first stretch the worker joins
    const Stretch &before = stretches[i], &writing = stretches[i + 1];
    const Flow calm = FlowIn(before, acknowledged), busy = FlowIn(writing, acknowledged);
    without.values.push_back(calm.per_second);
    with.values.push_back(busy.per_second);
    ratio.values.push_back(busy.per_second / calm.per_second);
    gap_without.values.push_back(calm.longest_gap_ms);
    gap_with.values.push_back(busy.longest_gap_ms);
    seconds.values.push_back(Seconds(writing.end - writing.begin));
  }
  Print("pushes of a slice per second, between rounds", without);
  Print("pushes of a slice per second, while writing", with);
  Print("  of those between rounds", ratio);
  Print("longest pause of acknowledgements between rounds, ms", gap_without);
  Print("longest pause of acknowledgements while writing, ms", gap_with);
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

// Seconds from a new ps's joining until it has reported every slice.
double RestoreOnce(Cluster& cluster) {
  cluster.KillServer();
  cluster.StartServer();
  const auto is = [&](const char* state) {
    return [&, state](const Json& status) {
      const Json& server = status.at("tasks").at(0);
      return server.at("state") == state && server.at("pid") == cluster.PidOf("ps-0");
    };
  };
  cluster.WaitFor(is("PREPARING"));
  const Time begin = Now();
  cluster.WaitFor(is("RUNNING"));
  return Seconds(Now() - begin);
}

void MeasureRestores(Cluster& cluster, int restores) {
  Series plain, restored, ratio;
  for (int i = 0; i < restores; ++i) {
    const std::vector<std::string> files = ShardsOf(cluster);
    double bytes = 0;
    for (const std::string& file : files) bytes += static_cast<double>(fs::file_size(file));
    DropFromMemory(files);
    plain.values.push_back(ReadPlainly(files) / 1e9);
    DropFromMemory(files);
    restored.values.push_back(bytes / RestoreOnce(cluster) / 1e9);
    ratio.values.push_back(restored.values.back() / plain.values.back());
  }
  Print("a plain read of the files, GB/s", plain);
  Print("a restore onto a new ps, GB/s", restored);
  Print("  of the plain read", ratio);
}

void Measure(const std::string& folder, int64_t mib, int64_t every, int rounds, int restores) {
  Cluster cluster(folder, MakeJob(mib, every));
  NotingWorker worker(cluster.chief_endpoint());
  std::thread working([&] { RunWorker(worker); });
  const std::vector<Stretch> stretches = WatchRounds(cluster, rounds + 1);
  worker.stop = true;
  working.join();
  std::printf("%ld MiB of state on one ps, %d rounds, %d restores: median [smallest, largest]\n",
              static_cast<long>(mib), rounds, restores);
  ReportPushes(stretches, worker.acknowledged);
  ReportMemory("ps", &Stretch::ps_mib, stretches);
  ReportMemory("chief", &Stretch::chief_mib, stretches);
  MeasureRestores(cluster, restores);
}

}  // namespace
}  // namespace downpour

int main(int argc, char** argv) {
  CLI::App app("What a checkpoint costs the pushes that go on meanwhile, and how fast slices come back from it");
  int64_t mib = 1024, every = 10;
  int rounds = 5, restores = 3;
  app.add_option("--mib", mib, "State on the ps, MiB")->capture_default_str()->check(CLI::Range(64, 1 << 20));
  app.add_option("--every", every, "Seconds between checkpoints")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--rounds", rounds, "Checkpoints that are measured")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--restores", restores, "Restores that are measured")->capture_default_str()->check(CLI::Range(1, 5));
  CLI11_PARSE(app, argc, argv);
  FLAGS_logtostderr = true;
  FLAGS_minloglevel = google::GLOG_WARNING;
  downpour::KeepFreedMemory();
  std::string folder = (std::filesystem::temp_directory_path() / "bench_checkpoint_XXXXXX").string();
  CHECK(mkdtemp(folder.data()) != nullptr) << folder;
  downpour::Measure(folder, mib, every, rounds, restores);
  std::filesystem::remove_all(folder);
}
