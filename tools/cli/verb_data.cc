#include <CLI/CLI.hpp>
#include <memory>

#include "tools/cli/verbs.h"
#include "tools/digits.h"

namespace downpour {
namespace {

struct DataOptions {
  std::string out;
  uint64_t seed = 1;
  bool hard = false;
};

std::function<int()> SetUpData(CLI::App& app, Streams streams) {
  auto options = std::make_shared<DataOptions>();
  CLI::App* digits = app.add_subcommand("digits", "Draw 60,000 + 10,000 images of digits as IDX files");
  digits->add_option("--out", options->out, "Folder for the four files; made if need be")->required();
  digits->add_option("--seed", options->seed, "Another seed draws another set; the same one the same bytes")
      ->capture_default_str();
  digits->add_flag("--hard", options->hard, "Faint and bent, on strong noise: the sample model stays below 90 %");
  app.require_subcommand(1);
  return [options, streams]() -> int {
    const absl::Status status =
        WriteDigits(options->out, options->seed, options->hard ? Difficulty::kHard : Difficulty::kUsual);
    if (!status.ok()) {
      return Complain(streams, "data digits", std::string(status.message()), kExitFailed);
    }
    streams.out << options->out << "\n";
    return kExitDone;
  };
}

}  // namespace

const Verb kDataVerb = {"data", "Draw a data set, so that nothing need be downloaded",
                        "  downpour data digits --out digits\n", "0 done, 1 it cannot be written", SetUpData};

}  // namespace downpour
