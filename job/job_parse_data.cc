#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "job/data_formats.h"
#include "job/data_place.h"
#include "job/job_names.h"
#include "job/job_parse.h"
#include "job/label_key.h"
#include "job/nearest_name.h"
#include "job/variables.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr size_t kMostFiles = 10'000;
constexpr size_t kMostColumns = 10'000;
constexpr size_t kMostFields = 100'000;
constexpr size_t kMostCrossed = 16;
constexpr size_t kMostWords = 100'000;  // of a vocabulary; of all classes together
constexpr int64_t kMostCategories = int64_t{1} << 30;
constexpr int64_t kMostNumbers = int64_t{1} << 18;  // of a field: so many examples of it are read at once
constexpr double kLargest = 1e30;
constexpr int64_t kParquetBlock = 8192;  // pages are decoded as a whole, and have some 20,000 rows

// Words of files: a number or true is one too, and so is nothing at all.
bool ReadWord(const YamlNode& node, const std::string& path, JobErrors& errors, std::string* word) {
  YamlNode text = node;
  text.quoted = true;
  return ReadArgument(text, path, errors, word);
}

std::vector<std::string> ReadWords(const YamlNode* node, const std::string& path, size_t most, JobErrors& errors) {
  std::vector<std::string> words;
  if (node == nullptr) return words;
  std::set<std::string> seen;
  for (const YamlNode& item : ItemsOf(node, path, most, errors)) {
    const std::string at = absl::StrCat(path, ".", &item - node->items.data());
    std::string word;
    if (!ReadWord(item, at, errors, &word)) continue;
    if (!seen.insert(word).second) errors.Add(item, at, absl::StrCat("'", word, "' stands there twice"));
    words.push_back(std::move(word));
  }
  return words;
}

bool IsBounded(double number) { return std::abs(number) <= kLargest; }
constexpr const char* kBounded = "from -1e30 to 1e30";

bool ReadBounded(const YamlNode& item, const std::string& path, JobErrors& errors, double* number) {
  return ReadNumber(item, path, errors, IsBounded, kBounded, number);
}

void ReadClip(MapReader& reader, JobErrors& errors, ColumnSpec* column) {
  const YamlNode* clip = reader.Find("clip");
  if (clip == nullptr) return;
  double bounds[2] = {};
  const auto& items = ItemsOf(clip, reader.PathOf("clip"), 2, errors);
  if (items.empty()) return;
  if (items.size() != 2) return reader.Fail(*clip, "clip", "must be a list of two numbers, the least and the largest");
  for (size_t i = 0; i < 2; ++i) {
    if (!ReadBounded(items[i], absl::StrCat(reader.PathOf("clip"), ".", i), errors, &bounds[i])) return;
  }
  if (bounds[0] >= bounds[1]) reader.Fail(*clip, "clip", "must have the smaller number first");
  column->least = bounds[0];
  column->most = bounds[1];
}

void ReadScale(MapReader& reader, JobErrors& errors, double* mean, double* deviation) {
  const YamlNode* scale = reader.Find("scale");
  if (scale == nullptr) return;
  MapReader inner(*scale, reader.PathOf("scale"), errors);
  inner.Number("mean", IsBounded, kBounded, mean);
  inner.Number(
      "deviation", [](double v) { return v >= 1 / kLargest && v <= kLargest; }, "above 0, up to 1e30", deviation);
  inner.Finish();
}

void ReadBoundaries(const YamlNode& node, const std::string& path, JobErrors& errors, ColumnSpec* column) {
  for (const YamlNode& item : ItemsOf(&node, path, kMostWords, errors)) {
    const std::string at = absl::StrCat(path, ".", &item - node.items.data());
    double boundary = 0;
    if (!ReadBounded(item, at, errors, &boundary)) continue;
    if (!column->boundaries.empty() && boundary <= column->boundaries.back()) {
      errors.Add(item, at, "is not above the boundary before it", "write boundaries from the least to the largest");
    }
    column->boundaries.push_back(boundary);
  }
}

// The fields that a column is made of: by default the one of its own name.
void ReadFrom(MapReader& reader, JobErrors& errors, ColumnSpec* column) {
  const YamlNode* from = reader.Find("from");
  if (from == nullptr) {
    column->from = {column->name};
  } else if (from->Is(YamlNode::Kind::kSequence)) {
    column->from = ReadWords(from, reader.PathOf("from"), kMostCrossed, errors);
  } else if (std::string field; ReadWord(*from, reader.PathOf("from"), errors, &field)) {
    column->from = {field};
  }
  const bool is_hashed = column->kind == ColumnKind::kHash || column->key_is_text;
  if (column->from.size() > 1 && !is_hashed) {
    reader.Fail(*from, "from", "several fields are crossed, which needs hash or key: text",
                "add hash: 1000, or as many as you like");
  }
}

constexpr Named<ColumnKind> kColumnKinds[] = {{ColumnKind::kBuckets, "buckets"},
                                              {ColumnKind::kVocabulary, "vocabulary"},
                                              {ColumnKind::kHash, "hash"},
                                              {ColumnKind::kKey, "key"}};

// How many numbers or keys a field has.
void ReadWidth(MapReader& reader, const DataSpec& data, ColumnSpec* column) {
  reader.Integer("width", 1, kMostNumbers, &column->numbers);
  if (column->numbers == 1) return;
  if (column->from.size() > 1)
    return reader.Fail(*reader.Find("width"), "width", "fields that are crossed are one key");
  if (HasLists(data)) return;
  reader.Fail(
      *reader.Find("width"), "width",
      absl::StrCat("a field of ", data.format, " has one ", column->kind == ColumnKind::kKey ? "key" : "number"),
      "name a column for each field");
}

// What a column that is no number has none of.
void RefuseNumbersKeys(MapReader& reader, const ColumnSpec& column) {
  if (column.kind != ColumnKind::kBuckets) {
    reader.FailOnlyWith("default", "a number or buckets",
                        column.kind == ColumnKind::kKey ? "an example may lack a key"
                                                        : "words that are missing have a category of their own");
  }
  const char* actual = column.is_category() ? "this column is a category" : "this column has keys";
  for (const char* key : {"clip", "log", "scale"}) reader.FailOnlyWith(key, "a number", actual);
  if (column.is_category()) reader.FailOnlyWith("width", "a number or a key", actual);
}

ColumnSpec ReadColumn(const YamlNode& node, const std::string& path, const DataSpec& data, JobErrors& errors) {
  ColumnSpec column;
  if (node.Is(YamlNode::Kind::kScalar)) {  // - age
    ReadName(node, path, errors, &column.name);
    column.from = {column.name};
    return column;
  }
  MapReader reader(node, path, errors);
  if (reader.Require("name") != nullptr) reader.Name("name", &column.name);
  for (const auto& [kind, key] : kColumnKinds) {
    if (reader.Find(key) == nullptr) continue;
    if (column.kind != ColumnKind::kNumber)
      reader.Fail(*node.Find(key), key, "a column is of one kind, and this one is of two");
    column.kind = kind;
  }
  reader.Choice("key", kKeyTypes, &column.key_is_text);
  ReadFrom(reader, errors, &column);
  const bool is_number = column.kind == ColumnKind::kNumber;
  double fill = 0;
  if (is_number || column.kind == ColumnKind::kBuckets) {
    if (const YamlNode* given = reader.Find("default"))
      if (ReadBounded(*given, reader.PathOf("default"), errors, &fill)) column.fill = fill;
  }
  if (!column.is_category()) ReadWidth(reader, data, &column);
  if (is_number) {
    ReadClip(reader, errors, &column);
    reader.Flag("log", &column.log);
    ReadScale(reader, errors, &column.mean, &column.deviation);
  } else {
    RefuseNumbersKeys(reader, column);
  }
  if (const YamlNode* buckets = reader.Find("buckets"))
    ReadBoundaries(*buckets, reader.PathOf("buckets"), errors, &column);
  column.vocabulary = ReadWords(reader.Find("vocabulary"), reader.PathOf("vocabulary"), kMostWords, errors);
  reader.Integer("hash", 1, kMostCategories, &column.hash);
  reader.Finish();
  return column;
}

void ReadColumns(const YamlNode* node, JobErrors& errors, DataSpec* data) {
  std::set<std::string> names = {"label"};
  for (const YamlNode& item : ItemsOf(node, "data.columns", kMostColumns, errors)) {
    const std::string path = absl::StrCat("data.columns.", data->columns.size());
    data->columns.push_back(ReadColumn(item, path, *data, errors));
    const std::string& name = data->columns.back().name;
    if (name.empty() || names.insert(name).second) continue;
    errors.Add(item, path + ".name",
               name == "label" ? "label is the name of what is learned" : absl::StrCat("two columns are named ", name));
  }
}

// Of each class a word, or a list of words.
void ReadClasses(const YamlNode& classes, JobErrors& errors, LabelSpec* label) {
  std::set<std::string> seen;
  for (const YamlNode& item : ItemsOf(&classes, "data.label.classes", kMostWords, errors)) {
    const std::string at = absl::StrCat("data.label.classes.", label->classes.size());
    std::vector<std::string> words(1);
    if (item.Is(YamlNode::Kind::kSequence)) {
      words = ReadWords(&item, at, kMostWords, errors);
    } else if (!ReadWord(item, at, errors, &words[0])) {
      continue;
    }
    for (const std::string& word : words) {
      if (seen.insert(LabelKey(word)).second) continue;
      errors.Add(item, at, absl::StrCat("'", word, "' stands there twice, where 1, +1 and 1.0 are the same"));
    }
    label->classes.push_back(std::move(words));
  }
}

// Nothing: it is not said, or is wrong.
std::optional<char> ReadSeparator(MapReader& reader, JobErrors& errors) {
  const YamlNode* node = reader.Find("separator");
  std::string separator;
  if (node == nullptr || !ReadWord(*node, reader.PathOf("separator"), errors, &separator)) return std::nullopt;
  if (separator == "tab" || separator == "\\t") separator = "\t";
  if (separator.size() == 1 && separator != "\"" && separator != "\n" && separator != "\r") return separator.front();
  reader.Fail(*node, "separator", "must be one character, or tab, and neither a quote nor a line's end");
  return std::nullopt;
}

// What stands between several classes in one text.
void ReadLabelSeparator(MapReader& reader, const std::string& format, JobErrors& errors, LabelSpec* label) {
  if (!label->is_multiple) return reader.FailOnlyWith("separator", "multiple: true", "this label is one class");
  if (format == kLibsvmFormat) label->separator = ',';
  if (reader.Find("separator") == nullptr && (format == kCsvFormat || format == kCriteoFormat)) {
    return reader.Fail(reader.node(), "separator", absl::StrCat("is missing: a field of ", format, " is one text"),
                       "say which character stands between the classes in it: separator: \";\"");
  }
  if (const std::optional<char> separator = ReadSeparator(reader, errors)) label->separator = separator;
}

// income, [spam, toxic], or a map with its classes.
void ReadLabel(const YamlNode& node, const std::string& format, JobErrors& errors, LabelSpec* label) {
  if (node.Is(YamlNode::Kind::kScalar)) {
    ReadWord(node, "data.label", errors, &label->column);
    return;
  }
  if (node.Is(YamlNode::Kind::kSequence)) {
    label->of_outputs = ReadWords(&node, "data.label", kMostWords, errors);
    return;
  }
  MapReader reader(node, "data.label", errors);
  if (const YamlNode* columns = reader.Find("columns")) {
    label->of_outputs = ReadWords(columns, "data.label.columns", kMostWords, errors);
    for (const char* key : {"column", "classes", "multiple", "separator", "scale"}) {
      reader.FailOnlyWith(key, "a single field", "columns name a field of 0 and 1 for each class");
    }
    return reader.Finish();
  }
  if (const YamlNode* column = reader.Require("column")) ReadWord(*column, "data.label.column", errors, &label->column);
  reader.Flag("multiple", &label->is_multiple);
  ReadLabelSeparator(reader, format, errors, label);
  const YamlNode* classes = reader.Find("classes");
  if (classes != nullptr) ReadClasses(*classes, errors, label);
  if (classes == nullptr && !label->is_multiple) {
    ReadScale(reader, errors, &label->mean, &label->deviation);
  } else {
    reader.FailOnlyWith("scale", "a number", "this label has classes");
  }
  reader.Finish();
}

void ReadWeight(MapReader& reader, JobErrors& errors, DataSpec* data) {
  const YamlNode* weight = reader.Find("weight");
  if (weight == nullptr) return;
  if (!weight->Is(YamlNode::Kind::kScalar)) {
    return reader.Fail(*weight, "weight", "must be the name of a field", "name the one field whose number it is");
  }
  if (!ReadWord(*weight, "data.weight", errors, &data->weight)) return;
  const std::vector<std::string> labels = data->label.fields();
  if (std::find(labels.begin(), labels.end(), data->weight) != labels.end()) {
    reader.Fail(*weight, "weight", "is a field of the label too",
                "name the field that says how much an example counts");
  }
}

bool ReadPlace(const YamlNode& node, const std::string& path, JobErrors& errors, std::string* place) {
  if (!ReadText(node, path, errors, place)) return false;
  const std::string fault = FaultOfPlace(*place);
  if (!fault.empty()) errors.Add(node, path, fault);
  return fault.empty();
}

// FILE, a list of them, or {files: either}.
void ReadFiles(const YamlNode& node, const std::string& path, JobErrors& errors, std::vector<std::string>* files) {
  if (node.Is(YamlNode::Kind::kMap)) {
    MapReader reader(node, path, errors);
    if (const YamlNode* inner = reader.Require("files")) {
      inner->Is(YamlNode::Kind::kMap) ? reader.Fail(*inner, "files", "must be a path or a list of paths")
                                      : ReadFiles(*inner, path + ".files", errors, files);
    }
    return reader.Finish();
  }
  std::string file;
  if (!node.Is(YamlNode::Kind::kSequence)) {
    if (ReadPlace(node, path, errors, &file)) files->push_back(file);
    return;
  }
  for (const YamlNode& item : ItemsOf(&node, path, kMostFiles, errors)) {
    if (ReadPlace(item, absl::StrCat(path, ".", files->size()), errors, &file)) files->push_back(file);
  }
}

void ReadPair(const YamlNode& node, const std::string& path, JobErrors& errors, SetFiles* pair) {
  MapReader reader(node, path, errors);
  for (const auto& [key, place] : {std::pair("images", &pair->images), std::pair("labels", &pair->labels)}) {
    if (const YamlNode* file = reader.Require(key)) ReadPlace(*file, reader.PathOf(key), errors, place);
  }
  reader.Finish();
}

void ReadCsv(MapReader& reader, JobErrors& errors, DataSpec* data) {
  data->separator = ReadSeparator(reader, errors);
  if (const int chosen = reader.Choose("decimal", {".", ","}); chosen >= 0) data->decimal = ".,"[chosen];
  if (data->decimal == data->separator.value_or(0)) {
    reader.Fail(*reader.Find("decimal"), "decimal", "is the separator too",
                "fields with commas need another separator");
  }
  bool header = false;
  if (reader.Flag("header", &header)) data->header = header;
  data->fields = ReadWords(reader.Find("fields"), "data.fields", kMostFields, errors);
  if (data->header.value_or(false) && !data->fields.empty()) {
    reader.Fail(*reader.Find("fields"), "fields", "name what the files' first records name already",
                "leave fields or header out");
  }
}

void RefuseKeys(MapReader& reader, const std::vector<const char*>& keys, const std::string& needed,
                const std::string& format) {
  for (const char* key : keys) reader.FailOnlyWith(key, needed, "that is " + format);
}

}  // namespace

void ReadData(const YamlNode& node, JobErrors& errors, DataSpec* data, LabelIs label_is) {
  MapReader reader(node, "data", errors);
  const std::vector<std::string> formats = {kIdxFormat,      kCsvFormat,      kCriteoFormat,  kJsonFormat,
                                            kLibsvmFormat,   kTfRecordFormat, kParquetFormat, kCifar10Format,
                                            kCifar100Format, kPythonFormat};
  if (const int chosen = reader.Choose("format", formats); chosen >= 0) data->format = formats[chosen];
  const bool is_python = data->format == kPythonFormat;
  if (data->has_records()) {
    ReadColumns(reader.Require("columns"), errors, data);
    const YamlNode* label = label_is == LabelIs::kNeeded ? reader.Require("label") : reader.Find("label");
    if (label != nullptr) ReadLabel(*label, data->format, errors, &data->label);
    ReadWeight(reader, errors, data);
    reader.Integer("skip", 0, kMostCount, &data->skip);
    data->order = DataOrder::kBlocks;
    if (data->format == kParquetFormat) data->block_examples = kParquetBlock;
  } else {
    RefuseKeys(reader, {"columns", "label", "weight", "skip"}, "a format with records", data->format);
  }
  if (data->format == kCsvFormat) {
    ReadCsv(reader, errors, data);
  } else {
    RefuseKeys(reader, {"separator", "decimal", "header", "fields"}, "format: csv", data->format);
  }
  reader.Choice("order", kDataOrders, &data->order);
  if (data->order == DataOrder::kBlocks) {
    reader.Integer("blockExamples", 1, 1'000'000, &data->block_examples);
  } else {
    reader.FailOnlyWith("blockExamples", "order: blocks", "that is examples");
  }
  if (is_python) {
    RefuseKeys(reader, {"train", "eval"}, "files of data", data->format);
    if (reader.Require("trainExamples") != nullptr)
      reader.Integer("trainExamples", 1, kMostCount, &data->train_examples);
    reader.Integer("evalExamples", 0, kMostCount, &data->eval_examples);
    return reader.Finish();
  }
  RefuseKeys(reader, {"trainExamples", "evalExamples"}, "format: python", data->format);
  const auto read = [&](const YamlNode* set, const std::string& path, SetFiles* files) {
    if (set == nullptr) return;
    data->has_records() ? ReadFiles(*set, path, errors, &files->files) : ReadPair(*set, path, errors, files);
  };
  read(reader.Require("train"), "data.train", &data->train);
  read(reader.Find("eval"), "data.eval", &data->eval);
  reader.Finish();
}

void CheckLabel(const YamlNode& node, const ModelSpec& model, JobErrors& errors, LabelSpec* label) {
  // A squared error of one output learns the label's number, of several its class.
  const int64_t outputs = InferOutputWidth(model).value_or(0);
  label->is_number = model.loss == Loss::kMeanSquaredError && label->classes.empty() && outputs == 1;
  if (!label->is_number && (label->mean != 0 || label->deviation != 1)) {
    errors.Add(node, "data.label.scale", "means something only where numbers are learned, but these labels are classes",
               "use the loss meanSquaredError and one output, or leave it out");
  }
  if (!label->is_set() || outputs == 0) return;  // or the model is at fault, which is told
  label->is_number = false;
  label->outputs = outputs;
  if (model.loss != Loss::kSigmoidCrossEntropy) {
    errors.Add(node, "data.label", "is a set of classes, which only the loss sigmoidCrossEntropy learns",
               "write model.loss: sigmoidCrossEntropy, or name one field with one class");
  }
  const size_t classes = label->is_multiple ? label->classes.size() : label->of_outputs.size();
  const bool fits =
      classes == static_cast<size_t>(outputs) || (label->is_multiple && classes < static_cast<size_t>(outputs));
  if (fits) return;
  errors.Add(node, label->is_multiple ? "data.label.classes" : "data.label",
             absl::StrCat("names ", classes, " of the classes, but the model's output, ", model.layers.back().name,
                          ", has ", Counted(static_cast<size_t>(outputs), "unit")),
             "give each class a unit");
}

NamedColumn FindNamedColumn(const DataSpec& data, const std::string& name) {
  const auto found = std::find_if(data.columns.begin(), data.columns.end(),
                                  [&](const ColumnSpec& column) { return column.name == name; });
  if (found != data.columns.end()) return {&*found, "", ""};
  std::vector<std::string> known;
  for (const ColumnSpec& column : data.columns) known.push_back(column.name);
  return {nullptr, absl::StrCat("'", CleanText(name, 64), "' is none of data.columns"), WhatWasMeant(name, known)};
}

void ReadInputColumns(MapReader& reader, const DataSpec& data, JobErrors& errors, InputSpec* input) {
  const YamlNode* columns = reader.Find("columns");
  if (columns == nullptr) {
    input->columns = {input->name};
  } else if (columns->Is(YamlNode::Kind::kScalar) && columns->text == kAllColumns) {
    for (const ColumnSpec& column : data.columns) {
      if (column.kind != ColumnKind::kKey) input->columns.push_back(column.name);
    }
    if (input->columns.empty() && !data.columns.empty()) {
      reader.Fail(*columns, "columns", "is all, but all of data.columns have keys, which do not lie in inputs",
                  "leave the input out, and read them by embedding layers");
    }
  } else {
    input->columns = ReadWords(columns, reader.PathOf("columns"), kMostColumns, errors);
  }
  reader.FailOnlyWith("shape", "data of another format", "that of an input of columns follows from them");
  if (data.columns.empty()) return;  // which is told
  int64_t width = 0;
  for (const std::string& name : input->columns) {
    NamedColumn named = FindNamedColumn(data, name);
    if (named.column != nullptr && named.column->kind == ColumnKind::kKey) {
      named.what = absl::StrCat("'", name, "' has keys, of which there are too many to lie in an input");
      named.remedy = absl::StrCat("read it by a layer: {embedding: {table: ..., column: ", name, "}}");
    } else if (named.column != nullptr) {
      width += named.column->width();
      continue;
    } else if (columns == nullptr) {
      named.what = "is missing: which of data.columns it has, side by side; " + named.what;
    }
    reader.Fail(columns == nullptr ? reader.node() : *columns, "columns", named.what, named.remedy);
  }
  if (width > 0) input->shape = {width};
}

}  // namespace downpour
