#include "data/tfrecord_records.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "data/key_items.h"
#include "data/record_fields.h"
#include "schema/checkpoint_format.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr size_t kHead = 12;  // bytes before the data
constexpr size_t kTail = 4;
constexpr size_t kShown = 64;  // bytes of a key, in an error

template <typename T>
T LoadLittle(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

uint32_t MaskedChecksum(std::string_view bytes) {
  const uint32_t crc = Crc32c({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

bool HasGoodLength(std::string_view head) {
  return MaskedChecksum(head.substr(0, 8)) == LoadLittle<uint32_t>(head.data() + 8);
}

// Protocol buffers as bytes. An Example is four messages of one field each, so that this costs fewer lines than a
// schema, its compiler and its library would, takes no memory for what is not wanted, and is bounded by the record.
struct Wire {
  std::string_view rest;

  bool Varint(uint64_t* value) {
    *value = 0;
    for (size_t i = 0; i < std::min<size_t>(rest.size(), 10); ++i) {
      const auto byte = static_cast<uint8_t>(rest[i]);
      *value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
      if (byte < 0x80) {
        rest.remove_prefix(i + 1);
        return true;
      }
    }
    return false;
  }
  bool Take(uint64_t size, std::string_view* bytes) {
    if (size > rest.size()) return false;
    *bytes = rest.substr(0, size);
    rest.remove_prefix(size);
    return true;
  }
};

enum class WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct WireField {
  uint64_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t varint = 0;
  std::string_view bytes;  // of the other types
  bool is(uint64_t n, WireType t) const { return number == n && type == t; }
};

// Calls take(field) for each field of a message, which returns whether it can be so.
template <typename Take>
bool ForEachField(std::string_view message, Take take) {
  Wire wire{message};
  while (!wire.rest.empty()) {
    WireField field;
    uint64_t tag = 0, size = 0;
    if (!wire.Varint(&tag)) return false;
    field.number = tag >> 3;
    field.type = static_cast<WireType>(tag & 7);
    bool is_whole = false;
    switch (field.type) {
      case WireType::kVarint:
        is_whole = wire.Varint(&field.varint);
        break;
      case WireType::kFixed64:
        is_whole = wire.Take(8, &field.bytes);
        break;
      case WireType::kBytes:
        is_whole = wire.Varint(&size) && wire.Take(size, &field.bytes);
        break;
      case WireType::kFixed32:
        is_whole = wire.Take(4, &field.bytes);
        break;
    }
    if (!is_whole || field.number == 0 || !take(field)) return false;
  }
  return true;
}

// Calls take(key, feature) for each feature of an Example, which returns whether it can be so.
template <typename Take>
bool ForEachFeature(std::string_view example, Take take) {
  const auto take_entry = [&](const WireField& entry) {
    if (!entry.is(1, WireType::kBytes)) return true;
    std::string_view key, feature;
    const bool is_good = ForEachField(entry.bytes, [&](const WireField& part) {
      if (part.is(1, WireType::kBytes)) key = part.bytes;
      if (part.is(2, WireType::kBytes)) feature = part.bytes;
      return true;
    });
    return is_good && take(key, feature);
  };
  return ForEachField(example, [&](const WireField& features) {
    return !features.is(1, WireType::kBytes) || ForEachField(features.bytes, take_entry);
  });
}

// The values of one feature; `items` takes texts and whole numbers, if its field has keys.
class FeatureValues {
 public:
  FeatureValues(std::vector<double>* list, KeyItems* items) : list_(list), items_(items) {
    list->clear();
    items->Clear();
  }

  bool Add(std::string_view feature) {
    return ForEachField(feature, [&](const WireField& field) {
      if (field.type != WireType::kBytes || field.number > 3) return true;
      if (kind_ != field.number) count_ = 0, list_->clear(), items_->Clear();  // of several kinds the last one holds
      kind_ = field.number;
      return ForEachField(field.bytes, [&](const WireField& values) { return values.number != 1 || AddOne(values); });
    });
  }

  size_t count() const { return count_; }
  std::optional<FieldValue> value() const {
    if (count_ == 0) return FieldValue();
    if (items_->has_keys() && (kind_ != kFloat || items_->is_copied())) return items_->value();
    if (kind_ == kBytes) return count_ == 1 ? std::optional<FieldValue>(text_) : std::nullopt;
    if (count_ > 1) return FieldList(*list_);
    return kind_ == kInt64 ? FieldValue(integer_) : FieldValue(list_->front());
  }

 private:
  static constexpr uint64_t kBytes = 1, kFloat = 2, kInt64 = 3;

  bool AddOne(const WireField& values) {
    if (kind_ == kBytes) {
      text_ = values.bytes;
      ++count_;
      if (items_->has_keys()) items_->Add(text_);
      return values.type == WireType::kBytes;
    }
    if (kind_ == kFloat) {  // packed, or one by one
      if ((values.type != WireType::kBytes && values.type != WireType::kFixed32) || values.bytes.size() % 4 != 0) {
        return false;
      }
      const size_t before = list_->size(), more = values.bytes.size() / 4;
      if (items_->is_copied()) {
        for (size_t i = 0; i < more; ++i) items_->Add(double{LoadLittle<float>(values.bytes.data() + 4 * i)});
        count_ += more;
        return true;
      }
      list_->resize(before + more);
      for (size_t i = 0; i < more; ++i) (*list_)[before + i] = LoadLittle<float>(values.bytes.data() + 4 * i);
      count_ += more;
      return true;
    }
    if (values.type == WireType::kVarint) return AddInteger(values.varint);
    if (values.type != WireType::kBytes) return false;
    Wire wire{values.bytes};
    for (uint64_t varint = 0; !wire.rest.empty();) {
      if (!wire.Varint(&varint)) return false;
      AddInteger(varint);
    }
    return true;
  }
  bool AddInteger(uint64_t varint) {
    integer_ = static_cast<int64_t>(varint);
    items_->has_keys() ? items_->Add(integer_) : list_->push_back(static_cast<double>(integer_));
    ++count_;
    return true;
  }

  std::vector<double>* const list_;
  KeyItems* const items_;
  uint64_t kind_ = 0;
  size_t count_ = 0;
  std::string_view text_;
  int64_t integer_ = 0;
};

absl::StatusOr<std::string_view> DataOf(std::string_view record) {
  const std::string_view data = record.substr(kHead, record.size() - kHead - kTail);
  if (MaskedChecksum(data) == LoadLittle<uint32_t>(data.data() + data.size())) return data;
  return absl::DataLossError("the record's checksum is wrong: its data are damaged");
}

absl::Status NoExample() {
  return absl::InvalidArgumentError("the record is no tf.train.Example: write records of Example.SerializeToString()");
}

class TfRecordReader final : public RecordReader {
 public:
  TfRecordReader(absl::Span<const std::string> wanted, const KeyWidths& keys)
      : lists_(wanted.size()), items_(KeyItemsFor(keys, wanted)) {
    for (size_t i = 0; i < wanted.size(); ++i) places_.emplace(wanted[i], i);
  }

  absl::Status Read(std::string_view record, absl::Span<FieldValue> values) override {
    const absl::StatusOr<std::string_view> data = DataOf(record);
    if (!data.ok()) return data.status();
    std::fill(values.begin(), values.end(), FieldValue());
    absl::Status wrong;
    const bool is_good = ForEachFeature(*data, [&](std::string_view key, std::string_view feature) {
      const auto place = places_.find(key);
      if (place == places_.end()) return true;
      FeatureValues found(&lists_[place->second], &items_[place->second]);
      if (!found.Add(feature)) return false;
      if (const std::optional<FieldValue> value = found.value()) {
        values[place->second] = *value;
      } else {
        wrong = absl::InvalidArgumentError(absl::StrCat("feature '", OneLine(key, kShown), "' has ", found.count(),
                                                        " values of bytes, and a column takes one"));
      }
      return true;
    });
    return is_good ? wrong : NoExample();
  }

 private:
  FieldPlaces places_;
  std::vector<std::vector<double>> lists_;  // of each wanted field
  std::vector<KeyItems> items_;             // likewise
};

class TfRecordFile final : public RecordFile {
 public:
  TfRecordFile(std::string name, KeyWidths keys) : name_(std::move(name)), keys_(std::move(keys)) {}

  void Know(KnownFields known) { known_ = std::move(known); }
  std::string layout() const override { return ""; }

  absl::StatusOr<CutRecord> Cut(std::string_view text, bool) const override {
    if (text.size() < kHead) return CutRecord{};
    if (!HasGoodLength(text)) {
      return absl::DataLossError(
          "the checksum of a record's length is wrong: the file is damaged from here on, or is "
          "no TFRecord file (one that is packed by ZLIB must be unpacked, or packed by gzip)");
    }
    const auto length = LoadLittle<uint64_t>(text.data());
    if (length > kMostRecord - kHead - kTail) {
      return absl::InvalidArgumentError(
          absl::StrCat("a record of ", length, " bytes, and at most ", kMostRecord - kHead - kTail, " are read"));
    }
    const size_t size = kHead + length + kTail;
    return text.size() < size ? CutRecord{} : CutRecord{size};
  }

  absl::StatusOr<std::unique_ptr<RecordReader>> NewReader(absl::Span<const std::string> wanted) const override {
    if (absl::Status status = known_.Check(name_, wanted); !status.ok()) return status;
    return std::make_unique<TfRecordReader>(wanted, keys_);
  }
  absl::StatusOr<std::vector<std::string>> FieldsOf(std::string_view record) const override {
    const absl::StatusOr<std::string_view> data = DataOf(record);
    if (!data.ok()) return data.status();
    std::vector<std::string> names;
    const bool is_good = ForEachFeature(*data, [&](std::string_view key, std::string_view) {
      names.emplace_back(key);
      return true;
    });
    if (!is_good) return NoExample();
    std::sort(names.begin(), names.end());  // writers have them in the order of a hash
    return names;
  }

 private:
  const std::string name_;
  const KeyWidths keys_;
  KnownFields known_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordFile>> OpenTfRecords(const DataSpec& data, const ByteSource& source) {
  auto file = std::make_unique<TfRecordFile>(source.name(), KeyWidthsOf(data));
  absl::StatusOr<KnownFields> known = KnownFields::Of(data, source, *file);
  if (!known.ok()) return known.status();
  file->Know(*std::move(known));
  return file;
}

void AppendTfRecord(std::string_view data, std::string* to) {
  const auto append = [to](auto number) { to->append(reinterpret_cast<const char*>(&number), sizeof(number)); };
  const auto length = uint64_t{data.size()};
  append(length);
  append(MaskedChecksum({reinterpret_cast<const char*>(&length), sizeof(length)}));
  to->append(data);
  append(MaskedChecksum(data));
}

bool LooksLikeTfRecord(std::string_view beginning) { return beginning.size() >= kHead && HasGoodLength(beginning); }

}  // namespace downpour
