#include <poll.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cluster/folder_watch.h"
#include "cluster/job_folder.h"
#include "cluster/log_merger.h"
#include "job/nearest_name.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

struct LogsOptions {
  std::string task;
  std::string job_dir;
  bool follow = false;
};

std::vector<std::string> LoggedTasks(const std::string& job_dir) {
  std::vector<std::string> tasks;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(job_dir) / "logs", ignored)) {
    if (entry.path().extension() == ".log") tasks.push_back(entry.path().stem());
  }
  std::sort(tasks.begin(), tasks.end());
  return tasks;
}

// What was written to the tasks' logs since the last call.
class LogReader {
 public:
  explicit LogReader(std::string job_dir) : job_dir_(std::move(job_dir)) {}

  void ReadNews(const std::vector<std::string>& tasks, LogMerger* merger) {
    for (const std::string& task : tasks) {
      std::ifstream file(LogPath(job_dir_, task), std::ios::binary);
      file.seekg(offsets_[task]);
      char block[1 << 16];
      while (file.read(block, sizeof(block)) || file.gcount() > 0) {
        merger->Add(task, std::string_view(block, static_cast<size_t>(file.gcount())));
        offsets_[task] += file.gcount();
      }
    }
  }

 private:
  const std::string job_dir_;
  std::map<std::string, std::streamoff> offsets_;
};

// The end of a job writes nothing here, so that is looked for as well.
void WaitForNews(FolderWatch* watch) {
  constexpr int kLookEveryMs = 200;
  pollfd wait{watch->fd(), POLLIN, 0};
  poll(&wait, 1, kLookEveryMs);
  watch->Drain();
}

int Logs(const LogsOptions& options, Streams streams) {
  // Watched before it is read, so that nothing is missed in between.
  absl::StatusOr<FolderWatch> watch = FolderWatch::Open(options.job_dir + "/logs");
  std::vector<std::string> tasks = LoggedTasks(options.job_dir);
  if (!watch.ok() || tasks.empty()) {
    return Complain(streams, "logs",
                    absl::StrCat("there are no logs in ", options.job_dir, "/logs; is it a job folder?"), kExitFailed);
  }
  if (!options.task.empty()) {
    if (std::find(tasks.begin(), tasks.end(), options.task) == tasks.end()) {
      return Complain(streams, "logs",
                      absl::StrCat("there is no log of a task '", options.task, "'", DidYouMean(options.task, tasks),
                                   " (there are: ", absl::StrJoin(tasks, ", "), ")"),
                      kExitBadCommandLine);
    }
    tasks = {options.task};
  }
  LogReader reader(options.job_dir);
  LogMerger merger(tasks);
  while (true) {
    const bool more = options.follow && IsAtWork(options.job_dir);  // before reading, which then finds the last words
    reader.ReadNews(options.task.empty() ? LoggedTasks(options.job_dir) : tasks, &merger);
    streams.out << (more ? merger.Take() : merger.TakeAll()) << std::flush;
    if (!more || !streams.out) return kExitDone;
    WaitForNews(&*watch);
  }
}

std::function<int()> SetUpLogs(CLI::App& app, Streams streams) {
  auto options = std::make_shared<LogsOptions>();
  app.add_option("task", options->task, "chief, ps-0, worker-3, ...; all of them if none is named")->type_name("TASK");
  app.add_option("--job-dir", options->job_dir, "The job folder")->required();
  app.add_flag("-f,--follow", options->follow,
               "Go on with what is written from now on, until nobody is at work on the job");
  return [options, streams] { return Logs(*options, streams); };
}

}  // namespace

const Verb kLogsVerb = {"logs", "Show what the tasks of a job logged, one of them or all in order of time",
                        "  downpour logs --job-dir runs/first\n"
                        "  downpour logs worker-0 --follow --job-dir runs/first\n",
                        "0 done, 1 there are no logs", SetUpLogs};

}  // namespace downpour
