#include "tools/cli/staged_code.h"

#include <fcntl.h>

#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cluster/job_folder.h"
#include "job/job_file.h"
#include "runtime/posix/code_cache.h"
#include "runtime/posix/whole_file.h"
#include "tools/cli/python_code.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

constexpr const char* kJobFile = "job.json";
constexpr const char* kNotYetLed = "after-term";

struct Folders {
  explicit Folders(const std::string& job_dir)
      : code(PythonFolder(job_dir)), other(code.string() + ".new"), aside(code.string() + ".old") {}
  const fs::path code;
  const fs::path other;
  const fs::path aside;  // while the two are swapped
};

void Swap(const Folders& at) {
  if (renameat2(AT_FDCWD, at.code.c_str(), AT_FDCWD, at.other.c_str(), RENAME_EXCHANGE) == 0) return;
  fs::rename(at.code, at.aside);
  fs::rename(at.other, at.code);
  fs::rename(at.aside, at.other);
}

// Takes back what Swap had begun, or completes it, where it was killed between two renames.
void FinishSwap(const Folders& at) {
  if (fs::exists(at.aside)) fs::rename(at.aside, fs::exists(at.code) ? at.other : at.code);
}

std::string TermIn(const std::string& job_dir) {
  const absl::StatusOr<ChiefLocation> chief = ReadChiefLocation(job_dir);
  return absl::StrCat(chief.ok() ? chief->term : 0);
}

absl::Status WriteFiles(const Payload& archive, const JobSpec& job, const fs::path& folder, const fs::path& to,
                        const std::string& after_term) {
  fs::create_directories(to);
  for (const char* file : {"description.json", "initial.safetensors"}) fs::copy_file(folder / file, to / file);
  const std::string code(reinterpret_cast<const char*>(archive.data()), archive.size());
  for (const auto& [name, text] :
       {std::pair(fs::path(kCodeFile).filename(), code), std::pair(fs::path(kJobFile), CanonicalJob(job)),
        std::pair(fs::path(kNotYetLed), after_term)}) {
    if (text.empty()) continue;
    const absl::Status status = WriteWhole(to / name, text, 0644, WhereThere::kReplace);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> StagePythonCode(const Payload& archive, const JobSpec& job, const std::string& folder,
                                            const std::string& job_dir, Accepted accepted) {
  SettlePythonCode(job_dir);  // what a start that was killed has left
  const Folders at(job_dir);
  absl::Status status;
  try {
    status = WriteFiles(archive, job, folder, at.other, accepted == Accepted::kAtOnce ? "" : TermIn(job_dir));
    if (status.ok() && fs::exists(at.code)) {
      Swap(at);
    } else if (status.ok()) {
      fs::rename(at.other, at.code);
    }
  } catch (const fs::filesystem_error& error) {
    status = absl::UnavailableError(absl::StrCat("cannot copy the model into the job folder: ", error.what()));
  }
  if (status.ok()) return at.code / kJobFile;
  SettlePythonCode(job_dir);
  return status;
}

void SettlePythonCode(const std::string& job_dir) {
  const Folders at(job_dir);
  try {
    FinishSwap(at);
    const absl::StatusOr<std::string> after_term = ReadTextFile(at.code / kNotYetLed);
    if (after_term.ok() && *after_term == TermIn(job_dir)) {
      if (fs::exists(at.other)) {
        Swap(at);
      } else {
        fs::rename(at.code, at.other);
      }
    }
    fs::remove_all(at.other);
    fs::remove(at.code / kNotYetLed);  // behind all else: until then the next start would do the same
  } catch (const fs::filesystem_error&) {
    // The folder cannot be written: whoever wants to write into it says so.
  }
}

absl::StatusOr<std::string> StageJob(const JobSpec& job, const std::string& job_dir) {
  SettlePythonCode(job_dir);
  const fs::path to = PythonFolder(job_dir);
  std::error_code error;
  fs::create_directories(to, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot make ", to.string(), ": ", error.message()));
  const absl::Status status = WriteWhole(to / kJobFile, CanonicalJob(job), 0644, WhereThere::kReplace);
  if (!status.ok()) return status;
  return to / kJobFile;
}

}  // namespace downpour
