#include "data/jsonl_records.h"

#include <simdjson.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "data/json_value.h"
#include "data/record_fields.h"
#include "schema/text.h"

namespace downpour {
namespace {

namespace dom = simdjson::dom;

constexpr size_t kNamedLevels = 8;  // of objects in objects, for FieldsOf
constexpr size_t kMostNames = 100'000;
constexpr size_t kShown = 64;  // bytes of a key, in an error

// One object and those in it, as far as fields are wanted of them.
struct Level {
  FieldPlaces values;  // places of wanted fields
  FieldPlaces inner;   // of levels
};

absl::StatusOr<dom::object> Parse(std::string_view record, dom::parser* parser) {
  dom::element root;
  if (const auto error = parser->parse(record.data(), record.size()).get(root); error != simdjson::SUCCESS) {
    return absl::InvalidArgumentError(
        absl::StrCat("no JSON: ", simdjson::error_message(error), " (NaN and Infinity are none: write null)"));
  }
  dom::object object;
  if (root.get(object) == simdjson::SUCCESS) return object;
  return absl::InvalidArgumentError("no JSON object, with fields by name: {\"age\": 39, ...}");
}

class JsonRecordReader final : public RecordReader {
 public:
  JsonRecordReader(absl::Span<const std::string> wanted, const KeyWidths& keys)
      : levels_(1), lists_(wanted.size()), items_(KeyItemsFor(keys, wanted)) {
    for (size_t i = 0; i < wanted.size(); ++i) {
      size_t level = 0;
      std::string_view rest = wanted[i];
      for (;;) {
        levels_[level].values.emplace(rest, i);
        const size_t dot = rest.find('.');
        if (dot == std::string_view::npos) break;
        const auto [inner, is_new] = levels_[level].inner.emplace(rest.substr(0, dot), levels_.size());
        level = inner->second;
        if (is_new) levels_.emplace_back();
        rest.remove_prefix(dot + 1);
      }
    }
  }

  absl::Status Read(std::string_view record, absl::Span<FieldValue> values) override {
    const absl::StatusOr<dom::object> object = Parse(record, &parser_);
    if (!object.ok()) return object.status();
    std::fill(values.begin(), values.end(), FieldValue());
    is_there_.assign(values.size(), false);
    return Take(*object, levels_.front(), values);
  }

 private:
  absl::Status Take(const dom::object& object, const Level& level, absl::Span<FieldValue> values) {
    for (const auto [key, element] : object) {
      if (const auto wanted = level.values.find(key); wanted != level.values.end()) {
        const size_t place = wanted->second;
        const auto wrong = [name = key](const std::string& what) {
          return absl::InvalidArgumentError(absl::StrCat("field '", OneLine(name, kShown), "' ", what));
        };
        if (is_there_[place]) return wrong("stands twice");
        is_there_[place] = true;
        absl::StatusOr<FieldValue> value = JsonFieldValue(element, &lists_[place], &items_[place]);
        if (!value.ok()) return wrong(std::string(value.status().message()));
        values[place] = *value;
      }
      if (level.inner.empty() || !element.is_object()) continue;
      const auto inner = level.inner.find(key);
      if (inner == level.inner.end()) continue;
      const dom::object below = element.get_object().value_unsafe();
      if (absl::Status status = Take(below, levels_[inner->second], values); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  std::vector<Level> levels_;
  dom::parser parser_{kMostRecord};
  std::vector<std::vector<double>> lists_;  // of each wanted field
  std::vector<KeyItems> items_;             // likewise
  std::vector<bool> is_there_;              // in the record at hand
};

void AddFields(const dom::object& object, const std::string& before, size_t level, std::vector<std::string>* names) {
  for (const auto [key, element] : object) {
    if (names->size() == kMostNames) return;
    std::string name = before + std::string(key);
    if (element.is_object() && level < kNamedLevels) {
      AddFields(element.get_object().value_unsafe(), name + ".", level + 1, names);
    } else {
      names->push_back(std::move(name));
    }
  }
}

class JsonRecordFile final : public RecordFile {
 public:
  JsonRecordFile(std::string name, uint64_t begin, KeyWidths keys)
      : name_(std::move(name)), begin_(begin), keys_(std::move(keys)) {}

  void Know(KnownFields known) { known_ = std::move(known); }
  uint64_t begin() const override { return begin_; }
  uint64_t first_line() const override { return 1; }
  std::string layout() const override { return ""; }
  absl::StatusOr<CutRecord> Cut(std::string_view text, bool at_end) const override { return CutLine(text, at_end); }

  absl::StatusOr<std::unique_ptr<RecordReader>> NewReader(absl::Span<const std::string> wanted) const override {
    if (absl::Status status = known_.Check(name_, wanted); !status.ok()) return status;
    return std::make_unique<JsonRecordReader>(wanted, keys_);
  }
  absl::StatusOr<std::vector<std::string>> FieldsOf(std::string_view record) const override {
    dom::parser parser(kMostRecord);
    const absl::StatusOr<dom::object> object = Parse(record, &parser);
    if (!object.ok()) return object.status();
    std::vector<std::string> names;
    AddFields(*object, "", 1, &names);
    return names;
  }

 private:
  const std::string name_;
  const uint64_t begin_;
  const KeyWidths keys_;
  KnownFields known_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordFile>> OpenJsonRecords(const DataSpec& data, const ByteSource& source) {
  const absl::StatusOr<std::string> beginning = BeginningOf(source);
  if (!beginning.ok()) return beginning.status();
  auto file = std::make_unique<JsonRecordFile>(source.name(), ByteOrderMark(*beginning), KeyWidthsOf(data));
  absl::StatusOr<KnownFields> known = KnownFields::Of(data, source, *file);
  if (!known.ok()) return known.status();
  file->Know(*std::move(known));
  return file;
}

bool LooksLikeJson(std::string_view beginning) {
  beginning.remove_prefix(ByteOrderMark(beginning));
  const size_t first = beginning.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && beginning[first] == '{';
}

}  // namespace downpour
