#include "predict/predict_json.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/json_value.h"
#include "predict/instance_json.h"
#include "predict/json_place.h"
#include "predict/row_store.h"
#include "schema/text.h"

namespace downpour {
namespace {

namespace dom = simdjson::dom;

constexpr size_t kShown = 40;                  // bytes of a name, in an error
constexpr size_t kMostKept = size_t{1} << 18;  // bytes of a text whose memory is kept for the next
constexpr size_t kLeastKept = size_t{1} << 15;
constexpr char kInstances[] = "instances";
constexpr char kInputs[] = "inputs";
constexpr char kSignatureName[] = "signature_name";

std::string Quoted(std::string_view name) { return absl::StrCat("'", OneLine(name, kShown), "'"); }

template <typename... Words>
absl::Status Wrong(const Words&... words) {
  return absl::InvalidArgumentError(absl::StrCat(words...));
}

// Rows out of JSON.
class RowReader {
 public:
  RowReader(const Signature& signature, size_t most_rows)
      : signature_(signature), most_rows_(most_rows), store_(signature), order_(signature.inputs.size()) {
    for (size_t i = 0; i < signature.inputs.size(); ++i) {
      order_[i] = i;
      const SignatureInput& input = signature.inputs[i];
      items_.emplace_back(KeyWidth{.most = input.kind == InputKind::kNumber ? 0 : static_cast<size_t>(input.width)});
    }
  }

  InputBatch batch() const { return store_.batch(); }

  absl::Status AddRows(const dom::array& rows) {
    for (const dom::element row : rows) {
      if (absl::Status status = AddRow(row); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status AddRow(const dom::element& row) {
    if (store_.rows() == most_rows_) return TooManyRows(most_rows_);
    store_.AddRow();
    dom::object object;
    if (row.get(object) == simdjson::SUCCESS) return AddObject(object);
    if (signature_.inputs.size() != 1) {
      return Wrong(Here(), "is no object, and the model has several inputs: write {",
                   nlohmann::json(signature_.inputs.front().name).dump(), ": ..., ...}");
    }
    return Put(0, row);
  }

  // {"age": [39, 50], ...}
  absl::Status AddColumns(const dom::object& columns) {
    std::optional<size_t> rows;
    std::vector<bool> is_there(signature_.inputs.size());
    for (const auto [key, element] : columns) {
      const std::optional<size_t> input = signature_.Find(key);
      if (!input && signature_.PassesOver(key)) continue;
      if (!input) return signature_.NoSuchInput(key);
      if (is_there[*input]) return Wrong("column ", Quoted(key), " comes twice: leave one out");
      is_there[*input] = true;
      dom::array values;
      if (element.get(values) != simdjson::SUCCESS) {
        return Wrong("column ", Quoted(key), " is no list, with a value for each row");
      }
      if (rows && values.size() != *rows) {
        return Wrong("column ", Quoted(key), " has ", Counted(values.size(), "row"), ", where the others have ", *rows);
      }
      if (!rows && values.size() > most_rows_) return TooManyRows(most_rows_);
      for (size_t i = 0; !rows && i < values.size(); ++i) store_.AddRow();
      rows = values.size();
      size_t row = 0;
      for (const dom::element value : values) {
        at_ = row++;
        if (absl::Status status = Put(*input, value); !status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

 private:
  size_t row() const { return at_ ? *at_ : store_.rows() - 1; }
  std::string Here() const { return absl::StrCat("row ", row(), ": "); }

  // Rows mostly have their columns in one order.
  std::optional<size_t> Find(std::string_view name, size_t number) {
    if (number < order_.size() && signature_.inputs[order_[number]].name == name) return order_[number];
    const std::optional<size_t> input = signature_.Find(name);
    if (input && number < order_.size()) order_[number] = *input;
    return input;
  }

  absl::Status AddObject(const dom::object& object) {
    size_t number = 0;
    seen_.assign(signature_.inputs.size(), false);
    for (const auto [key, element] : object) {
      const std::optional<size_t> input = Find(key, number++);
      if (!input && signature_.PassesOver(key)) continue;
      if (!input) {
        const absl::Status none = signature_.NoSuchInput(key);
        return absl::Status(none.code(), absl::StrCat(Here(), none.message()));
      }
      if (seen_[*input]) return Wrong(Here(), "column ", Quoted(key), " comes twice: leave one out");
      seen_[*input] = true;
      if (absl::Status status = Put(*input, element); !status.ok()) return status;
    }
    return CheckNeeded();
  }

  absl::Status CheckNeeded() const {
    for (size_t i = 0; i < seen_.size(); ++i) {
      if (seen_[i] || !signature_.inputs[i].is_needed) continue;
      return Wrong(Here(), "column ", Quoted(signature_.inputs[i].name),
                   " is missing: the model needs it, and has no default for it");
    }
    return absl::OkStatus();
  }

  absl::Status Put(size_t input, const dom::element& element) {
    const SignatureInput& about = signature_.inputs[input];
    FieldValue& to = at_ ? store_.at(input, *at_) : store_.at(input);
    if (about.kind == InputKind::kNumber && about.width > 1 && element.is_array()) {
      const absl::StatusOr<FieldValue> numbers = NumbersIn(about, element.get_array().value_unsafe());
      if (numbers.ok()) to = *numbers;
      return numbers.status();
    }
    const absl::StatusOr<FieldValue> value = JsonFieldValue(element, &list_, &items_[input]);
    if (!value.ok()) {
      return Wrong(Here(), "column ", Quoted(about.name), " ",
                   element.is_object() ? "is an object: write the value itself" : value.status().message());
    }
    // Texts stay as long as the parser; lists are of this reader.
    const bool is_list = std::holds_alternative<FieldList>(*value) || std::holds_alternative<FieldItems>(*value);
    to = is_list ? store_.Kept(*value) : *value;
    return absl::OkStatus();
  }

  // Of a list, or of lists in lists, as an image has rows.
  absl::StatusOr<FieldValue> NumbersIn(const SignatureInput& about, const dom::array& array) {
    const auto width = static_cast<size_t>(about.width);
    const absl::Span<double> numbers = store_.Numbers(width);
    size_t count = 0;
    bool is_good = true;
    Flatten(array, numbers, &count, &is_good);
    if (!is_good) return Wrong(Here(), "column ", Quoted(about.name), " has something else than numbers in its list");
    if (count != width) {
      return Wrong(Here(), "column ", Quoted(about.name), " has ", Counted(count, "number"), ", where the model takes ",
                   width);
    }
    return FieldValue(FieldList(numbers));
  }

  // Its depth is bounded by the parser's.
  void Flatten(const dom::array& array, absl::Span<double> to, size_t* count, bool* is_good) {
    for (const dom::element one : array) {
      switch (one.type()) {
        case dom::element_type::ARRAY:
          Flatten(one.get_array().value_unsafe(), to, count, is_good);
          continue;
        case dom::element_type::INT64:
          if (*count < to.size()) to[*count] = static_cast<double>(one.get_int64().value_unsafe());
          break;
        case dom::element_type::DOUBLE:
          if (*count < to.size()) to[*count] = one.get_double().value_unsafe();
          break;
        default:
          if (*count < to.size()) to[*count] = JsonNumber(one, is_good);
          if (one.is_string() || one.is_object()) *is_good = false;
      }
      ++*count;
    }
  }

  const Signature& signature_;
  const size_t most_rows_;
  RowStore store_;
  std::vector<size_t> order_;  // inputs, as the row before had them
  std::vector<bool> seen_;     // in the row at hand
  std::optional<size_t> at_;   // the row at hand, where columns come one after the other
  std::vector<double> list_;
  std::vector<KeyItems> items_;  // by input
};

template <typename Number>
void AppendNumber(Number number, std::string* text) {
  char digits[32];
  text->append(digits, std::to_chars(std::begin(digits), std::end(digits), number).ptr);
}

void AppendOne(float number, std::string* text) { AppendNumber(number, text); }
void AppendOne(int64_t number, std::string* text) { AppendNumber(number, text); }
void AppendOne(std::string_view word, std::string* text) {
  text->append(nlohmann::json(word).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void AppendValue(const OutputColumn& column, size_t row, std::string* text) {
  std::visit(
      [&](const auto& values) {
        const auto width = static_cast<size_t>(column.width);
        if (width != 1) text->push_back('[');
        for (size_t i = 0; i < width; ++i) {
          if (i > 0) text->push_back(',');
          AppendOne(values[row * width + i], text);
        }
        if (width != 1) text->push_back(']');
      },
      column.values);
}

void AppendRow(const OutputBatch& answer, size_t row, std::string* text) {
  char between = '{';
  for (const OutputColumn& column : answer.columns) {
    text->push_back(between);
    between = ',';
    absl::StrAppend(text, "\"", column.name, "\":");
    AppendValue(column, row, text);
  }
  text->push_back('}');
}

std::string ByRows(const OutputBatch& answer) {
  std::string text = "{\"predictions\":[";
  for (size_t row = 0; row < answer.rows; ++row) {
    if (row > 0) text.push_back(',');
    AppendRow(answer, row, &text);
  }
  text += "]}";
  return text;
}

std::string ByColumns(const OutputBatch& answer) {
  std::string text = "{\"outputs\":";
  char between = '{';
  for (const OutputColumn& column : answer.columns) {
    text.push_back(between);
    between = ',';
    absl::StrAppend(&text, "\"", column.name, "\":[");
    for (size_t row = 0; row < answer.rows; ++row) {
      if (row > 0) text.push_back(',');
      AppendValue(column, row, &text);
    }
    text.push_back(']');
  }
  text += "}}";
  return text;
}

struct Request {
  dom::element rows;
  bool by_columns = false;
};

absl::StatusOr<Request> RequestIn(const dom::element& root) {
  dom::object object;
  if (root.get(object) != simdjson::SUCCESS) return Wrong("the request is no object: write {\"instances\": [...]}");
  std::optional<Request> request;
  for (const auto [key, element] : object) {
    if (key == kSignatureName) continue;
    if (key != kInstances && key != kInputs) {
      return Wrong("the request has ", Quoted(key), ": it has \"instances\" or \"inputs\"");
    }
    if (request) return Wrong("the request has \"instances\" or \"inputs\" more than once");
    request = Request{element, key == kInputs};
  }
  if (!request) return Wrong("the request has no \"instances\" and no \"inputs\"");
  return *request;
}

absl::Status ReadRequest(const Request& request, RowReader* reader) {
  dom::array rows;
  if (request.rows.get(rows) == simdjson::SUCCESS) return reader->AddRows(rows);
  dom::object columns;
  if (request.by_columns && request.rows.get(columns) == simdjson::SUCCESS) return reader->AddColumns(columns);
  return request.by_columns ? Wrong("\"inputs\" is no object of columns, and no list")
                            : Wrong("\"instances\" is no list");
}

// A parser whose memory is kept from one text to the next, if it is little.
class KeptParser {
 public:
  absl::StatusOr<dom::element> Parse(std::string_view text, const JsonLimits& limits) {
    if (text.size() > limits.most_bytes) {
      return absl::OutOfRangeError(absl::StrCat("a request of ", text.size(), " bytes, where one may have ",
                                                limits.most_bytes, ": send its rows in several requests"));
    }
    simdjson::error_code error = simdjson::SUCCESS;
    if (parser_.capacity() < text.size() || parser_.max_depth() != limits.most_levels) {
      error = parser_.allocate(std::max(text.size(), kLeastKept), limits.most_levels);
    }
    dom::element root;
    if (error == simdjson::SUCCESS) error = parser_.parse(text.data(), text.size()).get(root);
    if (error == simdjson::SUCCESS) return root;
    if (error == simdjson::MEMALLOC) return absl::ResourceExhaustedError("no memory for the request");
    if (error == simdjson::DEPTH_ERROR) {
      return Wrong("no JSON that is read: more than ", limits.most_levels,
                   " levels of lists and objects in each other");
    }
    return Wrong("no JSON: ", WhereJsonFails(text, limits.most_levels));
  }
  void Trim() {
    if (parser_.capacity() > kMostKept) parser_ = dom::parser();
  }

 private:
  dom::parser parser_;
};

KeptParser& ParserOfThread() {
  static thread_local KeptParser parser;
  return parser;
}

template <typename Answer, typename Use>
absl::StatusOr<Answer> WithParser(const Use& use) {
  KeptParser& parser = ParserOfThread();
  absl::StatusOr<Answer> answer = use(parser);
  parser.Trim();
  return answer;
}

}  // namespace

absl::StatusOr<std::string> PredictJson(const Predictor& predictor, std::string_view body, const JsonLimits& limits) {
  return WithParser<std::string>([&](KeptParser& parser) -> absl::StatusOr<std::string> {
    const absl::StatusOr<dom::element> root = parser.Parse(body, limits);
    if (!root.ok()) return root.status();
    const absl::StatusOr<Request> request = RequestIn(*root);
    if (!request.ok()) return request.status();
    if (const InstancePredictor* own = predictor.instances(); own != nullptr) {
      return AnswerInstances(*own, predictor.most_rows(), request->rows, request->by_columns);
    }
    RowReader reader(predictor.signature(), predictor.most_rows());
    if (absl::Status status = ReadRequest(*request, &reader); !status.ok()) return status;
    const absl::StatusOr<OutputBatch> answer = predictor.Predict(reader.batch());
    if (!answer.ok()) return answer.status();
    return request->by_columns ? ByColumns(*answer) : ByRows(*answer);
  });
}

absl::StatusOr<std::string> PredictJsonLine(const Predictor& predictor, std::string_view instance,
                                            const JsonLimits& limits) {
  std::string line;
  const InstancePredictor* own = predictor.instances();
  if (own == nullptr) {
    const absl::StatusOr<OutputBatch> answer = PredictJsonInstance(predictor, instance, limits);
    if (!answer.ok()) return answer.status();
    AppendRow(*answer, 0, &line);
    return line;
  }
  return WithParser<std::string>([&](KeptParser& parser) -> absl::StatusOr<std::string> {
    const absl::StatusOr<dom::element> row = parser.Parse(instance, limits);
    if (!row.ok()) return row.status();
    const auto predictions = AskInstances(*own, absl::StrCat("[", simdjson::to_string(*row), "]"), 1);
    if (!predictions.ok()) return predictions.status();
    return predictions->front().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  });
}

absl::StatusOr<OutputBatch> PredictJsonInstance(const Predictor& predictor, std::string_view instance,
                                                const JsonLimits& limits) {
  return WithParser<OutputBatch>([&](KeptParser& parser) -> absl::StatusOr<OutputBatch> {
    const absl::StatusOr<dom::element> row = parser.Parse(instance, limits);
    if (!row.ok()) return row.status();
    RowReader reader(predictor.signature(), 1);
    if (absl::Status status = reader.AddRow(*row); !status.ok()) return status;
    return predictor.Predict(reader.batch());
  });
}

void AppendJsonRow(const OutputBatch& answer, size_t row, std::string* text) { AppendRow(answer, row, text); }

std::string SignatureJson(const Signature& signature) {
  const auto kind_of = [](auto kind) {
    return std::vector<const char*>{"number", "integer", "text"}[static_cast<size_t>(kind)];
  };
  nlohmann::ordered_json json = {{"inputs", nlohmann::json::array()}, {"outputs", nlohmann::json::array()}};
  for (const SignatureInput& input : signature.inputs) {
    nlohmann::ordered_json one = {
        {"name", input.name}, {"type", kind_of(input.kind)}, {"width", input.width}, {"needed", input.is_needed}};
    if (input.fill) one["default"] = *input.fill;
    json["inputs"].push_back(std::move(one));
  }
  for (const SignatureOutput& output : signature.outputs) {
    json["outputs"].push_back({{"name", output.name}, {"type", kind_of(output.kind)}, {"width", output.width}});
  }
  return json.dump();
}

}  // namespace downpour
