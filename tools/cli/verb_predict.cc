#include <CLI/CLI.hpp>
#include <future>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "predict/live_feed.h"
#include "predict/open_predictor.h"
#include "predict/predict_file.h"
#include "predict/predict_json.h"
#include "tools/cli/checkpoint_option.h"
#include "tools/cli/new_file.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

struct PredictOptions {
  std::string origin;
  std::string checkpoint;
  bool best = false;
  bool live = false;
  std::string input;
  std::string format;
  std::string instances;
  std::string output;
  std::string to;
  bool signature = false;
  std::string python = PythonServing().interpreter;
};

// By what the job's servers hold now, or by the last checkpoint of one that is over. `feed` outlives it.
absl::StatusOr<std::shared_ptr<const Predictor>> OpenLive(const PredictOptions& options, const PredictorOptions& open,
                                                          std::unique_ptr<LiveFeed>* feed,
                                                          std::vector<std::string>* notes) {
  if (IsLiveJobOver(options.origin)) {
    notes->push_back(absl::StrCat("the job of ", options.origin, " is over: its newest checkpoint answers"));
    return OpenPredictor(options.origin, open, notes);
  }
  using Opened = absl::StatusOr<std::shared_ptr<const Predictor>>;
  const auto first = std::make_shared<std::promise<Opened>>();
  auto opened = LiveFeed::Open(options.origin, {},
                               {.on_first = [first](Opened found) { first->set_value(std::move(found)); },
                                .on_end = [](const LiveEnd&) {}});
  if (!opened.ok()) return opened.status();
  *feed = *std::move(opened);
  return first->get_future().get();
}

int RunPredict(const PredictOptions& options, Streams streams) {
  const auto fail = [&](const absl::Status& status) {
    return Complain(streams, "predict", std::string(status.message()), kExitFailed);
  };
  PredictorOptions open;
  open.checkpoint = options.best ? kBestCheckpoint : options.checkpoint;
  open.python.interpreter = options.python;
  std::vector<std::string> notes;
  std::unique_ptr<LiveFeed> feed;
  const auto predictor =
      options.live ? OpenLive(options, open, &feed, &notes) : OpenPredictor(options.origin, open, &notes);
  for (const std::string& note : notes) Complain(streams, "predict", note, kExitDone);
  if (!predictor.ok()) return fail(predictor.status());
  streams.err << "predicting by " << (*predictor)->origin() << "\n";
  if (options.signature) {
    streams.out << SignatureJson((*predictor)->signature()) << "\n";
    return kExitDone;
  }
  PredictFileOptions file;
  file.input = options.instances.empty() ? options.input : options.instances;
  file.is_instances = !options.instances.empty();
  file.format = options.format;
  file.as_csv = options.to == "csv" || (options.to.empty() && absl::EndsWith(options.output, ".csv"));
  std::optional<NewFile> output;
  if (!options.output.empty()) output.emplace(options.output);
  uint64_t bytes = 0;
  const auto write = [&](std::string_view text) {
    if (output) {
      output->WriteAt(std::exchange(bytes, bytes + text.size()),
                      {reinterpret_cast<const std::byte*>(text.data()), text.size()});
      return absl::OkStatus();
    }
    streams.out << text << std::flush;
    return streams.out ? absl::OkStatus() : absl::UnavailableError("cannot write to stdout");
  };
  const absl::StatusOr<uint64_t> rows = PredictFile(**predictor, file, write);
  if (!rows.ok()) return fail(rows.status());
  if (absl::Status written = output ? output->Commit() : absl::OkStatus(); !written.ok()) return fail(written);
  streams.err << *rows << (*rows == 1 ? " row\n" : " rows\n");
  return kExitDone;
}

std::function<int()> SetUpPredict(CLI::App& app, Streams streams) {
  auto options = std::make_shared<PredictOptions>();
  app.add_option("origin", options->origin, "A job's folder, one of its checkpoints, or a file of downpour export")
      ->required()
      ->type_name("ORIGIN");
  auto* const checkpoint =
      app.add_option("--checkpoint", options->checkpoint, "Which of the folder's; the newest by default")
          ->type_name("TERM-N|best")
          ->check(CheckRound);
  auto* const best = app.add_flag("--best", options->best, "The checkpoint of the best evaluation");
  best->excludes(checkpoint);
  app.add_flag("--live", options->live, "What the servers of the folder's job hold now, while it trains")
      ->excludes(checkpoint)
      ->excludes(best);
  auto* const input =
      app.add_option("--input", options->input, "Rows to predict, as the job's data; - is stdin")->type_name("FILE|-");
  app.add_option("--format", options->format, "What --input is, if not what the job's data are")
      ->check(CLI::IsMember({"idx", "csv", "jsonl", "libsvm", "tfrecord"}))
      ->needs(input);
  auto* const instances =
      app.add_option("--instances", options->instances, "A JSON instance on each line, as of gcloud's --json-instances")
          ->type_name("FILE|-")
          ->excludes(input);
  auto* const signature = app.add_flag("--signature", options->signature, "Say what the model takes and answers");
  signature->excludes(input)->excludes(instances);
  app.add_option("--output", options->output, "The file to write, in one piece; stdout by default")->type_name("FILE");
  app.add_option("--python", options->python, "The Python that runs the model's code, if it is Python code")
      ->envname("DOWNPOUR_PYTHON")
      ->type_name("PROGRAM")
      ->capture_default_str();
  app.add_option("--to", options->to, "What to write; csv where --output ends with .csv, else jsonl")
      ->check(CLI::IsMember({"csv", "jsonl"}));
  return [options, streams] {
    if (options->input.empty() && options->instances.empty() && !options->signature) {
      return Complain(streams, "predict", "name rows by --input FILE or --instances FILE, or say --signature",
                      kExitBadCommandLine);
    }
    return RunPredict(*options, streams);
  };
}

}  // namespace

const Verb kPredictVerb = {"predict", "Answer rows by a trained model on this machine",
                           "  downpour predict runs/first --input new.csv --output answers.csv\n"
                           "  downpour predict runs/first --best --instances rows.json\n"
                           "  downpour predict runs/first --live --instances rows.json\n"
                           "  downpour predict model.safetensors --signature\n",
                           "0 done, 1 there is no model, or a row does not fit", SetUpPredict};

}  // namespace downpour
