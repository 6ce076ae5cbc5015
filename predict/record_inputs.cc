#include "predict/record_inputs.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr size_t kShown = 40;                     // bytes of a name, in an error
constexpr int64_t kMostWidth = int64_t{1} << 30;  // so that rows times width stays small

DataSpec WithoutLabel(DataSpec data) {
  data.label = {};
  data.weight.clear();
  return data;
}

std::vector<std::string> FieldsOf(const ColumnSpec& spec) {
  return spec.from.empty() ? std::vector<std::string>{spec.name} : spec.from;
}

}  // namespace

absl::StatusOr<MatchedColumns> MatchColumns(const Signature& signature, const InputBatch& batch) {
  MatchedColumns found(signature.inputs.size());
  for (const InputColumn& column : batch.columns) {
    const std::optional<size_t> place = signature.Find(column.name);
    if (!place && signature.PassesOver(column.name)) continue;
    if (!place) return signature.NoSuchInput(column.name);
    const std::string name = OneLine(column.name, kShown);
    if (found[*place] != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("column '", name, "' comes twice: leave one out"));
    }
    found[*place] = &column;
    const size_t values = std::visit([](const auto& span) { return span.size(); }, column.values);
    const int64_t width = column.values.index() == 0 ? 1 : column.width;
    if (width < 1 || width > kMostWidth || values != batch.rows * static_cast<size_t>(width)) {
      return absl::InvalidArgumentError(absl::StrCat("column '", name, "' has ", Counted(values, "value"), " for ",
                                                     Counted(batch.rows, "row"), " of width ", column.width));
    }
  }
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] != nullptr || !signature.inputs[i].is_needed) continue;
    return absl::InvalidArgumentError(absl::StrCat("column '", signature.inputs[i].name,
                                                   "' is missing: the model needs it, and has no default for it"));
  }
  return found;
}

RecordInputs::RecordInputs(const JobSpec& job) {
  DataSpec data = WithoutLabel(job.data);
  const InputLayout all(job.model, ColumnReader(data).columns());
  std::vector<ColumnSpec> used;
  for (const size_t column : all.columns()) used.push_back(data.columns[column]);
  data.columns = std::move(used);
  reader_.emplace(data);
  layout_ = InputLayout(job.model, reader_->columns());
  keys_ = KeyWidthsOf(data);
  for (const std::string& field : reader_->fields()) {
    uint32_t index = 0;
    const bool is_index = data.format == kLibsvmFormat && absl::SimpleAtoi(field, &index);
    fill_.push_back(is_index ? std::optional<double>(0) : std::nullopt);
    signature_.push_back(SignatureOf(field, data));
    if (is_index) signature_.back().is_needed = false;
  }
}

// Of several columns that read it: as words where any does, since words may hold numbers.
SignatureInput RecordInputs::SignatureOf(const std::string& field, const DataSpec& data) const {
  SignatureInput input{.name = field};
  bool is_text = false, is_key = false;
  for (const ColumnSpec& spec : data.columns) {
    const std::vector<std::string> fields = FieldsOf(spec);
    if (std::find(fields.begin(), fields.end(), field) == fields.end()) continue;
    const bool is_number = spec.kind == ColumnKind::kNumber || spec.kind == ColumnKind::kBuckets;
    is_key |= spec.kind == ColumnKind::kKey && !spec.key_is_text;
    is_text |= !is_number && (spec.kind != ColumnKind::kKey || spec.key_is_text);
    if (fields.size() == 1) input.width = std::max(input.width, spec.is_category() ? 1 : spec.numbers);
    if (!is_number) continue;
    input.fill = spec.fill;
    input.is_needed |= !spec.fill;
  }
  input.kind = is_text ? InputKind::kText : is_key ? InputKind::kInteger : InputKind::kNumber;
  input.is_list = input.width > 1;
  return input;
}

RecordInputs::Scratch RecordInputs::NewScratch(size_t rows) const {
  const std::vector<std::string>& fields = reader_->fields();
  return {.columns = reader_->Room(rows),
          .fields = std::vector<FieldValue>(fields.size()),
          .numbers = std::vector<std::vector<double>>(fields.size()),
          .items = KeyItemsFor(keys_, fields)};
}

absl::Status RecordInputs::Read(const MatchedColumns& from, size_t first, size_t rows, Scratch* scratch) const {
  for (size_t row = 0; row < rows; ++row) {
    for (size_t field = 0; field < from.size(); ++field) {
      FieldValue& value = scratch->fields[field];
      value = from[field] == nullptr ? FieldValue() : ValueAt(*from[field], first + row, field, scratch);
      if (value.index() == 0 && fill_[field]) value = *fill_[field];
      const bool is_list = std::holds_alternative<FieldList>(value) || std::holds_alternative<FieldItems>(value);
      if (is_list && signature_[field].kind == InputKind::kText && !scratch->items[field].has_keys()) {
        return absl::InvalidArgumentError(
            absl::StrCat("row ", first + row, ": field '", signature_[field].name, "' is a list: write one value"));
      }
    }
    if (absl::Status status = reader_->Take(scratch->fields, row, &scratch->columns); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat("row ", first + row, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

FieldValue RecordInputs::ValueAt(const InputColumn& column, size_t row, size_t field, Scratch* scratch) const {
  const auto width = static_cast<size_t>(column.width);
  if (const auto* values = std::get_if<absl::Span<const FieldValue>>(&column.values)) return (*values)[row];
  KeyItems& items = scratch->items[field];
  const auto keys = [&](const auto& values) {
    items.Clear();
    for (size_t i = 0; i < width; ++i) items.Add(values[row * width + i]);
    return items.value();
  };
  const auto numbers = [&](const auto& values) {
    std::vector<double>& list = scratch->numbers[field];
    list.resize(width);
    for (size_t i = 0; i < width; ++i) list[i] = static_cast<double>(values[row * width + i]);
    return FieldValue(FieldList(list));
  };
  return std::visit(
      [&](const auto& values) -> FieldValue {
        using Value = std::remove_cv_t<typename std::decay_t<decltype(values)>::value_type>;
        if constexpr (std::is_same_v<Value, FieldValue>) {
          return values[row];
        } else if constexpr (std::is_floating_point_v<Value>) {
          return width == 1 ? FieldValue(static_cast<double>(values[row])) : numbers(values);
        } else if constexpr (std::is_same_v<Value, int64_t>) {
          return width == 1 ? FieldValue(values[row]) : items.has_keys() ? keys(values) : numbers(values);
        } else {
          return width == 1 ? FieldValue(values[row]) : keys(values);
        }
      },
      column.values);
}

}  // namespace downpour
