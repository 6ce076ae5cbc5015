#include "service/open_inference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <list>
#include <map>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/text.h"
#include "service/job.h"

namespace downpour {
namespace {

using nlohmann::json;

constexpr size_t kMostTensors = 4096;
constexpr const char* kPlatform = "downpour";

enum class TensorForm { kFloat, kDouble, kHalf, kSigned, kUnsigned, kBool, kBytes };
struct TensorType {
  const char* name;
  TensorForm form;
  size_t bytes;  // of a value; 0: of each its own
};
constexpr TensorType kTensorTypes[] = {
    {"FP32", TensorForm::kFloat, 4},      {"FP64", TensorForm::kDouble, 8},     {"FP16", TensorForm::kHalf, 2},
    {"INT64", TensorForm::kSigned, 8},    {"INT32", TensorForm::kSigned, 4},    {"INT16", TensorForm::kSigned, 2},
    {"INT8", TensorForm::kSigned, 1},     {"UINT64", TensorForm::kUnsigned, 8}, {"UINT32", TensorForm::kUnsigned, 4},
    {"UINT16", TensorForm::kUnsigned, 2}, {"UINT8", TensorForm::kUnsigned, 1},  {"BOOL", TensorForm::kBool, 1},
    {"BYTES", TensorForm::kBytes, 0}};

// One input, with the memory that its column points to.
struct Tensor {
  std::string name;
  const TensorType* type = nullptr;
  size_t rows = 0, width = 1;
  std::vector<int64_t> row_shape = {};
  std::vector<float> floats = {};
  std::vector<double> doubles = {};
  std::vector<int64_t> integers = {};
  std::vector<std::string> owned = {};  // of JSON
  std::vector<std::string_view> texts = {};

  size_t values() const { return rows * width; }
  InputColumn Column() const {
    const auto column = [&](InputValues values) {
      return InputColumn{.name = name, .width = static_cast<int64_t>(width), .values = values, .row_shape = row_shape};
    };
    switch (type->form) {
      case TensorForm::kFloat:
      case TensorForm::kHalf:
        return column(absl::MakeConstSpan(floats));
      case TensorForm::kDouble:
        return column(absl::MakeConstSpan(doubles));
      case TensorForm::kBytes:
        return column(absl::MakeConstSpan(texts));
      default:
        return column(absl::MakeConstSpan(integers));
    }
  }
};

absl::Status WrongTensor(const std::string& name, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("the tensor ", OneLine(name, 100), " ", what));
}

// Source: IEEE 754-2008, binary16.
float OfHalf(uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const auto fraction = static_cast<float>(bits & 0x3ff);
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 0x1f) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(fraction + 1024.0f, exponent - 25);
}

template <typename Value>
Value At(std::string_view bytes, size_t place) {
  Value value;
  std::memcpy(&value, bytes.data() + place * sizeof(Value), sizeof(Value));  // it may lie at any address
  return value;
}

// Whole numbers of any size. An unsigned one of 64 bits that is too large for the others becomes negative here, and is
// refused by ReadBinary.
int64_t IntegerAt(std::string_view bytes, size_t place, const TensorType& type) {
  const bool is_signed = type.form == TensorForm::kSigned;
  switch (type.bytes) {
    case 1:
      return is_signed ? At<int8_t>(bytes, place) : At<uint8_t>(bytes, place);
    case 2:
      return is_signed ? At<int16_t>(bytes, place) : At<uint16_t>(bytes, place);
    case 4:
      return is_signed ? int64_t{At<int32_t>(bytes, place)} : int64_t{At<uint32_t>(bytes, place)};
    default:
      return At<int64_t>(bytes, place);
  }
}

absl::Status ReadTexts(std::string_view bytes, Tensor* tensor) {
  for (size_t i = 0; i < tensor->values(); ++i) {
    if (bytes.size() < sizeof(uint32_t)) return WrongTensor(tensor->name, "ends before its last text");
    const auto size = At<uint32_t>(bytes, 0);
    bytes.remove_prefix(sizeof(uint32_t));
    if (bytes.size() < size) return WrongTensor(tensor->name, "ends before its last text");
    tensor->texts.push_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  return bytes.empty() ? absl::OkStatus() : WrongTensor(tensor->name, "has more bytes than its shape has texts");
}

absl::Status ReadBinary(std::string_view bytes, Tensor* tensor) {
  const TensorType& type = *tensor->type;
  if (type.form == TensorForm::kBytes) return ReadTexts(bytes, tensor);
  const size_t count = tensor->values();
  if (bytes.size() != count * type.bytes) {
    return WrongTensor(tensor->name, absl::StrCat("has ", bytes.size(), " bytes, and its shape and datatype make ",
                                                  count * type.bytes));
  }
  for (size_t i = 0; i < count; ++i) {
    if (type.form == TensorForm::kFloat) {
      tensor->floats.push_back(At<float>(bytes, i));
    } else if (type.form == TensorForm::kHalf) {
      tensor->floats.push_back(OfHalf(At<uint16_t>(bytes, i)));
    } else if (type.form == TensorForm::kDouble) {
      tensor->doubles.push_back(At<double>(bytes, i));
    } else {
      const int64_t value = IntegerAt(bytes, i, type);
      if (type.form == TensorForm::kUnsigned && value < 0) return WrongTensor(tensor->name, "has a number over 2^63");
      tensor->integers.push_back(value);
    }
  }
  return absl::OkStatus();
}

// Of lists in each other or of one, row by row.
absl::Status ReadValues(const json& data, Tensor* tensor, size_t* count) {
  if (data.is_array()) {
    for (const json& item : data) {
      if (const absl::Status status = ReadValues(item, tensor, count); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  if (++*count > tensor->values()) return WrongTensor(tensor->name, "has more values than its shape");
  const TensorForm form = tensor->type->form;
  const std::string place = absl::StrCat("has at value ", *count - 1, " no ", tensor->type->name);
  if (form == TensorForm::kBytes) {
    if (!data.is_string()) return WrongTensor(tensor->name, place + ", which JSON has as text");
    tensor->owned.push_back(data.get<std::string>());
  } else if (form == TensorForm::kBool) {
    if (!data.is_boolean()) return WrongTensor(tensor->name, place + ", which is true or false");
    tensor->integers.push_back(data.get<bool>() ? 1 : 0);
  } else if (form == TensorForm::kSigned || form == TensorForm::kUnsigned) {
    const bool fits = data.is_number_unsigned() ? data.get<uint64_t>() <= INT64_MAX
                                                : data.is_number_integer() && form == TensorForm::kSigned;
    if (!fits) return WrongTensor(tensor->name, place);
    tensor->integers.push_back(data.get<int64_t>());
  } else {
    if (!data.is_number()) return WrongTensor(tensor->name, place);
    form == TensorForm::kDouble ? tensor->doubles.push_back(data.get<double>())
                                : tensor->floats.push_back(data.get<float>());
  }
  return absl::OkStatus();
}

absl::Status ReadShape(const json& shape, size_t most_values, Tensor* tensor) {
  const std::string wanted = "must have a shape of [rows, values of a row]";
  if (!shape.is_array() || shape.empty() || shape.size() > 8) return WrongTensor(tensor->name, wanted);
  size_t values = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!shape[i].is_number_unsigned()) return WrongTensor(tensor->name, wanted);
    const auto size = shape[i].get<uint64_t>();
    if (i > 0 && size == 0) return WrongTensor(tensor->name, wanted);
    // So that no product of sizes overflows, and no memory is taken on the word of a shape.
    if (size > most_values || values > most_values / std::max<uint64_t>(1, size)) {
      return WrongTensor(tensor->name, "has a shape of more values than its bytes can hold");
    }
    values *= std::max<uint64_t>(1, size);
    if (i == 0) {
      tensor->rows = size;
    } else {
      tensor->width *= size;
      tensor->row_shape.push_back(static_cast<int64_t>(size));
    }
  }
  return absl::OkStatus();
}

// A number among the parameters of a tensor or of a request; nothing where there is none.
const json* ParameterOf(const json& object, const char* name) {
  const auto parameters = object.find("parameters");
  if (parameters == object.end() || !parameters->is_object()) return nullptr;
  const auto found = parameters->find(name);
  return found == parameters->end() ? nullptr : &*found;
}

absl::StatusOr<Tensor> ReadTensor(const json& said, size_t body_bytes, std::string_view* rest) {
  if (!said.is_object() || !said.value("name", json()).is_string()) {
    return absl::InvalidArgumentError("each of inputs must be an object with a name");
  }
  Tensor tensor{.name = said["name"].get<std::string>()};
  const json type = said.value("datatype", json());
  for (const TensorType& known : kTensorTypes) {
    if (type == known.name) tensor.type = &known;
  }
  if (tensor.type == nullptr) {
    return WrongTensor(tensor.name,
                       "must have a datatype: FP16, FP32, FP64, INT8 to INT64, UINT8 to UINT64, BOOL or BYTES");
  }
  absl::Status status = ReadShape(said.value("shape", json()), body_bytes, &tensor);
  if (!status.ok()) return status;
  if (const json* size = ParameterOf(said, "binary_data_size"); size != nullptr) {
    if (said.contains("data")) return WrongTensor(tensor.name, "has both data and binary_data_size");
    if (!size->is_number_unsigned() || size->get<uint64_t>() > rest->size()) {
      return WrongTensor(tensor.name, "has a binary_data_size of more bytes than follow the JSON");
    }
    status = ReadBinary(rest->substr(0, size->get<size_t>()), &tensor);
    rest->remove_prefix(size->get<size_t>());
  } else {
    size_t count = 0;
    if (!said.value("data", json()).is_array()) return WrongTensor(tensor.name, "must have data, as a list");
    status = ReadValues(said["data"], &tensor, &count);
    if (status.ok() && count != tensor.values()) {
      status = WrongTensor(tensor.name, absl::StrCat("has ", count, " values, and its shape makes ", tensor.values()));
    }
    tensor.texts.assign(tensor.owned.begin(), tensor.owned.end());
  }
  if (!status.ok()) return status;
  return tensor;
}

const char* DatatypeOf(const OutputValues& values) {
  if (std::holds_alternative<std::vector<float>>(values)) return "FP32";
  return std::holds_alternative<std::vector<int64_t>>(values) ? "INT64" : "BYTES";
}

void AppendBinary(const OutputValues& values, std::string* bytes) {
  std::visit(
      [&](const auto& list) {
        using Value = typename std::decay_t<decltype(list)>::value_type;
        if constexpr (std::is_same_v<Value, std::string_view>) {
          for (const std::string_view text : list) {
            const auto size = static_cast<uint32_t>(text.size());
            bytes->append(reinterpret_cast<const char*>(&size), sizeof(size));
            bytes->append(text);
          }
        } else {
          bytes->append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(Value));
        }
      },
      values);
}

// Which outputs are wanted, and whether as bytes. Nothing said: all of them.
struct WantedOutputs {
  bool all = true, all_binary = false;
  std::map<std::string, bool> named = {};  // whether binary

  bool Has(const std::string& name) const { return all || named.contains(name); }
  bool IsBinary(const std::string& name) const {
    const auto found = named.find(name);
    return found == named.end() ? all_binary : found->second;
  }
};

absl::StatusOr<WantedOutputs> ReadWanted(const json& asked, const Predictor& predictor) {
  const std::vector<SignatureOutput>& known = predictor.signature().outputs;
  WantedOutputs wanted;
  const json* binary = ParameterOf(asked, "binary_data_output");
  wanted.all_binary = binary != nullptr && *binary == true;
  const json outputs = asked.value("outputs", json::array());
  if (!outputs.is_array() || outputs.size() > kMostTensors) {
    return absl::InvalidArgumentError("outputs must be a list of objects with a name");
  }
  for (const json& output : outputs) {
    if (!output.is_object() || !output.value("name", json()).is_string()) {
      return absl::InvalidArgumentError("outputs must be a list of objects with a name");
    }
    const std::string name = output["name"];
    const auto has_name = [&](const SignatureOutput& one) { return one.name == name; };
    if (predictor.instances() == nullptr && std::none_of(known.begin(), known.end(), has_name)) {
      return WrongTensor(name, "is no output of this model: its metadata names them all");
    }
    if (ParameterOf(output, "classification") != nullptr) {
      return absl::InvalidArgumentError("the classification extension is not served: ask for the outputs themselves");
    }
    const json* own = ParameterOf(output, "binary_data");
    wanted.named[name] = own == nullptr ? wanted.all_binary : *own == true;
    wanted.all = false;
  }
  return wanted;
}

// Of a model whose signature says nothing an answer alone does.
absl::Status CheckHasAll(const OutputBatch& batch, const WantedOutputs& wanted) {
  for (const auto& [name, ignored] : wanted.named) {
    const auto has_name = [&](const OutputColumn& column) { return column.name == name; };
    if (std::ranges::any_of(batch.columns, has_name)) continue;
    std::vector<std::string> names;
    for (const OutputColumn& column : batch.columns) names.push_back(column.name);
    return WrongTensor(name, absl::StrCat("is no output of this model, which answered with ",
                                          names.empty() ? "none" : absl::StrJoin(names, ", ")));
  }
  return absl::OkStatus();
}

InferAnswer AnswerOf(const OutputBatch& batch, const InferName& name, const json& asked, const WantedOutputs& wanted) {
  json answer = {{"model_name", name.model}, {"model_version", name.version}, {"outputs", json::array()}};
  if (const json id = asked.value("id", json()); id.is_string()) answer["id"] = id;
  std::string bytes;
  bool has_binary = false;
  for (const OutputColumn& column : batch.columns) {
    if (!wanted.Has(column.name)) continue;
    json output = {
        {"name", column.name}, {"datatype", DatatypeOf(column.values)}, {"shape", {batch.rows, column.width}}};
    if (wanted.IsBinary(column.name)) {
      const size_t before = bytes.size();
      AppendBinary(column.values, &bytes);
      output["parameters"] = {{"binary_data_size", bytes.size() - before}};
      has_binary = true;
    } else {
      std::visit([&](const auto& list) { output["data"] = list; }, column.values);
    }
    answer["outputs"].push_back(std::move(output));
  }
  InferAnswer whole{.body = answer.dump(-1, ' ', false, json::error_handler_t::replace)};
  if (has_binary) whole.header_bytes = whole.body.size();
  whole.body += bytes;
  return whole;
}

}  // namespace

absl::StatusOr<InferAnswer> Infer(const Predictor& predictor, const InferName& name, std::string_view body,
                                  std::optional<size_t> header_bytes) {
  if (header_bytes && *header_bytes > body.size()) {
    return absl::InvalidArgumentError("Inference-Header-Content-Length is beyond the body's end");
  }
  const absl::StatusOr<json> asked = ParseJson(body.substr(0, header_bytes.value_or(body.size())));
  if (!asked.ok()) return asked.status();
  std::string_view rest = header_bytes ? body.substr(*header_bytes) : std::string_view();
  const json inputs = asked->is_object() ? asked->value("inputs", json()) : json();
  if (!inputs.is_array() || inputs.empty() || inputs.size() > kMostTensors) {
    return absl::InvalidArgumentError("a request must be an object with inputs, a list of tensors");
  }
  const absl::StatusOr<WantedOutputs> wanted = ReadWanted(*asked, predictor);
  if (!wanted.ok()) return wanted.status();
  std::list<Tensor> tensors;  // which stay where they are
  InputBatch batch;
  for (const json& said : inputs) {
    absl::StatusOr<Tensor> tensor = ReadTensor(said, body.size(), &rest);
    if (!tensor.ok()) return tensor.status();
    if (!tensors.empty() && tensor->rows != batch.rows) {
      return WrongTensor(tensor->name, absl::StrCat("has ", tensor->rows, " rows, and the one before it ", batch.rows));
    }
    batch.rows = tensor->rows;
    batch.columns.push_back(tensors.emplace_back(*std::move(tensor)).Column());
  }
  if (!rest.empty()) return absl::InvalidArgumentError("bytes follow the last binary tensor");
  const absl::StatusOr<OutputBatch> answer = predictor.Predict(batch);
  if (!answer.ok()) return answer.status();
  if (absl::Status status = CheckHasAll(*answer, *wanted); !status.ok()) return status;
  return AnswerOf(*answer, name, *asked, *wanted);
}

json InferMetadata(const Predictor& predictor, const InferName& name) {
  json metadata = {{"name", name.model},
                   {"versions", {name.version}},
                   {"platform", kPlatform},
                   {"inputs", json::array()},
                   {"outputs", json::array()}};
  constexpr const char* kInputTypes[] = {"FP32", "INT64", "BYTES"};
  for (const SignatureInput& input : predictor.signature().inputs) {
    metadata["inputs"].push_back({{"name", input.name},
                                  {"datatype", kInputTypes[static_cast<size_t>(input.kind)]},
                                  {"shape", {-1, input.width}}});
  }
  for (const SignatureOutput& output : predictor.signature().outputs) {
    metadata["outputs"].push_back({{"name", output.name},
                                   {"datatype", kInputTypes[static_cast<size_t>(output.kind)]},
                                   {"shape", {-1, output.width}}});
  }
  return metadata;
}

}  // namespace downpour
