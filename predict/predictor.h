// Predictor: a trained model that answers, whatever computes it.
//
//   const absl::StatusOr<std::shared_ptr<const Predictor>> predictor = OpenPredictor("runs/first", {});
//   const absl::StatusOr<OutputBatch> answer = (*predictor)->Predict(batch);
//
// Order: an answer is of one state of the model. A predictor of a checkpoint never changes; another checkpoint is
//   another predictor, and the old one goes with its last reader. That of a model in training (live_feed.h) takes the
//   newest state at the beginning of each answer.
// Errors: of Predict: INVALID_ARGUMENT for rows that do not fit, with row (from 0), column and remedy; OUT_OF_RANGE for
//   more rows than most_rows(); INTERNAL where the model's own numbers are not finite; what the batch's may_go_on says;
//   of predictors with other processes behind them also UNAVAILABLE and DEADLINE_EXCEEDED. Never a part of an answer.
// Threads: any, at the same time.
// Tests: tests/unit/predict/predictor_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "job/data_spec.h"
#include "predict/batch.h"

namespace downpour {

// What a column's values are for the model. Texts that hold numbers are taken for numbers too, and numbers for words.
enum class InputKind {
  kNumber,   // floats
  kInteger,  // whole numbers of 64 bits, which are keys
  kText,     // words, or texts that are keys
};

struct SignatureInput {
  std::string name;
  InputKind kind = InputKind::kNumber;
  int64_t width = 1;                // values of a row: of numbers just so many, of keys at most so many
  bool is_list = false;             // a row may have a list of them
  bool is_needed = false;           // a value that is missing, or a column that is absent, is an error
  std::optional<double> fill = {};  // of numbers: what one that is missing becomes
};

enum class OutputKind { kNumber, kInteger, kText };

struct SignatureOutput {
  std::string name;  // probabilities, scores, prediction, class or label
  OutputKind kind = OutputKind::kNumber;
  int64_t width = 1;
};

struct Signature {
  std::vector<SignatureInput> inputs;
  std::vector<SignatureOutput> outputs;
  std::vector<std::string> passed_over = {};  // columns that rows may have and that the model does not read; ascending

  // The place of an input. Of a model with one input "input" and "" stand for it too. Nothing: there is no such one.
  std::optional<size_t> Find(std::string_view name) const;
  bool PassesOver(std::string_view name) const;
  // INVALID_ARGUMENT for a name that is neither.
  absl::Status NoSuchInput(std::string_view name) const;
};

// Rows that are any JSON, as the user's own code answers them.
class InstancePredictor {
 public:
  virtual ~InstancePredictor() = default;

  // `instances`: a JSON list of so many. A list of as many predictions.
  virtual absl::StatusOr<nlohmann::json> PredictInstances(std::string_view instances, size_t count) const = 0;
  // As of WarmUp.
  virtual absl::Status AnswerExample() const = 0;
  // Nobody is answered from now on, and AnswerExample returns soon. Any thread may say so at any time.
  virtual void End() const {}
};

class Predictor {
 public:
  virtual ~Predictor() = default;

  virtual absl::StatusOr<OutputBatch> Predict(const InputBatch& batch) const = 0;
  virtual const Signature& signature() const = 0;
  // Of the job that was trained.
  virtual const std::string& model_name() const = 0;
  // Where it comes from, for people: runs/first/checkpoints/1-4.
  virtual const std::string& origin() const = 0;
  virtual size_t most_rows() const = 0;  // of one batch
  // Of a model that takes any JSON and whose signature says nothing; null: it is another one. The columns of a batch
  // are inputs of its instances then, by their names.
  virtual const InstancePredictor* instances() const { return nullptr; }
  // How files of its rows are read: as the job's data were. Null: they are JSON lines.
  virtual const DataSpec* data() const { return nullptr; }
  // Of a model that is being trained: how many seconds ago its values were asked of the servers. All that had been
  // applied there by then is in them. Nothing: they do not change.
  virtual std::optional<double> age_seconds() const { return std::nullopt; }
  // The memory of its parameters and its rows of tables, without that of answers under way.
  virtual uint64_t bytes_held() const = 0;
};

// OUT_OF_RANGE for a request that has more rows than `most`.
absl::Status TooManyRows(size_t most);

// Asks for one row of zeros and empty words, or for the example of the user's code, so that a version that cannot
// answer is not put to use.
absl::Status WarmUp(const Predictor& predictor);

}  // namespace downpour
