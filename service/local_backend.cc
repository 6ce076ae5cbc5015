#include "service/local_backend.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cluster/job_folder.h"
#include "runtime/posix/whole_file.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

std::string NeedKeyOf(const Job& job) { return absl::StrCat(job.name, " ", job.created_ms); }

// Of the control group, in its two versions; what says no number says no limit.
uint64_t MemoryLimit() {
  uint64_t least = UINT64_MAX;
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    uint64_t limit = 0;
    const std::string text = ReadTextFile(path).value_or("");
    if (absl::SimpleAtoi(absl::StripAsciiWhitespace(text), &limit)) least = std::min(least, limit);
  }
  return least;
}

// The GPUs that this process may use, by their names for CUDA.
std::vector<std::string> VisibleGpus() {
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    return absl::StrSplit(visible, ',', absl::SkipWhitespace());
  }
  std::vector<std::string> gpus;
  for (int i = 0; fs::exists(absl::StrCat("/dev/nvidia", i)); ++i) gpus.push_back(absl::StrCat(i));
  return gpus;
}

// By which Google's own clients, pyarrow and fsspec find the service's store. TensorFlow knows none of them.
std::vector<std::string> StoreVariables(const std::string& address) {
  std::vector<std::string> variables;
  if (address.empty()) return variables;
  const std::pair<const char*, std::string> known[] = {{"STORAGE_EMULATOR_HOST", address},
                                                       {"CLOUD_STORAGE_EMULATOR_ENDPOINT", address},
                                                       // A token of Google's is for Google alone.
                                                       {"FSSPEC_GCS_TOKEN", "anon"},
                                                       // By gRPC gcsfs would ask what the service cannot tell.
                                                       {"GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false"}};
  for (const auto& [name, value] : known) {
    if (std::getenv(name) == nullptr) variables.push_back(absl::StrCat(name, "=", value));
  }
  return variables;
}

}  // namespace

Room RoomOfThisMachine() {
  const uint64_t physical =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
  return {.cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency())),
          .memory = std::min(physical, MemoryLimit()) / 10 * 9,
          .gpus = static_cast<int>(VisibleGpus().size())};
}

LocalBackend::LocalBackend(BackendSettings settings) : settings_(std::move(settings)), gpus_(VisibleGpus()) {
  // --gpus may say fewer, and where none was found which ones there are is for it to say.
  const auto count = static_cast<size_t>(settings_.room.gpus);
  for (size_t i = gpus_.size(); i < count; ++i) gpus_.push_back(absl::StrCat(i));
  gpus_.resize(count);
}

const Room& LocalBackend::NeedOf(const Job& job) {
  const auto [found, is_new] = needs_.try_emplace(NeedKeyOf(job));
  if (is_new) found->second = downpour::NeedOf(job, settings_);
  return found->second;
}

Turns LocalBackend::Queue(const std::vector<Job>& unfinished) {
  std::vector<Room> needs;
  std::set<std::string> known;
  std::map<std::string, std::vector<std::string>> held;
  for (const Job& job : unfinished) {
    needs.push_back(NeedOf(job));
    known.insert(NeedKeyOf(job));
    if (held_.contains(job.name)) held[job.name] = held_[job.name];
  }
  held_ = std::move(held);
  std::erase_if(needs_, [&](const auto& need) { return !known.contains(need.first); });
  return TakeTurns(unfinished, needs, settings_.room);
}

RunSeen LocalBackend::Look(const Job& job, const RunFolder& folder) {
  // What a service before this one gave to the run.
  if (!gpus_.empty() && !held_.contains(job.name)) {
    const std::string text = ReadTextFile(folder.Own("gpus")).value_or("");
    held_[job.name] = absl::StrSplit(text, ',', absl::SkipEmpty());
  }
  return folder.Look();
}

std::vector<std::string> LocalBackend::FreeGpus(size_t count) const {
  std::vector<std::string> free;
  for (const std::string& gpu : gpus_) {
    const bool is_taken = std::any_of(held_.begin(), held_.end(), [&](const auto& job) {
      return std::find(job.second.begin(), job.second.end(), gpu) != job.second.end();
    });
    if (!is_taken && free.size() < count) free.push_back(gpu);
  }
  return free;
}

absl::Status LocalBackend::Start(const RunOrder& order, const RunFolder& folder) {
  std::vector<std::string> command = RunCommand(settings_, order, folder);
  std::vector<std::string> environment = StoreVariables(settings_.address);
  if (order.job.trial) environment.push_back(absl::StrCat("CLOUD_ML_TRIAL_ID=", TrialNumber(order.job.name)));
  if (!gpus_.empty()) {
    held_.erase(order.job.name);
    const std::vector<std::string> gpus = FreeGpus(static_cast<size_t>(NeedOf(order.job).gpus));
    held_[order.job.name] = gpus;
    const std::string names = absl::StrJoin(gpus, ",");
    const absl::Status written = WriteWhole(folder.Own("gpus"), names, 0644, WhereThere::kReplace);
    if (!written.ok()) return written;
    environment.push_back("CUDA_VISIBLE_DEVICES=" + names);
  }
  if (!environment.empty()) {
    environment.insert(environment.begin(), "/usr/bin/env");
    command.insert(command.begin(), environment.begin(), environment.end());
  }
  return folder.Start(command);
}

absl::Status LocalBackend::Stop(const Job&, const RunFolder& folder) { return folder.Stop(); }

}  // namespace downpour
