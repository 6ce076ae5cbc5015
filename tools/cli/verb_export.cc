#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "job/job_file.h"
#include "schema/text.h"
#include "tools/cli/checkpoint_option.h"
#include "tools/cli/onnx_export.h"
#include "tools/cli/safetensors.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

struct ExportOptions {
  std::string format = "safetensors";
  CheckpointOption checkpoint;
  std::string out;
};

absl::Status WriteVariables(const LoadedCheckpoint& checkpoint, const std::string& path) {
  const std::map<std::string, std::string> metadata = {{"format", "downpour"},
                                                       {"job", CanonicalJob(checkpoint.job)},
                                                       {"checkpoint", ToString(checkpoint.manifest.round)}};
  std::vector<SafeTensor> tensors;
  for (const VariableSpec& variable : checkpoint.grid.variables) tensors.push_back({variable.name, variable.shape});
  SafetensorsFile file(path, tensors, metadata);
  for (size_t s = 0; s < checkpoint.grid.dense(); ++s) {
    file.Append(checkpoint.grid.slices[s].variable, checkpoint.slices[s].values.bytes());
  }
  return file.Commit();
}

int RunExport(const ExportOptions& options, Streams streams) {
  const std::optional<LoadedCheckpoint> checkpoint = LoadChosen(options.checkpoint, "export", streams);
  if (!checkpoint) return kExitFailed;
  const auto write = options.format == "onnx" ? ExportAsOnnx : WriteVariables;
  const absl::Status status = write(*checkpoint, options.out);
  if (!status.ok()) {
    return Complain(streams, "export", std::string(status.message()), kExitFailed);
  }
  streams.err << "exported " << checkpoint->path << "\n";
  if (const size_t tables = checkpoint->job.model.tables.size(); tables > 0) {
    streams.err << "left out: the rows of " << Counted(tables, "table") << "; downpour table export writes them\n";
  }
  streams.out << options.out << "\n";
  return kExitDone;
}

std::function<int()> SetUpExport(CLI::App& app, Streams streams) {
  auto options = std::make_shared<ExportOptions>();
  app.add_option("--format", options->format, "File format")
      ->check(CLI::IsMember({"safetensors", "onnx"}))
      ->capture_default_str();
  AddCheckpointOption(app, &options->checkpoint);
  app.add_option("--out", options->out, "The file to write; replaced in one piece")->required()->type_name("FILE");
  return [options, streams] { return RunExport(*options, streams); };
}

}  // namespace

const Verb kExportVerb = {"export", "Write the parameters of a checkpoint for other programs",
                          "  downpour export --job-dir runs/first --out model.safetensors\n"
                          "  downpour export --job-dir runs/first --checkpoint best --out model.safetensors\n"
                          "  downpour export --format onnx --job-dir runs/first --out model.onnx\n",
                          "0 done, 1 there is no valid checkpoint, or the file cannot be written", SetUpExport};

}  // namespace downpour
