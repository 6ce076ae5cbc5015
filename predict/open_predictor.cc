#include "predict/open_predictor.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/table_reader.h"
#include "predict/exported_model.h"
#include "predict/job_predictor.h"
#include "predict/python_predictor.h"
#include "runtime/posix/initial_values.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using Opened = absl::StatusOr<std::shared_ptr<const Predictor>>;

constexpr int kTries = 3;                          // a running job may remove a checkpoint that is read
constexpr int64_t kMostAtOnce = int64_t{1} << 20;  // numbers of an exported tensor

absl::StatusOr<std::vector<TableRows>> ReadTables(const Checkpoint& checkpoint) {
  std::vector<TableRows> tables;
  for (const TableSpec& spec : TablesOf(checkpoint.job)) tables.emplace_back(spec);
  const auto for_each = [&](const auto& use) {
    absl::Status status;
    for (uint32_t bucket = 0; bucket < checkpoint.grid.buckets && status.ok(); ++bucket) {
      status = ReadTableParts(checkpoint, bucket, [&](const TableSpec& spec, const TablePart& part) {
        absl::Status taken;
        for (uint32_t i = 0; i < part.header.rows && taken.ok(); ++i) taken = use(tables[spec.id], part, i);
        return taken;
      });
    }
    return status;
  };
  absl::Status status = for_each([](TableRows& table, const TablePart& part, uint32_t i) {
    table.Count(part.Row(i).key);
    return absl::OkStatus();
  });
  for (TableRows& table : tables) status.Update(status.ok() ? table.Allocate() : status);
  if (status.ok()) {
    status = for_each([](TableRows& table, const TablePart& part, uint32_t i) {
      return table.Add(part.Row(i).key, part.Content(i));
    });
  }
  for (TableRows& table : tables) status.Update(status.ok() ? table.Finish() : status);
  if (status.ok()) return tables;
  return absl::Status(status.code(), absl::StrCat(checkpoint.path, ": ", status.message()));
}

Opened OpenOwnCode(const LoadedCheckpoint& checkpoint, const std::string& job_dir, const PredictorOptions& options) {
  absl::StatusOr<std::vector<TableRows>> tables = ReadTables(checkpoint);
  if (!tables.ok()) return tables.status();
  auto predictor = PythonPredictor::Open(checkpoint, *std::move(tables), job_dir, options.python, options.most_rows);
  if (!predictor.ok()) return predictor.status();
  return *std::move(predictor);
}

Opened OpenLoaded(const LoadedCheckpoint& checkpoint, const PredictorOptions& options) {
  auto predictor = JobPredictor::Create(checkpoint.job, checkpoint.path, options.most_rows);
  if (!predictor.ok()) return predictor.status();
  for (size_t i = 0; i < checkpoint.grid.dense(); ++i) {
    const Slice& slice = checkpoint.grid.slices[i];
    const absl::Status set =
        (*predictor)->SetParameters(slice.variable, slice.offset, checkpoint.slices[i].values.floats());
    if (!set.ok()) return set;
  }
  absl::StatusOr<std::vector<TableRows>> tables = ReadTables(checkpoint);
  if (!tables.ok()) return tables.status();
  (*predictor)->SetTables(*std::move(tables));
  return *std::move(predictor);
}

Opened OpenFolder(const std::string& job_dir, const std::string& round, const PredictorOptions& options,
                  std::vector<std::string>* notes) {
  Opened opened;
  for (int i = 0; i < kTries; ++i) {
    std::vector<std::string> passed_over;
    const absl::StatusOr<LoadedCheckpoint> checkpoint = LoadCheckpoint(job_dir, round, &passed_over);
    if (notes != nullptr) *notes = std::move(passed_over);
    if (!checkpoint.ok()) return checkpoint.status();
    opened =
        checkpoint->job.model.is_own() ? OpenOwnCode(*checkpoint, job_dir, options) : OpenLoaded(*checkpoint, options);
    std::error_code ignored;
    if (opened.ok() || fs::exists(checkpoint->path, ignored)) break;
  }
  return opened;
}

Opened OpenExported(const std::string& path, const PredictorOptions& options) {
  const absl::StatusOr<JobSpec> job = JobOfExport(path);
  if (!job.ok()) return job.status();
  if (job->model.is_own()) {
    return absl::UnimplementedError(
        absl::StrCat(path, " is of Python code, which it lacks: name the job's folder, or one of its checkpoints"));
  }
  if (job->model.has_tables()) {
    return absl::UnimplementedError(
        absl::StrCat(path, " has no rows of the model's tables: name the job's folder, or one of its checkpoints"));
  }
  const absl::StatusOr<InitialValuesFile> file = InitialValuesFile::Open(*job);
  if (!file.ok()) return file.status();
  if (!file->missing().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": lacks ", absl::StrJoin(file->missing(), ", ")));
  }
  auto predictor = JobPredictor::Create(*job, path, options.most_rows);
  if (!predictor.ok()) return predictor.status();
  const absl::StatusOr<std::vector<VariableSpec>> variables = InferVariables(job->model);
  if (!variables.ok()) return variables.status();
  std::vector<float> values;
  for (size_t variable = 0; variable < variables->size(); ++variable) {
    const VariableSpec& spec = (*variables)[variable];
    for (int64_t first = 0; first < spec.elements(); first += kMostAtOnce) {
      values.resize(static_cast<size_t>(std::min(kMostAtOnce, spec.elements() - first)));
      absl::Status status = file->Read(spec.name, first, absl::MakeSpan(values));
      if (status.ok()) status = (*predictor)->SetParameters(variable, first, values);
      if (!status.ok()) return status;
    }
  }
  return *std::move(predictor);
}

}  // namespace

Opened OpenPredictor(const std::string& origin, const PredictorOptions& options, std::vector<std::string>* notes) {
  std::error_code error;
  const fs::file_status about = fs::status(origin, error);
  if (fs::is_regular_file(about)) return OpenExported(origin, options);
  if (!fs::is_directory(about)) {
    return absl::NotFoundError(absl::StrCat(
        origin, error ? ": " + error.message() : " is no file or folder",
        ": name a job's folder, one of its checkpoints (FOLDER/checkpoints/1-4), or a file of `downpour export`"));
  }
  const fs::path folder = (fs::path(origin) / "").parent_path();  // without the slash at its end
  const std::string round = folder.filename().string();
  if (!fs::exists(folder / kManifestName, error) || folder.parent_path().filename() != kCheckpointsDir) {
    return OpenFolder(folder.string(), options.checkpoint, options, notes);
  }
  if (!options.checkpoint.empty() && options.checkpoint != round) {
    return absl::InvalidArgumentError(absl::StrCat(
        origin, " is a checkpoint: name the job's folder to choose checkpoint ", options.checkpoint, " of it"));
  }
  return OpenFolder(folder.parent_path().parent_path().string(), round, options, notes);
}

}  // namespace downpour
