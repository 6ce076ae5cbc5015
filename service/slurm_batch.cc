#include "service/slurm_batch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cluster/job_folder.h"
#include "schema/text.h"

namespace downpour {
namespace {

// Seconds before the time limit: a last checkpoint has 20, and Slurm may be a minute late.
constexpr int kBeforeTheLimit = 120;

// The run is waited for again where a signal has ended the wait.
// clang-format off
constexpr const char* kAfterTheCommands = R"sh(
run= told= out_of_time=
tell() {
  [ -n "$told" ] && return
  told=1
  [ -z "$run" ] || kill -TERM "$run"
}
trap tell USR1
trap 'out_of_time=1; tell' USR2
trap : TERM INT HUP
say() { echo "I $(date -u '+%Y-%m-%d %H:%M:%S.%3N') $*"; }
end() { echo "$1" > "$folder/exit.new" && mv "$folder/exit.new" "$folder/exit"; exit "$1"; }
newest() { ls -d "$job_dir"/checkpoints/*/MANIFEST 2> /dev/null | sort -V | tail -n 1; }

if ! (set -C; echo "$SLURM_JOB_ID" > "$folder/started") 2> /dev/null; then
  [ "$(cat "$folder/started")" = "$SLURM_JOB_ID" ] || { say "job $SLURM_JOB_ID of Slurm is one too many"; exit 97; }
  [ "$(cat "$folder/exit" 2> /dev/null)" != 0 ] || exit 0
  say "job $SLURM_JOB_ID of Slurm continues after restart ${SLURM_RESTART_COUNT:-0}"
fi
rm -f "$folder/exit" "$folder/out_of_time"
before=$(newest)
[ ! -e "$folder/stop" ] || end 143
if [ -e "$job_dir/chief.json" ] || [ -n "$before" ]; then resume & else begin & fi
run=$!
[ -z "$told" ] || kill -TERM "$run"
while :; do
  wait "$run"
  code=$?
  kill -0 "$run" 2> /dev/null || break
done
say "the run ended with exit code $code"
if [ -n "$out_of_time" ] && [ "$code" != 0 ] && [ ! -e "$folder/stop" ]; then
  if [ "$(newest)" != "$before" ]; then  # what is said after the requeue may be too late: it ends this script
    say "the time limit of Slurm is near: the job goes back into its queue, to continue from its last checkpoint"
    scontrol requeue "$SLURM_JOB_ID" && exec sleep 600
  fi
  : > "$folder/out_of_time"
fi
end "$code"
)sh";
// clang-format on

}  // namespace

const char* const kSubmit = R"(
folder=$1
shift
trap '' TERM INT HUP
rm -f "$folder/refused"
if "$@" > "$folder/submitted.new" 2> "$folder/refused.new"; then
  mv "$folder/submitted.new" "$folder/submitted"
else
  mv "$folder/refused.new" "$folder/refused"
fi
)";

std::string SlurmNameOf(const Job& job) {
  std::string name = absl::StrCat("downpour-", job.name, "-", job.created_ms);
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
}

std::string BatchScript(const std::vector<std::string>& begin, const std::vector<std::string>& resume,
                        const RunFolder& folder) {
  return absl::StrCat("#!/bin/sh\nset -u\nfolder=", ShellWord(folder.Own("")),
                      "\njob_dir=", ShellWord(folder.job_dir()), "\nbegin() { exec ", ShellCommand(begin),
                      " < /dev/null; }\nresume() { exec ", ShellCommand(resume), " < /dev/null; }\n",
                      kAfterTheCommands);
}

std::vector<std::string> SbatchCommand(const RunOrder& order, const Room& need, const BackendSettings& settings,
                                       const RunFolder& folder) {
  constexpr uint64_t kMiB = 1 << 20;
  // Slurm replaces %j and the like in the names of files.
  const std::string log = absl::StrReplaceAll(LogPath(folder.job_dir(), "service"), {{"%", "%%"}});
  std::vector<std::string> command = {"sbatch",
                                      "--parsable",
                                      "--job-name=" + SlurmNameOf(order.job),
                                      "--chdir=" + folder.job_dir(),
                                      "--output=" + log,
                                      "--open-mode=append",
                                      "--nodes=1",
                                      "--ntasks=1",
                                      absl::StrCat("--cpus-per-task=", need.cores),
                                      "--requeue",
                                      absl::StrCat("--signal=B:USR2@", kBeforeTheLimit)};
  if (need.memory > 0) command.push_back(absl::StrCat("--mem=", (need.memory + kMiB - 1) / kMiB, "M"));
  if (need.gpus > 0) command.push_back(absl::StrCat("--gres=gpu:", need.gpus));
  if (!settings.partition.empty()) command.push_back("--partition=" + settings.partition);
  command.insert(command.end(), settings.sbatch_options.begin(), settings.sbatch_options.end());
  command.push_back(folder.Own("batch.sh"));
  return command;
}

}  // namespace downpour
