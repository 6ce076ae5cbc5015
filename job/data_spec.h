// What a job file says of its data: files, and how their records become the columns that a model reads.
//
// docs/DATA.md has it with examples, docs/JOB_FILE.md key by key. Read by job_parse_data.cc.
//
// Tests: tests/unit/job/job_data_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace downpour {

// One of the two sets of a job.
struct SetFiles {
  std::string images;  // of format idx, as is the next
  std::string labels;
  std::vector<std::string> files = {};  // of formats with records: paths, whose last parts may be patterns (*, ?, [])
  bool empty() const { return images.empty() && labels.empty() && files.empty(); }
  bool operator==(const SetFiles&) const = default;
};

enum class ColumnKind { kNumber, kBuckets, kVocabulary, kHash, kKey };

// In a column of keys: none, where an example has fewer keys than others. No field can have it.
inline constexpr int64_t kNoKey = INT64_MIN;

// How a field becomes a column: a number (float), a category, one of categories() (int64 from 0), or keys of tables
// (int64, whatever they are but kNoKey).
struct ColumnSpec {
  std::string name = {};
  std::vector<std::string> from = {};  // fields; several, crossed, only for kHash and for kKey of texts
  ColumnKind kind = ColumnKind::kNumber;
  int64_t numbers =
      1;  // of a number: so many of them in its field, where the format has lists; of kKey: so many at most
  // Of each number, in this order. What is missing first becomes fill; without it, that is an error.
  std::optional<double> fill = {};
  std::optional<double> least = {}, most = {};  // it is clipped to them
  bool log = false;                             // becomes sign(x) log(1 + |x|)
  double mean = 0, deviation = 1;               // becomes (x - mean) / deviation
  // Of kBuckets, rising. Bucket i has the numbers below boundary i that are not below the one before it.
  std::vector<double> boundaries = {};
  // Of kVocabulary. A word's category is its place. What is no word here, or is missing, has the last one.
  std::vector<std::string> vocabulary = {};
  int64_t hash = 0;  // of kHash: how many categories there are. What is missing is the empty word.

  bool key_is_text = false;  // of kKey: a key is a hash of its word; else it is a whole number, as it stands

  bool is_category() const { return kind != ColumnKind::kNumber && kind != ColumnKind::kKey; }
  int64_t categories() const;                                               // 0 of a number
  int64_t width() const { return is_category() ? categories() : numbers; }  // as a model's input has it, one-hot
  bool operator==(const ColumnSpec&) const = default;
};

// What an example has to be told as: one class, a number, or a set of classes, which may be empty.
struct LabelSpec {
  std::string column = {};  // the field; empty where `of_outputs` names some, and where nothing is learned
  // The words of each class, in its order: most often one each. Empty: labels are the numbers of classes from 0.
  std::vector<std::vector<std::string>> classes = {};
  double mean = 0, deviation = 1;  // of a number: what is learned is (x - mean) / deviation
  bool is_number = false;          // what is learned is the number itself: of a squared error with one output
  // Of a set of classes, each of which is an output of sigmoidCrossEntropy: the field has any number of them,
  bool is_multiple = false;
  std::optional<char> separator = {};        // which stands between them, where it is a text,
  std::vector<std::string> of_outputs = {};  // or each output has a field of its own, of 0 and 1.
  int64_t outputs = 0;                       // how many there are; 0 of other labels
  bool is_there() const { return !column.empty() || !of_outputs.empty(); }
  bool is_set() const { return is_multiple || !of_outputs.empty(); }
  std::vector<std::string> fields() const { return column.empty() ? of_outputs : std::vector<std::string>{column}; }
  bool operator==(const LabelSpec&) const = default;
};

// In which order an epoch has its examples: runtime/plan.h.
enum class DataOrder { kExamples, kBlocks };

inline constexpr char kIdxFormat[] = "idx";
inline constexpr char kCsvFormat[] = "csv";
inline constexpr char kLibsvmFormat[] = "libsvm";
inline constexpr char kTfRecordFormat[] = "tfrecord";  // of tf.Example
inline constexpr char kJsonFormat[] = "jsonl";         // an object on each line
inline constexpr char kPythonFormat[] = "python";      // the user's Python code has the data

struct DataSpec {
  std::string format = kIdxFormat;
  SetFiles train = {};
  SetFiles eval = {};          // may be empty: no evaluation
  int64_t train_examples = 0;  // of format python only, as is the next
  int64_t eval_examples = 0;
  // Of formats with records, all that follow.
  std::vector<ColumnSpec> columns = {};  // no two of one name, none named "label"
  LabelSpec label = {};
  std::string weight = {};  // the field that says how much an example counts; empty: each counts as 1
  DataOrder order = DataOrder::kExamples;
  int64_t block_examples = 128;          // examples in a row that are read together
  int64_t skip = 0;                      // records that cannot be read may be left out, up to so many of a set
  std::optional<char> separator = {};    // of csv, as are the next; nothing: what each file seems to have
  char decimal = '.';                    // what stands in a number before its fraction: '.' or ','
  std::optional<bool> header = {};       // whether the first record has the fields' names; nothing: as it seems
  std::vector<std::string> fields = {};  // names of all fields, where files do not have them

  bool has_records() const { return format != kIdxFormat && format != kPythonFormat; }
  bool is_weighted() const { return !weight.empty(); }
  // Whether evaluations count by weights: of examples, or of the labels of a set, each a part of its example.
  bool counts_weights() const { return is_weighted() || label.is_set(); }
  bool has_eval() const { return !eval.empty() || eval_examples > 0; }
  bool operator==(const DataSpec&) const = default;
};

}  // namespace downpour
