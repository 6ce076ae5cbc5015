#include <array>
#include <iterator>
#include <map>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "job/job_parse.h"
#include "job/variables.h"

namespace downpour {
namespace {

constexpr size_t kMostInputs = 16;
constexpr size_t kMostInputDimensions = 8;
constexpr size_t kMostLayers = 1000;
constexpr size_t kMostFrom = 16;

InputSpec ReadInput(const YamlNode& node, const std::string& path, const DataSpec& data, JobErrors& errors) {
  InputSpec input;
  MapReader reader(node, path, errors);
  if (reader.Require("name") != nullptr) reader.Name("name", &input.name);
  if (data.has_records()) {
    ReadInputColumns(reader, data, errors, &input);
    reader.Finish();
    return input;
  }
  reader.FailOnlyWith("columns", "data.format: csv", "that is " + data.format);
  const std::string shape_path = reader.PathOf("shape");
  for (const YamlNode& item : ItemsOf(reader.Require("shape"), shape_path, kMostInputDimensions, errors)) {
    int64_t size = 1;
    ReadInteger(item, absl::StrCat(shape_path, ".", input.shape.size()), errors, 1, kMaxModelElements, &size);
    input.shape.push_back(size);
  }
  reader.Finish();
  return input;
}

template <typename... Kinds>
constexpr std::array<const char*, sizeof...(Kinds)> KeysOf(std::variant<Kinds...>*) {
  return {KeyOf(Kinds())...};
}

class LayerReader {
 public:
  LayerReader(const ModelSpec& model, const DataSpec& data, ModelFaults* faults, JobErrors& errors)
      : model_(model), data_(data), faults_(faults), errors_(errors) {}

  LayerSpec Read(const YamlNode& node, const std::string& path) {
    LayerSpec layer;
    const size_t before = errors_.count();
    MapReader reader(node, path, errors_);
    reader.Name("name", &layer.name);
    const size_t after_name = errors_.count();
    ReadFrom(reader, &layer.from);
    const size_t after_from = errors_.count();
    const std::string kind = ReadKind(reader, &layer);
    const size_t after_kind = errors_.count();
    reader.Finish();
    // An unknown key beside a kind may be a name or a from; an unnamed layer of no kind would be numbered with others.
    const bool odd_keys = errors_.count() != after_kind && kind != kNoKind;
    faults_->names |= after_name != before || (layer.name.empty() && (odd_keys || kind == kNoKind));
    faults_->reads |= after_from != before || (odd_keys && node.Find("from") == nullptr);
    if (errors_.count() != before) faults_->layers.insert(model_.layers.size());
    if (layer.name.empty()) layer.name = absl::StrCat(kind, "_", count_[kind]);
    ++count_[kind];
    return layer;
  }

 private:
  static constexpr const char* kNoKind = "layer";

  // One name, or a list of names; by default what stands before.
  void ReadFrom(MapReader& reader, std::vector<std::string>* from) {
    const YamlNode* node = reader.Find("from");
    const std::string path = reader.PathOf("from");
    std::string name;
    if (reader.node().Find(KeyOf(EmbeddingSpec())) != nullptr) {
      reader.FailOnlyWith("from", "another kind of layer", "an embedding reads columns of the data");
    } else if (node == nullptr) {
      if (!model_.layers.empty()) return from->push_back(model_.layers.back().name);
      if (model_.inputs.size() == 1) return from->push_back(model_.inputs[0].name);
      if (!model_.inputs.empty()) {
        reader.Fail(reader.node(), "from",
                    "is missing: the first layer of a model of several inputs says which it reads");
      } else if (model_.has_tables()) {
        reader.Fail(reader.node(), "from", "is missing: without model.inputs the first layer is an embedding");
      }  // else having no inputs is an error of its own
    } else if (node->Is(YamlNode::Kind::kScalar)) {
      if (ReadName(*node, path, errors_, &name)) from->push_back(name);
    } else {
      for (const YamlNode& item : ItemsOf(node, path, kMostFrom, errors_)) {
        if (ReadName(item, path, errors_, &name)) from->push_back(name);
      }
    }
  }

  // Reads the one key that says what the layer does; returns it, or kNoKind.
  std::string ReadKind(MapReader& reader, LayerSpec* layer) {
    static constexpr auto kKinds = KeysOf(static_cast<decltype(LayerSpec::op)*>(nullptr));
    std::string kind;
    const YamlNode* settings = nullptr;
    for (const char* candidate : kKinds) {
      const YamlNode* found = reader.Find(candidate);
      if (found == nullptr) continue;
      if (settings != nullptr)
        reader.Fail(*found, candidate, absl::StrCat("a layer is of one kind, and this one is ", kind));
      if (settings == nullptr) kind = candidate;
      if (settings == nullptr) settings = found;
    }
    if (settings == nullptr) {
      for (const char* candidate : kKinds) {
        const std::string remedy = absl::StrCat("write ", candidate, ": {}, with its settings in the braces");
        if (reader.RefuseNothing(candidate, remedy)) return kNoKind;
      }
      if (!reader.node().Is(YamlNode::Kind::kMap)) return kNoKind;  // which is told already
      // Where there is an unknown key, that will be named, with the kind that was probably meant.
      const bool nothing_else = reader.node().entries.size() == CountNameAndFrom(reader.node());
      if (nothing_else)
        reader.Fail(reader.node(), "", absl::StrCat("needs a kind of layer: ", absl::StrJoin(kKinds, ", ")));
      return kNoKind;
    }
    MapReader inner(*settings, reader.PathOf(kind), errors_);
    ReadSettings(kind, inner, &layer->op);
    inner.Finish();
    return kind;
  }

  static size_t CountNameAndFrom(const YamlNode& node) {
    return (node.Find("name") != nullptr) + (node.Find("from") != nullptr);
  }

  // Every kind that a LayerSpec may be of. One whose settings nothing reads does not compile.
  template <typename... Kinds>
  void ReadSettings(const std::string& key, MapReader& reader, std::variant<Kinds...>* op) {
    const auto read_if_it_is = [&](auto settings) {
      if (key != KeyOf(settings)) return;
      Read(reader, &settings);
      *op = settings;
    };
    (read_if_it_is(Kinds()), ...);
  }

  static void Read(MapReader& reader, DenseSpec* dense) {
    if (reader.Require("units") != nullptr) reader.Integer("units", 1, kMaxModelElements, &dense->units);
    reader.Choice("activation", kActivations, &dense->activation);
    reader.Flag("bias", &dense->bias);
  }
  static void Read(MapReader& reader, ActivationSpec* activation) {
    if (reader.Require("function") != nullptr) reader.Choice("function", kActivationFunctions, &activation->function);
  }
  static void Read(MapReader& reader, DropoutSpec* dropout) {
    const auto good = [](double v) { return v >= 0 && v < 1; };
    if (reader.Require("rate") != nullptr) reader.Number("rate", good, "at least 0 and below 1", &dropout->rate);
  }
  static void Read(MapReader&, AddSpec*) {}
  static void Read(MapReader&, MultiplySpec*) {}
  static void Read(MapReader&, DotSpec*) {}
  static void Read(MapReader&, ConcatSpec*) {}
  void Read(MapReader& reader, EmbeddingSpec* embedding) { ReadEmbedding(reader, data_, errors_, embedding); }

  const ModelSpec& model_;
  const DataSpec& data_;
  ModelFaults* const faults_;
  JobErrors& errors_;
  std::map<std::string, int> count_;  // layers seen, by kind
};

}  // namespace

void ReadModel(const YamlNode& node, const std::string& path, const DataSpec& data, JobErrors& errors,
               ModelSpec* model) {
  ModelFaults faults;
  MapReader reader(node, path, errors);
  reader.Text("initializeFrom", &model->initialize_from);
  if (reader.Find("variables") != nullptr) {
    ReadOwnVariables(reader, data, errors, model);
    return reader.Finish();
  }
  reader.FailOnlyWith("classes", "variables", "this model has layers");
  const size_t before_tables = errors.count();
  ReadTables(reader, data, errors, model);
  const YamlNode* tables = node.Find("tables");
  faults.tables = errors.count() != before_tables;
  const size_t before_inputs = errors.count();
  const YamlNode* inputs = tables == nullptr ? reader.Require("inputs") : reader.Find("inputs");
  const auto& items_of = tables == nullptr ? ItemsOf : MaybeItemsOf;
  for (const YamlNode& item : items_of(inputs, reader.PathOf("inputs"), kMostInputs, errors)) {
    const size_t before = errors.count();
    InputSpec input = ReadInput(item, absl::StrCat(path, ".inputs.", model->inputs.size()), data, errors);
    if (errors.count() != before || input.shape.empty()) faults.inputs.insert(model->inputs.size());
    faults.names |= input.name.empty();
    model->inputs.push_back(std::move(input));
  }
  if (model->inputs.empty() && errors.count() != before_inputs) faults.names = faults.reads = true;
  const YamlNode* layers = reader.Require("layers");
  LayerReader layer_reader(*model, data, &faults, errors);
  for (const YamlNode& item : ItemsOf(layers, reader.PathOf("layers"), kMostLayers, errors)) {
    LayerSpec layer = layer_reader.Read(item, absl::StrCat(path, ".layers.", model->layers.size()));
    model->layers.push_back(std::move(layer));
  }
  faults.loss = !reader.Choice("loss", kLosses, &model->loss) && node.Find("loss") != nullptr;
  reader.Finish();
  if (model->layers.empty() || (model->inputs.empty() && tables == nullptr)) return;  // reported already

  const ModelShapes shapes = InferShapes(*model, faults);
  if (tables != nullptr && !faults.tables && faults.layers.empty() && shapes.errors.empty()) {
    CheckTablesAreRead(*tables, reader.PathOf("tables"), *model, errors);
  }
  for (const ModelShapes::Error& error : shapes.errors) {
    const bool in_layer = error.layer < model->layers.size();
    const std::string place = in_layer ? absl::StrCat(path, ".layers.", error.layer) : path;
    const std::string what =
        in_layer ? absl::StrCat("layer ", model->layers[error.layer].name, ": ", error.what) : error.what;
    errors.Add(in_layer ? layers->items[error.layer] : node, place, what, error.remedy);
  }
}

}  // namespace downpour
