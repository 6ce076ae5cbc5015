#include "predict/instance_json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/text.h"

namespace downpour {
namespace {

using Json = nlohmann::json;
namespace dom = simdjson::dom;

constexpr size_t kShown = 100;       // bytes of a name, in an error
constexpr size_t kLeastOfField = 4;  // bytes beside its name: quotes, a colon, a value
constexpr const char* kNoNames[] = {"", "input", "inputs", "instances"};

absl::Status TooLong() {
  return absl::OutOfRangeError(absl::StrCat("the rows have more than ", kMostInstanceBytes,
                                            " bytes as instances, each with its names: send them in several requests"));
}

std::string Quoted(std::string_view name) { return absl::StrCat("'", OneLine(name, kShown), "'"); }

std::string TextOf(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// {"age": [39, 50]} as [{"age": 39}, {"age": 50}].
absl::StatusOr<std::string> Transposed(const dom::object& columns, size_t most_rows, size_t* count) {
  std::vector<std::string> rows;
  bool is_first = true;
  size_t bytes = 0;  // of names, which stand in each row
  for (const auto [key, element] : columns) {
    dom::array values;
    if (element.get(values) != simdjson::SUCCESS) {
      return absl::InvalidArgumentError(absl::StrCat("column ", Quoted(key), " is no list, with a value for each row"));
    }
    if (values.size() > most_rows) return TooManyRows(most_rows);
    bytes += values.size() * (key.size() + kLeastOfField);
    if (bytes > kMostInstanceBytes) return TooLong();
    if (is_first) rows.assign(values.size(), "{");
    if (values.size() != rows.size()) {
      return absl::InvalidArgumentError(absl::StrCat("column ", Quoted(key), " has ", Counted(values.size(), "row"),
                                                     ", where the others have ", rows.size()));
    }
    size_t row = 0;
    for (const dom::element value : values) {
      absl::StrAppend(&rows[row++], is_first ? "" : ",", TextOf(Json(std::string(key))), ":",
                      simdjson::to_string(value));
    }
    is_first = false;
  }
  std::string all = "[";
  for (const std::string& row : rows) absl::StrAppend(&all, all.size() > 1 ? "," : "", row, "}");
  *count = rows.size();
  return all + "]";
}

// Whether all are objects of the same names.
bool AreObjectsAlike(const Json& predictions) {
  const auto has_names_of_first = [&](const Json& one) {
    if (!one.is_object() || one.size() != predictions.front().size()) return false;
    return std::ranges::all_of(predictions.front().items(), [&](const auto& item) { return one.contains(item.key()); });
  };
  return !predictions.empty() && predictions.front().is_object() && !predictions.front().empty() &&
         std::ranges::all_of(predictions, has_names_of_first);
}

Json ByColumns(Json predictions) {
  if (!AreObjectsAlike(predictions)) return predictions;
  Json columns = Json::object();
  for (Json& one : predictions) {
    for (auto& [name, value] : one.items()) columns[name].push_back(std::move(value));
  }
  return columns;
}

void AppendOne(double number, std::string* text) {
  absl::StrAppend(text, std::isfinite(number) ? TextOf(Json(number)) : "null");
}
void AppendOne(float number, std::string* text) { AppendOne(static_cast<double>(number), text); }
void AppendOne(int64_t number, std::string* text) { absl::StrAppend(text, number); }
void AppendOne(std::string_view word, std::string* text) { text->append(TextOf(Json(std::string(word)))); }
void AppendOne(const FieldValue& value, std::string* text) {
  if (const auto* number = std::get_if<double>(&value)) return AppendOne(*number, text);
  if (const auto* word = std::get_if<std::string_view>(&value)) return AppendOne(*word, text);
  text->append("null");
}

// Values of a row, in lists of `shape` in each other.
template <typename Values>
void AppendNested(const Values& values, const std::vector<int64_t>& shape, size_t level, size_t* at,
                  std::string* text) {
  if (level == shape.size()) return AppendOne(values[(*at)++], text);
  text->push_back('[');
  for (int64_t i = 0; i < shape[level]; ++i) {
    if (i > 0) text->push_back(',');
    AppendNested(values, shape, level + 1, at, text);
  }
  text->push_back(']');
}

void AppendRow(const InputColumn& column, size_t row, std::string* text) {
  std::vector<int64_t> shape = column.row_shape;
  if (shape.empty() && column.width != 1) shape = {column.width};
  size_t at = row * static_cast<size_t>(column.width);
  std::visit([&](const auto& values) { AppendNested(values, shape, 0, &at, text); }, column.values);
}

// The numbers or the texts in it, as many for each row.
struct Flat {
  std::vector<float> floats;
  std::vector<int64_t> integers;
  std::vector<std::string_view> texts;
  bool has_fractions = false, has_others = false;
  bool fit_floats = true, fit_integers = true;  // the numbers; what does not is there as 0

  void Take(const Json& value) {
    if (value.is_array()) {
      for (const Json& one : value) Take(one);
    } else if (value.is_string()) {
      texts.push_back(value.get_ref<const std::string&>());
    } else if (value.is_number_float()) {
      const double number = value.get<double>();
      const bool fits = std::abs(number) <= std::numeric_limits<float>::max();
      has_fractions = true;
      fit_floats &= fits;
      floats.push_back(fits ? static_cast<float>(number) : 0);
    } else if (value.is_number_unsigned() && !std::in_range<int64_t>(value.get<uint64_t>())) {
      fit_integers = false;
      floats.push_back(static_cast<float>(value.get<uint64_t>()));
      integers.push_back(0);
    } else if (value.is_number() || value.is_boolean()) {
      const int64_t number = value.is_boolean() ? value.get<bool>() : value.get<int64_t>();
      floats.push_back(static_cast<float>(number));
      integers.push_back(number);
    } else {
      has_others = true;
    }
  }
  size_t size() const { return texts.size() + floats.size(); }
};

absl::StatusOr<OutputColumn> ColumnOf(const std::string& name, const std::vector<const Json*>& rows) {
  Flat flat;
  std::optional<size_t> width;
  bool are_alike = true;
  for (const Json* row : rows) {
    const size_t before = flat.size();
    flat.Take(*row);
    are_alike &= !width || flat.size() - before == *width;
    width = flat.size() - before;
  }
  if (!are_alike || flat.has_others || (!flat.texts.empty() && !flat.floats.empty())) {
    return absl::FailedPreconditionError(absl::StrCat("the predictions' ", OneLine(name, kShown),
                                                      " is no tensor: ask by :predict, which answers any JSON"));
  }
  if (flat.has_fractions ? !flat.fit_floats : !flat.fit_integers) {
    return absl::FailedPreconditionError(absl::StrCat("the predictions' ", OneLine(name, kShown), " has a number that ",
                                                      flat.has_fractions ? "FP32" : "INT64",
                                                      " has not: ask by :predict, which answers any JSON"));
  }
  OutputColumn column{.name = name, .width = static_cast<int64_t>(width.value_or(1)), .values = {}};
  if (!flat.texts.empty()) {
    column.values = std::move(flat.texts);
  } else if (flat.has_fractions) {
    column.values = std::move(flat.floats);
  } else {
    column.values = std::move(flat.integers);
  }
  return column;
}

}  // namespace

absl::StatusOr<Json> AskInstances(const InstancePredictor& predictor, std::string_view instances, size_t count) {
  if (instances.size() > kMostInstanceBytes) return TooLong();
  absl::StatusOr<Json> predictions = predictor.PredictInstances(instances, count);
  if (!predictions.ok() || (predictions->is_array() && predictions->size() == count)) return predictions;
  return absl::InternalError(absl::StrCat("the Python code does not answer with ", Counted(count, "prediction")));
}

absl::StatusOr<std::string> AnswerInstances(const InstancePredictor& predictor, size_t most_rows,
                                            const dom::element& rows, bool by_columns) {
  dom::array list;
  dom::object columns;
  size_t count = 0;
  std::string instances;
  if (rows.get(list) == simdjson::SUCCESS) {
    count = list.size();
    if (count > most_rows) return TooManyRows(most_rows);
    instances = simdjson::to_string(list);
  } else if (by_columns && rows.get(columns) == simdjson::SUCCESS) {
    absl::StatusOr<std::string> transposed = Transposed(columns, most_rows, &count);
    if (!transposed.ok()) return transposed.status();
    instances = *std::move(transposed);
  } else {
    return absl::InvalidArgumentError(by_columns ? "\"inputs\" is no object of columns, and no list"
                                                 : "\"instances\" is no list");
  }
  absl::StatusOr<Json> predictions = AskInstances(predictor, instances, count);
  if (!predictions.ok()) return predictions.status();
  if (!by_columns) return absl::StrCat("{\"predictions\":", TextOf(*predictions), "}");
  return absl::StrCat("{\"outputs\":", TextOf(ByColumns(*std::move(predictions))), "}");
}

absl::StatusOr<std::string> InstancesOf(const InputBatch& batch) {
  const bool are_themselves =
      batch.columns.size() == 1 && std::ranges::count(kNoNames, std::string(batch.columns.front().name)) > 0;
  std::string text = "[";
  for (size_t row = 0; row < batch.rows; ++row) {
    if (text.size() > kMostInstanceBytes) return TooLong();
    if (row > 0) text.push_back(',');
    if (are_themselves) {
      AppendRow(batch.columns.front(), row, &text);
      continue;
    }
    char between = '{';
    for (const InputColumn& column : batch.columns) {
      text.push_back(between);
      between = ',';
      absl::StrAppend(&text, TextOf(Json(std::string(column.name))), ":");
      AppendRow(column, row, &text);
    }
    text += batch.columns.empty() ? "{}" : "}";
  }
  return text + "]";
}

absl::StatusOr<OutputBatch> BatchOf(Json predictions) {
  const auto kept = std::make_shared<const Json>(std::move(predictions));
  OutputBatch batch{kept->size(), {}, kept};
  const auto add = [&](const std::string& name, const std::vector<const Json*>& rows) {
    absl::StatusOr<OutputColumn> column = ColumnOf(name, rows);
    if (column.ok()) batch.columns.push_back(*std::move(column));
    return column.status();
  };
  std::vector<const Json*> rows;
  if (!AreObjectsAlike(*kept)) {
    for (const Json& one : *kept) rows.push_back(&one);
    if (absl::Status status = add("predictions", rows); !status.ok()) return status;
    return batch;
  }
  for (const auto& [name, ignored] : kept->front().items()) {
    rows.clear();
    for (const Json& one : *kept) rows.push_back(&one[name]);
    if (absl::Status status = add(name, rows); !status.ok()) return status;
  }
  return batch;
}

}  // namespace downpour
