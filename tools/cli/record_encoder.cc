#include "tools/cli/record_encoder.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_format.h"
#include "data/key_items.h"
#include "data/tfrecord_records.h"

namespace downpour {
namespace {

template <typename Number>
void AppendNumber(Number number, std::string* to) {
  char digits[40];
  to->append(digits, std::to_chars(std::begin(digits), std::end(digits), number).ptr);
}

// With a point or an exponent, so that a reader takes it for what it is.
void AppendDouble(double number, std::string* to) {
  const size_t before = to->size();
  AppendNumber(number, to);
  if (to->find_first_not_of("-0123456789", before) == std::string::npos) to->append(".0");
}

// In a field of whole numbers whose file has no types.
bool IsWhole(const EncodedField& field, double number) {
  return field.type == FieldType::kInteger && number == std::floor(number);
}

// Calls take(item) for each item of a list, or for the one that there is.
template <typename Take>
void ForEachItem(const FieldValue& value, const Take& take) {
  if (const auto* items = std::get_if<FieldItems>(&value)) {
    for (const FieldItem& item : *items) take(item);
  } else if (const auto* numbers = std::get_if<FieldList>(&value)) {
    for (const double number : *numbers) take(FieldItem(number));
  } else if (!std::holds_alternative<std::monostate>(value)) {
    take(ItemOf(value));
  }
}

class CsvEncoder final : public RecordEncoder {
 public:
  explicit CsvEncoder(std::vector<EncodedField> fields) : fields_(std::move(fields)) {}

  std::string header() const override {
    std::string line;
    for (size_t i = 0; i < fields_.size(); ++i) {
      if (i > 0) line += ',';
      AppendText(fields_[i].name, &line);
    }
    return line + '\n';
  }

  void Add(absl::Span<const FieldValue> values, std::string* to) override {
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) *to += ',';
      const FieldItem item = ItemOf(values[i]);
      if (const auto* text = std::get_if<std::string_view>(&item)) {
        AppendText(*text, to);
      } else if (const auto* number = std::get_if<double>(&item)) {
        AppendNumberOf(fields_[i], *number, to);
      } else if (const auto* integer = std::get_if<int64_t>(&item)) {
        AppendNumber(*integer, to);
      } else if (const auto* huge = std::get_if<uint64_t>(&item)) {
        AppendNumber(*huge, to);
      } else if (const auto* truth = std::get_if<bool>(&item)) {
        to->append(*truth ? "true" : "false");
      } else {
        AppendText("", to);
      }
    }
    *to += '\n';
  }

 private:
  void AppendNumberOf(const EncodedField& field, double number, std::string* to) const {
    if (std::isnan(number)) return AppendText("", to);
    IsWhole(field, number) ? AppendNumber(static_cast<int64_t>(number), to) : AppendDouble(number, to);
  }

  void AppendText(std::string_view text, std::string* to) const {
    const bool has_blank_end = !text.empty() && (std::strchr(" \t", text.front()) || std::strchr(" \t", text.back()));
    const bool is_quoted = has_blank_end || text.find_first_of(",\"\r\n;|\t") != std::string_view::npos ||
                           text.starts_with("sep=") || text.starts_with("\xef\xbb\xbf") ||
                           (text.empty() && fields_.size() == 1);  // or the line would be empty, and no record
    if (!is_quoted) return void(to->append(text));
    *to += '"';
    for (const char c : text) to->append(c == '"' ? 2 : 1, c);
    *to += '"';
  }

  const std::vector<EncodedField> fields_;
};

void AppendJsonText(std::string_view text, std::string* to) {
  *to += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
      case '\\':
        *to += '\\';
        *to += c;
        break;
      case '\n':
        to->append("\\n");
        break;
      default:
        static_cast<unsigned char>(c) < 0x20 ? absl::StrAppendFormat(to, "\\u%04x", c) : to->append(1, c);
    }
  }
  *to += '"';
}

class JsonEncoder final : public RecordEncoder {
 public:
  explicit JsonEncoder(std::vector<EncodedField> fields) : fields_(std::move(fields)) {
    for (const EncodedField& field : fields_) {
      std::string& key = keys_.emplace_back(keys_.empty() ? "{" : ", ");
      AppendJsonText(field.name, &key);
      key.append(": ");
    }
  }

  void Add(absl::Span<const FieldValue> values, std::string* to) override {
    if (fields_.empty()) *to += '{';
    for (size_t i = 0; i < values.size(); ++i) {
      to->append(keys_[i]);
      if (!fields_[i].is_list || std::holds_alternative<std::monostate>(values[i])) {
        AppendItem(fields_[i], ItemOf(values[i]), to);
        continue;
      }
      *to += '[';
      const size_t begin = to->size();
      ForEachItem(values[i], [&](const FieldItem& item) {
        if (to->size() > begin) to->append(", ");
        AppendItem(fields_[i], item, to);
      });
      *to += ']';
    }
    to->append("}\n");
  }

 private:
  static void AppendItem(const EncodedField& field, const FieldItem& item, std::string* to) {
    if (const auto* text = std::get_if<std::string_view>(&item)) {
      AppendJsonText(*text, to);
    } else if (const auto* integer = std::get_if<int64_t>(&item)) {
      AppendNumber(*integer, to);
    } else if (const auto* huge = std::get_if<uint64_t>(&item)) {
      AppendNumber(*huge, to);
    } else if (const auto* truth = std::get_if<bool>(&item)) {
      to->append(*truth ? "true" : "false");
    } else if (const auto* number = std::get_if<double>(&item); number != nullptr && !std::isnan(*number)) {
      IsWhole(field, *number) ? AppendNumber(static_cast<int64_t>(*number), to) : AppendDouble(*number, to);
    } else {
      to->append("null");
    }
  }

  const std::vector<EncodedField> fields_;
  std::vector<std::string> keys_;  // with what stands before and behind them
};

void AppendVarint(uint64_t value, std::string* to) {
  for (; value >= 0x80; value >>= 7) *to += static_cast<char>(value | 0x80);
  *to += static_cast<char>(value);
}

// A field of a message that is bytes, or a message.
void AppendBytes(uint64_t number, std::string_view bytes, std::string* to) {
  AppendVarint(number << 3 | 2, to);
  AppendVarint(bytes.size(), to);
  to->append(bytes);
}

class TfRecordEncoder final : public RecordEncoder {
 public:
  explicit TfRecordEncoder(std::vector<EncodedField> fields) : fields_(std::move(fields)) {}

  void Add(absl::Span<const FieldValue> values, std::string* to) override {
    features_.clear();
    for (size_t i = 0; i < values.size(); ++i) {
      const uint64_t kind = KindOf(fields_[i].type);
      values_.clear();
      ForEachItem(values[i], [&](const FieldItem& item) { AppendItem(kind, item); });
      feature_.clear();
      if (!std::holds_alternative<std::monostate>(values[i])) {
        list_.clear();
        if (kind != kBytes) AppendBytes(1, values_, &list_);
        AppendBytes(kind, kind == kBytes ? values_ : list_, &feature_);
      }
      entry_.clear();
      AppendBytes(1, fields_[i].name, &entry_);
      AppendBytes(2, feature_, &entry_);
      AppendBytes(1, entry_, &features_);
    }
    example_.clear();
    AppendBytes(1, features_, &example_);
    AppendTfRecord(example_, to);
  }

 private:
  static constexpr uint64_t kBytes = 1, kFloat = 2, kInteger = 3;

  static uint64_t KindOf(FieldType type) {
    if (type == FieldType::kNumber) return kFloat;
    return type == FieldType::kInteger || type == FieldType::kTruth ? kInteger : kBytes;
  }

  void AppendItem(uint64_t kind, const FieldItem& item) {
    if (kind == kFloat) {
      const float number = FloatOf(item);
      values_.append(reinterpret_cast<const char*>(&number), sizeof(number));
    } else if (kind == kInteger) {
      AppendVarint(static_cast<uint64_t>(IntegerOf(item)), &values_);
    } else if (const auto* text = std::get_if<std::string_view>(&item)) {
      AppendBytes(1, *text, &values_);
    }
  }
  static float FloatOf(const FieldItem& item) {
    if (const auto* number = std::get_if<double>(&item)) return static_cast<float>(*number);
    if (const auto* integer = std::get_if<int64_t>(&item)) return static_cast<float>(*integer);
    if (const auto* huge = std::get_if<uint64_t>(&item)) return static_cast<float>(*huge);
    return std::numeric_limits<float>::quiet_NaN();
  }
  static int64_t IntegerOf(const FieldItem& item) {
    if (const auto* integer = std::get_if<int64_t>(&item)) return *integer;
    if (const auto* number = std::get_if<double>(&item)) return static_cast<int64_t>(*number);
    const auto* truth = std::get_if<bool>(&item);
    return truth != nullptr && *truth ? 1 : 0;
  }

  const std::vector<EncodedField> fields_;
  std::string values_, list_, feature_, entry_, features_, example_;  // the last record's, for their memory
};

}  // namespace

std::unique_ptr<RecordEncoder> NewCsvEncoder(std::vector<EncodedField> fields) {
  return std::make_unique<CsvEncoder>(std::move(fields));
}
std::unique_ptr<RecordEncoder> NewJsonEncoder(std::vector<EncodedField> fields) {
  return std::make_unique<JsonEncoder>(std::move(fields));
}
std::unique_ptr<RecordEncoder> NewTfRecordEncoder(std::vector<EncodedField> fields) {
  return std::make_unique<TfRecordEncoder>(std::move(fields));
}

}  // namespace downpour
