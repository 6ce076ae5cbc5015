#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cluster/human_units.h"
#include "cluster/job_command.h"
#include "cluster/job_folder.h"
#include "cluster/output_options.h"
#include "cluster/status_source.h"
#include "cluster/text_table.h"
#include "runtime/plan.h"
#include "tools/cli/checkpoint_option.h"
#include "tools/cli/checkpoint_view.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

struct CheckpointOptions {
  CheckpointOption checkpoint;
  StatusSource source;  // of `now`
  bool json = false;
  bool each_slice = false;
  bool verbose = false;
};

constexpr size_t kMostToldOfARound = 5;  // sentences

// What stands under the name of a round.
struct Entry {
  Round round;
  std::optional<Checkpoint> checkpoint;  // nothing: no manifest that can be read
  std::string state;                     // complete, damaged, unreadable, unfinished or gone
  std::string why;
  BestRecord best = {};  // of this one, if the journal names it
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const Manifest::File& file : checkpoint->manifest.files) sum += file.bytes;
    return sum;
  }
  uint64_t leases() const { return Plan(checkpoint->job, checkpoint->manifest.train_examples).total_leases(); }
};

// Of a round whose manifest could not be had.
std::string StateOf(const absl::Status& why) {
  if (absl::IsNotFound(why)) return "unfinished";  // it was given up, or goes on
  return absl::IsDataLoss(why) || absl::IsInvalidArgument(why) ? "damaged" : "unreadable";
}

Entry LookAt(const std::string& job_dir, Round round) {
  absl::StatusOr<Checkpoint> checkpoint = OpenCheckpoint(job_dir, round);
  if (!checkpoint.ok()) {
    return {round, std::nullopt, StateOf(checkpoint.status()), std::string(checkpoint.status().message())};
  }
  const absl::Status files = CheckFiles(*checkpoint);
  return {round, *std::move(checkpoint), files.ok() ? "complete" : StateOf(files), std::string(files.message())};
}

std::string ListTable(const std::vector<Entry>& entries) {
  std::vector<std::vector<std::string>> rows = {{"ROUND", "WRITTEN", "SIZE", "LEASES", "STATE"}};
  for (const Entry& entry : entries) {
    std::vector<std::string> row = {ToString(entry.round), "-", "-", "-", entry.state};
    if (entry.checkpoint) {
      const Manifest& manifest = entry.checkpoint->manifest;
      row[1] = HumanTime(manifest.unix_ms);
      row[2] = HumanBytes(static_cast<double>(entry.bytes()));
      row[3] = absl::StrCat(HumanCount(static_cast<double>(manifest.committed.Count())), " of ",
                            HumanCount(static_cast<double>(entry.leases())));
    }
    if (!entry.why.empty()) absl::StrAppend(&row[4], ": ", Printable(entry.why));
    if (entry.best != BestRecord()) absl::StrAppend(&row[4], ", ", DescribeBest(entry.best));
    rows.push_back(std::move(row));
  }
  return TextTable(rows, /*first_number=*/2, /*last_number=*/3);
}

std::string ListJson(const std::vector<Entry>& entries) {
  nlohmann::json list = nlohmann::json::array();
  for (const Entry& entry : entries) {
    nlohmann::json item = {{"round", ToString(entry.round)}, {"state", entry.state}};
    if (!entry.why.empty()) item["why"] = entry.why;
    if (entry.best != BestRecord()) item["best"] = BestJson(entry.best);
    if (entry.checkpoint) {
      item["path"] = entry.checkpoint->path;
      item["unixMs"] = entry.checkpoint->manifest.unix_ms;
      item["bytes"] = entry.bytes();
      item["leasesCommitted"] = entry.checkpoint->manifest.committed.Count();
      item["leases"] = entry.leases();
    }
    list.push_back(std::move(item));
  }
  return list.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

absl::StatusOr<std::vector<Entry>> ChosenEntries(const CheckpointOption& option) {
  const BestRecord best = NewestJournalEntry(option.job_dir).record.best;
  if (option.round == kBestCheckpoint && best == BestRecord()) {
    return absl::NotFoundError(absl::StrCat(option.job_dir, " names no best checkpoint"));
  }
  if (!option.round.empty()) {
    const Round round = option.round == kBestCheckpoint ? best.round : *ParseRound(option.round);
    return std::vector<Entry>{LookAt(option.job_dir, round)};
  }
  const std::string folder = absl::StrCat(option.job_dir, "/", kCheckpointsDir);
  if (absl::Status readable = CheckJobFolder(option.job_dir); !readable.ok()) return readable;
  std::vector<Entry> entries;
  for (const Round round : RoundsIn(folder)) entries.push_back(LookAt(option.job_dir, round));
  if (const std::optional<Round> lost = LostCheckpoint(option.job_dir)) {
    std::erase_if(entries, [&](const Entry& entry) { return entry.round == *lost; });
    entries.push_back({*lost, std::nullopt, "gone", "the job wrote it; bring its files back"});
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.round > b.round; });
  }
  for (Entry& entry : entries) {
    if (entry.round == best.round && entry.why.empty()) entry.best = best;  // one that is damaged is of no use
  }
  return entries;
}

int ComplainOfNone(const CheckpointOptions& options, const std::string& verb, Streams streams) {
  const std::string none = absl::StrCat("there is no checkpoint in ", options.checkpoint.job_dir, "/", kCheckpointsDir);
  return Complain(streams, verb, none, kExitFailed);
}

int ListRounds(const CheckpointOptions& options, Streams streams) {
  const absl::StatusOr<std::vector<Entry>> entries = ChosenEntries(options.checkpoint);
  if (!entries.ok()) return Complain(streams, "checkpoint list", std::string(entries.status().message()), kExitFailed);
  if (entries->empty() && !options.json) return ComplainOfNone(options, "checkpoint list", streams);
  streams.out << (options.json ? ListJson(*entries) : ListTable(*entries));
  return kExitDone;
}

// Sentences that name file and bytes; none: each byte is as it was written.
std::vector<std::string> DamageOf(const std::string& job_dir, const Entry& entry) {
  if (entry.state == "gone") return {"it is gone: " + entry.why};
  if (!entry.checkpoint) return {entry.why};
  std::vector<std::string> sentences;
  for (const absl::Status& damage : FindDamage(*entry.checkpoint)) sentences.emplace_back(damage.message());
  // A chief removes checkpoints, manifest first, while nobody asks whether they are being read.
  std::error_code ignored;
  if (!std::filesystem::exists(absl::StrCat(job_dir, "/", ManifestPath(entry.round)), ignored)) sentences.clear();
  return sentences;
}

int Verify(const CheckpointOptions& options, Streams streams) {
  const absl::StatusOr<std::vector<Entry>> entries = ChosenEntries(options.checkpoint);
  if (!entries.ok()) {
    return Complain(streams, "checkpoint verify", std::string(entries.status().message()), kExitFailed);
  }
  if (entries->empty()) return ComplainOfNone(options, "checkpoint verify", streams);
  nlohmann::json report = nlohmann::json::array();
  bool all_valid = true;
  for (const Entry& entry : *entries) {
    const Round round = entry.round;
    if (entry.state == "unfinished" && options.checkpoint.round.empty()) continue;  // it is no checkpoint
    const std::vector<std::string> damage = DamageOf(options.checkpoint.job_dir, entry);
    all_valid = all_valid && damage.empty();
    report.push_back({{"round", ToString(round)}, {"valid", damage.empty()}, {"damage", damage}});
    if (options.json) continue;
    if (damage.empty()) {
      streams.out << ToString(round) << ": valid, all " << HumanCount(static_cast<double>(entry.bytes()))
                  << " bytes are as they were written\n";
    }
    const size_t told = options.verbose ? damage.size() : std::min(damage.size(), kMostToldOfARound);
    for (size_t i = 0; i < told; ++i) streams.out << ToString(round) << ": " << Printable(damage[i]) << "\n";
    if (told < damage.size()) {
      streams.out << ToString(round) << ": and " << HumanCount(static_cast<double>(damage.size() - told))
                  << " more like these; -v tells all\n";
    }
  }
  if (options.json) streams.out << report.dump(2) << "\n";
  return all_valid ? kExitDone : kExitFailed;
}

int Inspect(const CheckpointOptions& options, Streams streams) {
  const std::optional<LoadedCheckpoint> checkpoint = LoadChosen(options.checkpoint, "checkpoint inspect", streams);
  if (!checkpoint) return kExitFailed;
  BestRecord best = NewestJournalEntry(options.checkpoint.job_dir).record.best;
  if (best.round != checkpoint->manifest.round) best = {};
  streams.out << (options.json ? CheckpointJson(*checkpoint, best)
                               : CheckpointTable(*checkpoint, best, options.each_slice));
  return kExitDone;
}

int WriteNow(const CheckpointOptions& options, Streams streams) {
  StatusAsker asker(options.source);
  const absl::StatusOr<CommandOutcome> told = CommandJob(asker, ControlKind::kCheckpoint);
  if (!told.ok()) {
    return Complain(streams, "checkpoint now", std::string(told.status().message()), ExitCodeOf(told.status()));
  }
  if (told->was_over) return Complain(streams, "checkpoint now", "the job is over", kExitFailed);
  streams.out << told->words << "\n";
  return kExitDone;
}

std::function<int()> SetUpCheckpoint(CLI::App& app, Streams streams) {
  auto options = std::make_shared<CheckpointOptions>();
  const auto add = [&](const char* name, const char* summary) {
    CLI::App* verb = app.add_subcommand(name, summary);
    AddFormatOption(*verb, "table, or json as docs/CHECKPOINT_FORMAT.md has it", &options->json);
    return verb;
  };
  CLI::App* list = add(
      "list",
      "Newest first: when it was written, what it holds; complete: its files are there, each as long as it should be");
  list->add_option("--job-dir", options->checkpoint.job_dir, "The job's folder")->required()->type_name("DIR");
  CLI::App* verify = add("verify", "Read every byte of the complete ones against its checksum");
  AddCheckpointOption(*verify, &options->checkpoint, "Which one, or best; without it all of them");
  verify->add_flag("-v,--verbose", options->verbose, "All that is wrong, not only the first of each checkpoint");
  CLI::App* inspect = add("inspect", "Its plan, how far the data are, variables, slots and versions");
  AddCheckpointOption(*inspect, &options->checkpoint, "Which one, or best; without it the newest valid one");
  inspect->add_flag("--slices", options->each_slice, "Each slice too");
  CLI::App* now = app.add_subcommand("now", "Tell a running job to write one, whatever checkpoint.every says");
  AddSourceOptions(*now, &options->source);
  app.require_subcommand(1);
  return [=] {
    if (now->parsed()) return WriteNow(*options, streams);
    if (list->parsed()) return ListRounds(*options, streams);
    return verify->parsed() ? Verify(*options, streams) : Inspect(*options, streams);
  };
}

}  // namespace

const Verb kCheckpointVerb = {"checkpoint", "List, verify or inspect the checkpoints of a job, or write one now",
                              "  downpour checkpoint list --job-dir runs/first\n"
                              "  downpour checkpoint verify --job-dir runs/first\n"
                              "  downpour checkpoint inspect --job-dir runs/first --checkpoint 1-4 -o json\n"
                              "  downpour checkpoint inspect --job-dir runs/first --checkpoint best\n"
                              "  downpour checkpoint now --job-dir runs/first\n",
                              "0 done, 1 there is none, or what was to be verified or inspected is damaged, or the "
                              "job is to write none, 69 its chief cannot be reached",
                              SetUpCheckpoint};

}  // namespace downpour
