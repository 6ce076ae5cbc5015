#include "service/slurm_queue.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr const char* kOver[] = {"BOOT_FAIL", "CANCELLED",     "COMPLETED", "DEADLINE", "FAILED",
                                 "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",  "TIMEOUT"};

bool IsNumber(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return absl::ascii_isdigit(c); });
}

}  // namespace

bool IsOver(const SlurmJob& job) { return std::find(std::begin(kOver), std::end(kOver), job.state) != std::end(kOver); }

std::vector<SlurmJob> ParseSqueue(const std::string& text) {
  constexpr int kFields = 5;
  std::vector<SlurmJob> jobs;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits('|', kFields - 1));
    if (words.size() != kFields || !IsNumber(words[0])) continue;
    jobs.push_back({.id = words[0], .state = words[1], .name = words[2], .reason = words[3], .folder = words[4]});
  }
  return jobs;
}

Said AskSqueue() {
  constexpr int kSeconds = 30;
  return AskProgram({"squeue", "--noheader", "--states=all", absl::StrCat("--user=", getuid()),
                     absl::StrCat("--format=", kSlurmFormat)},
                    kSeconds);
}

void SlurmQueue::Refresh() {
  constexpr size_t kMostWords = 300;
  if (round_ > 0 && std::chrono::steady_clock::now() - asked_ < period_) return;
  const Said said = ask_();
  asked_ = std::chrono::steady_clock::now();
  ++round_;
  if (said.code == 0) {
    words_.clear();
    jobs_ = ParseSqueue(said.out);
  } else {
    words_ = OneLine(std::string(absl::StripAsciiWhitespace(said.out)), kMostWords);
    if (words_.empty()) words_ = "squeue said nothing";
  }
}

const SlurmJob* SlurmQueue::Find(const std::string& name, const std::string& folder) const {
  const SlurmJob* found = nullptr;
  for (const SlurmJob& job : jobs_) {
    if (job.name == name && job.folder == folder) found = found == nullptr || IsOver(*found) ? &job : found;
  }
  return found;
}

}  // namespace downpour
