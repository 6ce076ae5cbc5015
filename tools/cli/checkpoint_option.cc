#include "tools/cli/checkpoint_option.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "absl/strings/str_cat.h"

namespace downpour {

std::string CheckRound(const std::string& name) {
  const absl::Status round = ParseRound(name).status();
  return round.ok() || name == kBestCheckpoint ? "" : absl::StrCat(std::string(round.message()), ", and best");
}

void AddCheckpointOption(CLI::App& app, CheckpointOption* option, const std::string& help) {
  app.add_option("--job-dir", option->job_dir, "The job's folder")->required()->type_name("DIR");
  app.add_option("--checkpoint", option->round, help)->type_name("TERM-N|best")->check(CheckRound);
}

std::optional<Checkpoint> OpenChosen(const CheckpointOption& option, const std::string& verb, Streams streams) {
  absl::StatusOr<Checkpoint> opened = OpenNamedCheckpoint(option.job_dir, option.round);
  if (opened.ok()) return *std::move(opened);
  Complain(streams, verb, std::string(opened.status().message()), kExitFailed);
  return std::nullopt;
}

std::optional<LoadedCheckpoint> LoadChosen(const CheckpointOption& option, const std::string& verb, Streams streams) {
  std::vector<std::string> passed_over;
  absl::StatusOr<LoadedCheckpoint> loaded = LoadCheckpoint(option.job_dir, option.round, &passed_over);
  for (const std::string& sentence : passed_over) Complain(streams, verb, sentence, kExitDone);
  if (loaded.ok()) return *std::move(loaded);
  streams.err << "downpour " << verb << ": " << std::string(loaded.status().message()) << "\n";
  return std::nullopt;
}

}  // namespace downpour
