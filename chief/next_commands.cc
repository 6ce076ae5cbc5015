#include "chief/next_commands.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schema/text.h"

namespace downpour {
namespace {

using Starts = ChiefOptions::Starts;

// The flag that names keys of that role: those of the chief's folder, or DIR, which the reader is to name.
std::string KeysFlag(const ChiefOptions& options, PeerRole role) {
  if (options.keys.empty()) return "";
  const bool is_here = std::find(options.secrets.begin(), options.secrets.end(), role) != options.secrets.end();
  return " --keys=" + (is_here ? ShellWord(options.keys) : "DIR");
}

// Whether somebody has to start a task of that role: not one that its supervisor starts again.
bool IsWanted(const ChiefView& chief, TaskRole role) {
  const auto& tasks = chief.members.tasks();
  if (chief.life.ended() || chief.life.state == JobState::kCancelling || chief.options.starts == Starts::kBySupervisor)
    return false;
  return std::any_of(tasks.begin(), tasks.end(), [role](const Task& task) {
    return task.role == role && !task.alive() && task.process.launcher.empty();
  });
}

// What starts those who are missing.
void AddStarts(const ChiefView& chief, std::vector<std::string>* next) {
  const ChiefOptions& options = chief.options;
  const bool needs_ps = IsWanted(chief, TaskRole::kPs), needs_worker = IsWanted(chief, TaskRole::kWorker);
  if (options.starts == Starts::kByCommand) {
    if (needs_ps || needs_worker) next->push_back(options.command);
    return;
  }
  const std::string at = " --chief=" + chief.life.endpoint;
  // Others are to reach a ps, and it may have to write beside the chief.
  const bool shared = chief.job.checkpoint.via == CheckpointVia::kShared;
  const std::string of_ps = absl::StrCat(options.keys.empty() ? "" : " --listen=0.0.0.0:0",
                                         shared ? " --job_dir=" + ShellWord(options.job_dir) : "");
  if (needs_ps) next->push_back(absl::StrCat("downpour-ps", KeysFlag(options, PeerRole::kPs), at, of_ps));
  if (needs_worker) next->push_back(absl::StrCat("downpour-worker", KeysFlag(options, PeerRole::kWorker), at));
}

}  // namespace

std::vector<std::string> NextCommands(const ChiefView& chief) {
  const std::string dir = absl::StrCat(" --job-dir ", ShellWord(chief.options.job_dir));
  std::vector<std::string> next;
  AddStarts(chief, &next);
  if (!chief.failures.list().empty()) {
    next.push_back(absl::StrCat("downpour logs ", chief.failures.list().back().task, dir));
  }
  if (chief.life.state == JobState::kSucceeded) {
    // Only a worker can run the user's Python code.
    if (chief.job.data.format != kPythonFormat) next.push_back(absl::StrCat("downpour evaluate", dir));
    next.push_back(absl::StrCat("downpour export", dir, " --out model.safetensors"));
  } else if (chief.life.ended()) {
    next.push_back(CommandToGoOn(chief.rounds.DescribeLast(), CommandToStart(chief.options, chief.life.diverged)));
  } else if (chief.options.starts != Starts::kByCommand) {
    // Who started all with keys did so elsewhere, and has no use for this host's folders.
    next.push_back(!chief.options.secret.empty()
                       ? "downpour watch" + dir
                       : absl::StrCat("downpour watch", KeysFlag(chief.options, PeerRole::kClient), " --chief ",
                                      chief.life.endpoint));
  }
  return next;
}

}  // namespace downpour
