#include "tools/cli/data_facts.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "checkpoint/earlier_job.h"
#include "cluster/human_units.h"
#include "data/dataset.h"
#include "data/idx.h"
#include "data/sample_ids.h"
#include "job/variables.h"
#include "runtime/posix/initial_values.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr const char* kRemedy = "name whole files that belong together, and a model that fits them";

constexpr uint64_t kMostLookedAt = uint64_t{1} << 13;  // records

constexpr double kLargeBatch = 1 << 30;  // bytes

constexpr const char* kRemedyOfAbsence =
    "bring it there, or correct the path: one in the job file counts from its folder, one of --set from here";

class DataLook {
 public:
  explicit DataLook(const JobFileResult& read) : read_(read), job_(read.job) {
    if (!IsWrong("model.inputs")) width_ = InputWidth();
    if (IsWrong("model") || job_.model.layers.empty()) return;
    const absl::StatusOr<int64_t> units = InferOutputWidth(job_.model);
    if (!units.ok()) return;  // an input's shape follows from data.columns, whose fault is told
    if (*units > 1 || job_.model.loss == Loss::kSoftmaxCrossEntropy) units_ = *units;
    tells_two_ = *units == 1 && job_.model.loss == Loss::kSigmoidCrossEntropy;
    if (tells_two_) units_ = 2;  // as many classes
  }

  DataFacts Take() {
    if (!IsWrong("model") && !job_.model.initialize_from.empty()) LookAtInitialValues();
    if (IsWrong("data.format")) return std::move(facts_);
    if (job_.data.format == kPythonFormat) {  // counted as the code was described
      const DataFacts counts = CountExamples(job_);
      facts_.train_examples = counts.train_examples;
      facts_.eval_examples = counts.eval_examples;
      return std::move(facts_);
    }
    const auto look_at = [this](const SetFiles& files, const char* key) -> std::optional<uint64_t> {
      if (files.empty() || IsWrong(key)) return std::nullopt;
      return job_.data.has_records() ? LookAtRecords(files, key) : LookAtPair(files, key);
    };
    facts_.train_examples = look_at(job_.data.train, "data.train");
    facts_.eval_examples = look_at(job_.data.eval, "data.eval");
    return std::move(facts_);
  }

 private:
  // Whether there is an error of the key itself or below it.
  bool IsWrong(const std::string& key) const {
    return std::any_of(read_.errors.begin(), read_.errors.end(),
                       [&](const JobError& error) { return error.key == key || error.key.starts_with(key + "."); });
  }

  // Of one input; none beyond all bounds, as a model with errors may have it.
  std::optional<int64_t> InputWidth() const {
    if (job_.model.inputs.size() != 1) return std::nullopt;
    int64_t width = 1;
    for (const int64_t size : job_.model.inputs[0].shape) {
      if (size < 1 || width > kMaxModelElements / size) return std::nullopt;
      width *= size;
    }
    return width;
  }

  void Fail(const std::string& key, const std::string& what) {
    facts_.errors.push_back(PlacedAt(read_, key, what, kRemedy));
  }

  // What of it the job begins with.
  absl::StatusOr<std::string> InitialNote() const {
    if (BeginsWithEarlierJob(job_)) {
      const absl::StatusOr<EarlierJob> earlier = EarlierJob::Open(job_);
      return earlier.ok() ? absl::StatusOr<std::string>(earlier->Note()) : earlier.status();
    }
    const absl::StatusOr<InitialValuesFile> file = InitialValuesFile::Open(job_);
    const absl::Status status = file.ok() ? file->CheckValues() : file.status();
    return status.ok() ? absl::StatusOr<std::string>(file->Note()) : status;
  }

  void LookAtInitialValues() {
    const absl::StatusOr<std::string> note = InitialNote();
    const absl::Status& status = note.status();
    const bool is_folder = BeginsWithEarlierJob(job_);
    if (status.ok()) {
      facts_.initial_values = *note;
    } else if (is_folder) {
      facts_.errors.push_back(PlacedAt(read_, kInitializeFrom, std::string(status.message()),
                                       "name a job folder whose newest checkpoint is whole, or a safetensors file"));
    } else if (absl::IsNotFound(status)) {
      const std::string what = job_.model.initialize_from + " is not on this machine";
      facts_.initial_values = what + "; the chief's must have it";
      facts_.absences.push_back(PlacedAt(read_, kInitializeFrom, what, kRemedyOfAbsence));
    } else {
      facts_.errors.push_back(
          PlacedAt(read_, kInitializeFrom, std::string(status.message()),
                   "name a whole file of finite values whose tensors have names and shapes of the model's variables"));
    }
  }

  // The examples of one pair of files, which stand under `key`.
  std::optional<uint64_t> LookAtPair(const SetFiles& files, const std::string& key) {
    const std::string images_key = key + ".images", labels_key = key + ".labels";
    const auto images = ReadIdxSizes(files.images, 3);
    const auto labels = ReadIdx(files.labels, 1);
    for (const auto& [at, file, status] : {std::tuple(images_key, files.images, images.status()),
                                           std::tuple(labels_key, files.labels, labels.status())}) {
      if (absl::IsNotFound(status)) {
        facts_.absent.push_back(file);
        facts_.absences.push_back(PlacedAt(read_, at, file + " is not on this machine", kRemedyOfAbsence));
      } else if (!status.ok()) {
        Fail(at, std::string(status.message()));
      }
    }
    if (images.ok() && width_ && int64_t{images->at(1)} * images->at(2) != *width_) {
      Fail(images_key, absl::StrCat(files.images, " holds images of ", images->at(1), "x", images->at(2),
                                    ", but the model's input takes ", *width_, " values"));
    }
    if (labels.ok()) CountClasses(labels->elements, files.labels, labels_key);
    if (!images.ok() || !labels.ok()) return std::nullopt;
    if (images->at(0) != labels->sizes[0]) {
      Fail(labels_key, absl::StrCat(files.images, " holds ", images->at(0), " images, but ", files.labels, " ",
                                    labels->sizes[0], " labels"));
    }
    return images->at(0);
  }

  // Of one set, whose columns and labels a sample is read of.
  std::optional<uint64_t> LookAtRecords(const SetFiles& files, const std::string& key) {
    for (const char* wrong : {"data.columns", "data.label", "data.weight", "data.fields", "data.separator"}) {
      if (IsWrong(wrong)) return std::nullopt;
    }
    const absl::StatusOr<std::unique_ptr<Dataset>> data = OpenDataset(job_.data, files);
    if (absl::IsNotFound(data.status())) {
      facts_.absent.push_back(absl::StrJoin(files.files, ", "));
      facts_.absences.push_back(PlacedAt(read_, key, std::string(data.status().message()), kRemedyOfAbsence));
      return std::nullopt;
    }
    std::vector<size_t> columns(job_.data.columns.size() + 1);
    std::iota(columns.begin(), columns.end(), 0);
    std::vector<ColumnValues> values(columns.size());
    absl::Status status = data.status();
    if (status.ok())
      status = (*data)->ReadBatch(SampleIds((*data)->size(), kMostLookedAt), columns, absl::MakeSpan(values));
    if (!status.ok()) {
      facts_.errors.push_back(PlacedAt(read_, key, std::string(status.message()), ""));
      return std::nullopt;
    }
    if ((*data)->size() == 0) {
      const char* const why = job_.data.skip > 0 ? "has no record that can be read" : "has no records";
      facts_.errors.push_back(PlacedAt(read_, key, why, "name files with examples"));
      return std::nullopt;
    }
    const auto* labels = std::get_if<std::vector<int64_t>>(&values.back());
    if (key == "data.train") WarnOfWidth();
    if (labels != nullptr && !labels->empty()) CountClasses(*labels, absl::StrJoin(files.files, ", "), key);
    return (*data)->size();
  }

  // Categories are one-hot in a batch.
  void WarnOfWidth() {
    int64_t width = 0;
    for (const InputSpec& input : job_.model.inputs) width += input.shape.empty() ? 0 : input.shape[0];
    const double bytes = static_cast<double>(width) * static_cast<double>(job_.training.batch_size) * sizeof(float);
    if (bytes <= kLargeBatch) return;
    facts_.warnings.push_back(PlacedAt(read_, "model.inputs",
                                       absl::StrCat("an example has ", width, " numbers, most of them 0, and a batch ",
                                                    HumanBytes(bytes), " of each worker's memory"),
                                       "read categories by embedding layers, hash to fewer, or make batches smaller"));
  }

  // Too many units learn that the others never come.
  template <typename Label>
  void CountClasses(const std::vector<Label>& labels, const std::string& file, const std::string& key) {
    const auto [least, most] = std::minmax_element(labels.begin(), labels.end());
    const int64_t classes = int64_t{*most} + 1;
    const bool is_train = key.starts_with("data.train"), is_one = *least == *most && is_train;
    if (!units_ || (classes == *units_ && !is_one) || (classes < *units_ && !is_train)) return;
    const std::string held = is_one ? absl::StrCat("of one class alone, ", classes - 1)
                                    : absl::StrCat("of ", classes, " classes (0 to ", classes - 1, ")");
    const std::string what =
        absl::StrCat(file, " holds labels ", held, ", but ", OutputPlace(), ", the model's output, has ",
                     tells_two_ ? "1 unit, which tells two classes from each other" : Counted(*units_, "unit"));
    if (classes > *units_) return Fail(key, what);
    facts_.warnings.push_back(PlacedAt(read_, key, what,
                                       is_one ? "name labels of all classes: of one alone there is nothing to learn"
                                              : absl::StrCat("give it ", classes, ", unless more are to come")));
  }

  // model.layers.2 (job.yaml:5)
  std::string OutputPlace() const {
    const std::string layer = absl::StrCat("model.layers.", job_.model.layers.size() - 1);
    const auto first = read_.origins.lower_bound(layer + ".");
    if (first == read_.origins.end() || !first->first.starts_with(layer + ".")) return layer;
    return absl::StrCat(layer, " (", first->second, ")");
  }

  const JobFileResult& read_;
  const JobSpec& job_;
  std::optional<int64_t> width_;  // of an example, as the model takes it
  std::optional<int64_t> units_;  // of the model's output, where they stand for classes
  bool tells_two_ = false;        // by one unit
  DataFacts facts_;
};

}  // namespace

JobError PlacedAt(const JobFileResult& read, const std::string& key, std::string what, std::string remedy) {
  const auto origin = read.origins.find(key);
  return {.file = origin == read.origins.end() ? "" : origin->second,
          .key = key,
          .what = std::move(what),
          .remedy = std::move(remedy)};
}

DataFacts CountExamples(const JobSpec& job) {
  const auto count = [&](const SetFiles& files, int64_t by_code) -> std::optional<uint64_t> {
    if (job.data.format == kPythonFormat && by_code > 0) return static_cast<uint64_t>(by_code);
    if (job.data.format == kPythonFormat || files.empty()) return std::nullopt;
    if (job.data.has_records()) return std::nullopt;
    const absl::StatusOr<std::vector<uint32_t>> sizes = ReadIdxHeader(files.images, 3);
    return sizes.ok() ? std::optional<uint64_t>(sizes->at(0)) : std::nullopt;
  };
  DataFacts facts;
  facts.train_examples = count(job.data.train, job.data.train_examples);
  facts.eval_examples = count(job.data.eval, job.data.eval_examples);
  return facts;
}

DataFacts LookAtData(const JobFileResult& read) { return DataLook(read).Take(); }

}  // namespace downpour
