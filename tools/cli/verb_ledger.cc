#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "cluster/human_units.h"
#include "cluster/output_options.h"
#include "cluster/status_source.h"
#include "tools/cli/ledger.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

using Json = nlohmann::json;

struct LedgerOptions {
  StatusSource source;
  bool json = false;
};

// What the job did over and above its plan, as summary.json calls it, and in words.
struct Tally {
  const char* name;
  const char* words;
};
// Of the processes that the last chief has seen.
constexpr Tally kPushTallies[] = {{"pushesApplied", "consumed"},
                                  {"pushesResent", "retried"},
                                  {"pushesRefused", "refused for now"},
                                  {"pushesDuplicate", "duplicates, without effect"}};
// Of the whole job.
constexpr Tally kJobTallies[] = {{"leasesHandedOn", "leases reassigned"},
                                 {"batchesRecomputed", "batches computed again"}};

// Of a status or a summary.
MaybeCount CountNamed(std::string_view name, const auto& report) {
  for (size_t row = 0; row < report.pushes.counts.size(); ++row) {
    if (name == kPushCounts[row].in_summary) return report.pushes.counts[row];
  }
  for (const RecoveryCount& row : kRecoveryCounts) {
    if (name == row.key) return report.recovery.*row.count;
  }
  return std::nullopt;
}

// Those that the chief or its summary knows of, by name.
Json TalliesOf(const Answer& answer) {
  Json tallies = Json::object();
  const auto take = [&](const Tally& tally) {
    const MaybeCount count =
        answer.status ? CountNamed(tally.name, *answer.status) : CountNamed(tally.name, *answer.summary);
    if (count) tallies[tally.name] = *count;
  };
  std::for_each(std::begin(kPushTallies), std::end(kPushTallies), take);
  std::for_each(std::begin(kJobTallies), std::end(kJobTallies), take);
  return tallies;
}

std::string TallyLine(const std::string& whose, absl::Span<const Tally> wanted, const Json& tallies) {
  std::vector<std::string> parts;
  for (const Tally& tally : wanted) {
    if (!tallies.contains(tally.name)) continue;
    parts.push_back(absl::StrCat(HumanCount(tallies[tally.name].get<double>()), " ", tally.words));
  }
  return parts.empty() ? "" : absl::StrCat(whose, absl::StrJoin(parts, ", "), "\n");
}

struct LedgerFindings {
  LoadedCheckpoint checkpoint;
  Ledger ledger;
  Json tallies;
  bool lost = false;  // the job has succeeded, and samples are missing
};

std::string Words(const LedgerFindings& found) {
  const bool doubled = !found.ledger.doubled.empty();
  return absl::StrCat(found.checkpoint.path, ", each byte of its ", found.checkpoint.slices.size(),
                      " slices checked:\n", LedgerLines(found.ledger),
                      TallyLine("pushes of the processes that its last chief has seen: ", kPushTallies, found.tallies),
                      TallyLine("in the whole job: ", kJobTallies, found.tallies),
                      found.lost ? "LOST: the job has succeeded without the samples that are open\n" : "",
                      found.lost || doubled ? "" : "nothing lost, nothing doubled\n");
}

std::string Document(const LedgerFindings& found) {
  Json epochs = Json::array();
  for (const auto& [epoch, samples] : found.ledger.everywhere) {
    epochs.push_back(
        {{"epoch", epoch + 1}, {"samples", found.ledger.SamplesOf(epoch)}, {"samplesEverywhere", samples}});
  }
  uint64_t doubled = 0;
  for (const auto& [slice, pushes] : found.ledger.doubled) doubled += pushes;
  const Json json = {{"checkpoint", ToString(found.checkpoint.manifest.round)},
                     {"slices", found.checkpoint.slices.size()},
                     {"epochs", found.ledger.epochs},
                     {"samplesPerEpoch", found.ledger.samples.rbegin()->second},
                     {"begun", std::move(epochs)},
                     {"complete", found.ledger.complete()},
                     {"lost", found.lost},
                     {"doubled", doubled},
                     {"pushesWithoutEffect", found.ledger.without_effect},
                     {"counts", found.tallies}};
  return json.dump(2) + "\n";
}

int RunLedger(const LedgerOptions& options, Streams streams) {
  std::string job_dir = options.source.job_dir;
  const absl::StatusOr<Answer> answer = StatusAsker(options.source).Ask();
  if (!answer.ok() && job_dir.empty()) {
    return Complain(streams, "ledger", std::string(answer.status().message()), ExitCodeOf(answer.status()));
  }
  if (job_dir.empty()) job_dir = answer->status->chief.job_dir;
  std::vector<std::string> passed_over;
  absl::StatusOr<LoadedCheckpoint> checkpoint = LoadCheckpoint(job_dir, "", &passed_over);
  for (const std::string& sentence : passed_over) Complain(streams, "ledger", sentence, kExitDone);
  if (!checkpoint.ok()) return Complain(streams, "ledger", std::string(checkpoint.status().message()), kExitFailed);
  if (answer.ok() && answer->summary && !answer->summary->stopped_early.empty()) {
    const auto planned = static_cast<uint64_t>(checkpoint->job.training.epochs);
    checkpoint->job.training.epochs = static_cast<int64_t>(std::min(answer->summary->epochs.value_or(0), planned));
  }
  Ledger ledger = MakeLedger(*checkpoint);
  LedgerFindings found{*std::move(checkpoint), std::move(ledger), Json::object()};
  if (answer.ok()) {
    found.tallies = TalliesOf(*answer);
    found.lost = !found.ledger.complete() && answer->summary && answer->summary->state == "SUCCEEDED";
  } else {
    Complain(streams, "ledger", "counts are unknown: " + std::string(answer.status().message()), kExitFailed);
  }
  streams.out << (options.json ? Document(found) : Words(found));
  return found.lost || !found.ledger.doubled.empty() ? kExitFailed : kExitDone;
}

std::function<int()> SetUpLedger(CLI::App& app, Streams streams) {
  auto options = std::make_shared<LedgerOptions>();
  AddSourceOptions(app, &options->source);
  AddFormatOption(app, "table or json", &options->json);
  app.footer("Reads the newest valid checkpoint: with --chief the job folder has to be seen from here too.\n" +
             app.get_footer());
  return [options, streams] { return RunLedger(*options, streams); };
}

}  // namespace

const Verb kLedgerVerb = {"ledger", "Show that every sample took effect exactly once on every slice",
                          "  downpour ledger --job-dir runs/first\n"
                          "  downpour ledger --chief h0:7000 -o json\n",
                          "0 nothing is lost or doubled, 1 something is, 69 the chief cannot be reached", SetUpLedger};

}  // namespace downpour
