#include "tools/cli/data_rows.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "data/dataset.h"
#include "job/job_file.h"
#include "runtime/exit_code.h"
#include "runtime/posix/job_file.h"

namespace downpour {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostSaid = 4096;  // bytes of an error

struct ColumnKind {
  const char* name;
  size_t bytes;  // of a value
};

ColumnKind KindOf(ColumnType type) {
  switch (type) {
    case ColumnType::kBytes:
      return {"uint8", 1};
    case ColumnType::kFloat:
      return {"float32", sizeof(float)};
    case ColumnType::kInt64:
      break;
  }
  return {"int64", sizeof(int64_t)};
}

absl::StatusOr<std::unique_ptr<Dataset>> Open(const Json& asked, DataSpec* data) {
  if (!asked.is_object() || !asked.contains("data")) {
    return absl::InvalidArgumentError("the first line is no JSON with what is to be read: install one version of all");
  }
  const auto read = [](const std::string& named, bool) { return ReadNamedText(named); };
  DataSectionResult section = ParseDataSection(asked["data"].dump(), read);
  if (!section.errors.empty()) return absl::InvalidArgumentError(ToString(section.errors.front()));
  *data = std::move(section.data);
  LabelSpec& label = data->label;
  label.is_number = asked.value("labelsAreNumbers", false);
  if (label.is_number && !label.classes.empty()) {
    return absl::InvalidArgumentError("data.label.classes: labels that are numbers have no classes; leave them out");
  }
  if (!label.is_number && (label.mean != 0 || label.deviation != 1)) {
    return absl::InvalidArgumentError("data.label.scale: is for labels that are numbers; say so, or leave it out");
  }
  if (label.is_set()) {
    label.outputs = static_cast<int64_t>(label.is_multiple ? label.classes.size() : label.of_outputs.size());
  }
  if (label.is_set() && label.is_number) {
    return absl::InvalidArgumentError("data.label: a set of classes is no number; leave out that labels are numbers");
  }
  if (label.is_set() && label.outputs == 0) {
    return absl::InvalidArgumentError("data.label.classes: is missing: no model says how many classes there are");
  }
  if (data->is_weighted()) {
    return absl::InvalidArgumentError("data.weight: rows have no weights; make a column of the field");
  }
  return OpenDataset(*data, data->train);
}

Json Description(const Dataset& rows, const DataSpec& data) {
  Json columns = Json::array();
  for (const Column& column : rows.columns()) {
    columns.push_back({{"name", column.name},
                       {"type", KindOf(column.type).name},
                       {"width", column.width},
                       {"categories", column.categories}});
  }
  return {{"rows", rows.size()},
          {"columns", columns},
          {"hasLabel", FindColumn(rows, kLabelColumn).has_value()},
          {"blockExamples", data.block_examples},
          {"fingerprint", absl::StrFormat("%016x", rows.fingerprint())}};
}

// False: there is no further question, or not the whole of one.
bool ReadQuestion(std::istream& questions, std::vector<uint64_t>* ids) {
  uint32_t count = 0;
  if (!questions.read(reinterpret_cast<char*>(&count), sizeof(count)) || count > kMostAsked) return false;
  ids->resize(count);
  return static_cast<bool>(
      questions.read(reinterpret_cast<char*>(ids->data()), static_cast<std::streamsize>(count * sizeof(uint64_t))));
}

class RowReader {
 public:
  explicit RowReader(const Dataset& rows) : rows_(rows), columns_(rows.columns().size()), values_(columns_.size()) {
    std::iota(columns_.begin(), columns_.end(), size_t{0});
    for (const Column& column : rows.columns()) {
      row_bytes_ += static_cast<uint64_t>(column.width) * KindOf(column.type).bytes;
    }
  }

  absl::Status Read(const std::vector<uint64_t>& ids) {
    if (row_bytes_ * ids.size() > kMostAnswer) {
      return absl::InvalidArgumentError(absl::StrCat(ids.size(), " rows of ", row_bytes_, " bytes are more than ",
                                                     kMostAnswer, " at once; ask for fewer"));
    }
    return rows_.ReadBatch(ids, columns_, absl::MakeSpan(values_));
  }

  void Write(std::ostream& answers) const {
    const auto put = [&](const auto& column) {
      answers.write(reinterpret_cast<const char*>(column.data()),
                    static_cast<std::streamsize>(column.size() * sizeof(column[0])));
    };
    for (const ColumnValues& column : values_) std::visit(put, column);
  }

 private:
  const Dataset& rows_;
  std::vector<size_t> columns_;  // all, in their order
  std::vector<ColumnValues> values_;
  uint64_t row_bytes_ = 0;
};

void PutCount(uint32_t count, std::ostream& answers) {
  answers.write(reinterpret_cast<const char*>(&count), sizeof(count));
}

}  // namespace

int AnswerRows(std::istream& questions, std::ostream& answers) {
  std::string line;
  std::getline(questions, line);
  DataSpec data;
  const absl::StatusOr<std::unique_ptr<Dataset>> rows = Open(Json::parse(line, nullptr, false), &data);
  const Json said = rows.ok() ? Description(**rows, data) : Json({{"error", std::string(rows.status().message())}});
  answers << said.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n" << std::flush;
  if (!rows.ok()) return kExitFailed;
  RowReader reader(**rows);
  std::vector<uint64_t> ids;
  while (ReadQuestion(questions, &ids)) {
    const absl::Status status = reader.Read(ids);
    const std::string wrong = std::string(status.message().substr(0, kMostSaid));
    PutCount(static_cast<uint32_t>(status.ok() ? 0 : std::max<size_t>(1, wrong.size())), answers);
    if (status.ok()) {
      reader.Write(answers);
    } else {
      answers << (wrong.empty() ? "?" : wrong);
    }
    if (!answers.flush()) return kExitFailed;  // nobody reads them any more
  }
  return kExitDone;
}

}  // namespace downpour
