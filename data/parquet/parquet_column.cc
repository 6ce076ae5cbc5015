#include "data/parquet/parquet_column.h"

#include <parquet/exception.h>
#include <parquet/types.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "absl/numeric/int128.h"
#include "data/record_format.h"

namespace downpour {
namespace {

constexpr int64_t kAtOnce = 1024;  // levels
constexpr int64_t kNanosecondsOfDay = 86'400'000'000'000;
constexpr int64_t kJulianDayOf1970 = 2'440'588;
constexpr size_t kMostDecimalBytes = 16;

// What the bytes of a value stand for.
enum class Meaning { kPlain, kUnsigned, kDecimal, kHalf };

struct Kind {
  FieldColumn::Type type;
  Meaning meaning = Meaning::kPlain;
  double scale = 1;   // of decimals
  size_t length = 0;  // of values of a fixed length
};

double HalfToDouble(const uint8_t* bytes) {
  const unsigned bits = bytes[0] | bytes[1] << 8, exponent = bits >> 10 & 31, fraction = bits & 1023;
  double number =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, static_cast<int>(exponent) - 25);
  if (exponent == 31) number = fraction == 0 ? INFINITY : NAN;
  return bits >> 15 != 0 ? -number : number;
}

// Two's complement, with the highest byte first.
double DecimalToDouble(const uint8_t* bytes, size_t length) {
  if (length == 0) return 0;
  if (length > kMostDecimalBytes) throw parquet::ParquetException("a decimal of more than 38 digits");
  absl::int128 number = static_cast<int8_t>(bytes[0]);
  for (size_t i = 1; i < length; ++i) number = number * 256 + bytes[i];
  return static_cast<double>(number);
}

void AddText(const uint8_t* bytes, size_t length, FieldColumn* to) {
  if (length > kMostRecord || to->text.size() + length > kMostTextOfRead) {
    throw parquet::ParquetException("texts of more than " + std::to_string(kMostRecord >> 20) + " MiB in one row or " +
                                    std::to_string(kMostTextOfRead >> 20) + " MiB in rows that are read together");
  }
  to->text.append(reinterpret_cast<const char*>(bytes), length);
  to->text_ends.push_back(to->text.size());
}

void AddBytes(const uint8_t* bytes, size_t length, const Kind& kind, FieldColumn* to) {
  if (kind.meaning == Meaning::kDecimal) {
    to->doubles.push_back(DecimalToDouble(bytes, length) * kind.scale);
  } else if (kind.meaning == Meaning::kHalf) {
    to->doubles.push_back(HalfToDouble(bytes));
  } else {
    AddText(bytes, length, to);
  }
}

void AddValue(bool value, const Kind&, FieldColumn* to) { to->integers.push_back(value); }
void AddValue(float value, const Kind&, FieldColumn* to) { to->doubles.push_back(value); }
void AddValue(double value, const Kind&, FieldColumn* to) { to->doubles.push_back(value); }
void AddValue(int64_t value, const Kind& kind, FieldColumn* to) {
  if (kind.meaning == Meaning::kDecimal) {
    to->doubles.push_back(static_cast<double>(value) * kind.scale);
  } else {
    to->integers.push_back(value);
  }
}
void AddValue(int32_t value, const Kind& kind, FieldColumn* to) {
  const bool is_unsigned = kind.meaning == Meaning::kUnsigned;
  AddValue(is_unsigned ? int64_t{static_cast<uint32_t>(value)} : int64_t{value}, kind, to);
}
void AddValue(const parquet::Int96& value, const Kind&, FieldColumn* to) {
  int64_t nanoseconds = 0;
  std::memcpy(&nanoseconds, value.value.data(), sizeof(nanoseconds));
  const auto days = static_cast<uint64_t>(int64_t{value.value[2]} - kJulianDayOf1970);
  to->integers.push_back(static_cast<int64_t>(days * kNanosecondsOfDay + static_cast<uint64_t>(nanoseconds)));
}
void AddValue(const parquet::ByteArray& value, const Kind& kind, FieldColumn* to) {
  AddBytes(value.ptr, value.len, kind, to);
}
void AddValue(const parquet::FixedLenByteArray& value, const Kind& kind, FieldColumn* to) {
  AddBytes(value.ptr, kind.length, kind, to);
}
// For a value that is missing.
void AddNothing(FieldColumn* to) {
  switch (to->type) {
    case FieldColumn::Type::kDouble:
      return to->doubles.push_back(NAN);
    case FieldColumn::Type::kText:
      return to->text_ends.push_back(to->text.size());
    default:
      return to->integers.push_back(0);
  }
}

// The level from which on the innermost list has an element.
int16_t ElementLevel(const parquet::ColumnDescriptor& column) {
  int16_t level = column.max_definition_level();
  for (const parquet::schema::Node* node = column.schema_node().get(); !node->is_repeated(); node = node->parent()) {
    level -= node->is_optional();
    if (node->parent() == nullptr) break;
  }
  return level;
}

template <typename DType>
class ColumnOf final : public ParquetColumn {
 public:
  using Value = typename DType::c_type;

  ColumnOf(const parquet::ColumnDescriptor* column, const Kind& kind, std::unique_ptr<parquet::PageReader> pages,
           arrow::MemoryPool* pool)
      : kind_(kind),
        most_(column->max_definition_level()),
        is_list_(column->max_repetition_level() > 0),
        element_level_(is_list_ ? ElementLevel(*column) : int16_t{0}),
        values_(std::make_unique<Value[]>(kAtOnce)),
        defined_(kAtOnce),
        repeated_(kAtOnce) {
    if (!is_list_) {
      pages->set_data_page_filter([this](const parquet::DataPageStats& page) {
        page_begin_ = page_end_;
        page_end_ += static_cast<uint64_t>(std::max(0, page.num_values));
        return page_end_ <= target_;
      });
    }
    reader_ = std::static_pointer_cast<parquet::TypedColumnReader<DType>>(
        parquet::ColumnReader::Make(column, std::move(pages), pool));
  }

  void Skip(uint64_t rows) override {
    if (is_list_) {
      FieldColumn dropped;  // one row at a time: the bounds are those of rows that are read together
      for (; rows > 0; --rows) {
        Prepare(&dropped);
        ReadLists(1, &dropped);
      }
      return;
    }
    target_ = row_ + rows;
    while (row_ < target_) {
      if (row_ == page_end_) {  // the filter passes over pages
        if (!reader_->HasNext()) return Lacks();
        row_ = page_begin_;
      }
      const uint64_t some = std::min(target_, page_end_) - row_;
      if (some > 0 && reader_->Skip(static_cast<int64_t>(some)) != static_cast<int64_t>(some)) return Lacks();
      row_ += some;
    }
  }

  void Read(uint32_t rows, FieldColumn* to) override {
    Prepare(to);
    if (is_list_) return ReadLists(rows, to);
    for (uint64_t left = rows; left > 0;) {
      const uint64_t levels = Fill(std::min<uint64_t>(left, kAtOnce));
      if (levels == 0) return Lacks();
      AddScalars(levels, to);
      left -= levels;
      row_ += levels;
    }
  }

 private:
  [[noreturn]] static void Lacks() {
    throw parquet::ParquetException("a column has fewer values than its footer says");
  }

  void Prepare(FieldColumn* to) const {
    to->Clear();
    to->type = kind_.type;
    to->is_list = is_list_;
  }

  // How many levels were read. `found_` values are of those that are there.
  uint64_t Fill(uint64_t most) {
    const int64_t levels = reader_->ReadBatch(static_cast<int64_t>(most), most_ > 0 ? defined_.data() : nullptr,
                                              is_list_ ? repeated_.data() : nullptr, values_.get(), &found_);
    return static_cast<uint64_t>(std::max<int64_t>(0, levels));
  }

  void AddScalars(uint64_t levels, FieldColumn* to) {
    const bool has_all = found_ == static_cast<int64_t>(levels);
    if (has_all && to->is_there.empty()) {
      for (uint64_t i = 0; i < levels; ++i) AddValue(values_[i], kind_, to);
      return;
    }
    to->is_there.resize(to->values(), true);
    int64_t value = 0;
    for (uint64_t i = 0; i < levels; ++i) {
      const bool is_there = has_all || defined_[i] == most_;
      if (is_there && value == found_) return Lacks();
      is_there ? AddValue(values_[value++], kind_, to) : AddNothing(to);
      to->is_there.push_back(is_there);
    }
  }

  // A row ends where the next one begins, or with the column.
  void ReadLists(uint64_t rows, FieldColumn* to) {
    for (;;) {
      if (at_ == levels_) {
        levels_ = Fill(kAtOnce);
        at_ = value_ = 0;
        if (levels_ == 0) {
          if (!is_open_) return Lacks();
          is_open_ = false;
          to->ends.push_back(to->values());
          return to->ends.size() == rows ? void() : Lacks();
        }
      }
      for (; at_ < levels_; ++at_) {
        if (repeated_[at_] == 0 && is_open_) {
          is_open_ = false;
          to->ends.push_back(to->values());
          if (to->ends.size() == rows) return;
        }
        if (repeated_[at_] == 0) is_open_ = true;
        if (!is_open_) throw parquet::ParquetException("a list begins within a row");
        AddElement(to);
      }
    }
  }

  void AddElement(FieldColumn* to) {
    if (defined_[at_] < element_level_) return;  // a list that is empty, or missing
    const bool is_there = defined_[at_] == most_;
    if (to->values() >= kMostValuesOfRead) {
      throw parquet::ParquetException("lists of more than " + std::to_string(kMostValuesOfRead) +
                                      " values in rows that are read together");
    }
    if (is_there && static_cast<int64_t>(value_) == found_) return Lacks();
    if (!is_there || !to->is_there.empty()) {
      to->is_there.resize(to->values(), true);
      to->is_there.push_back(is_there);
    }
    is_there ? AddValue(values_[value_++], kind_, to) : AddNothing(to);
  }

  const Kind kind_;
  const int16_t most_;  // the level of a value that is there
  const bool is_list_;
  const int16_t element_level_;
  std::shared_ptr<parquet::TypedColumnReader<DType>> reader_;
  std::unique_ptr<Value[]> values_;
  std::vector<int16_t> defined_, repeated_;
  int64_t found_ = 0;
  uint64_t row_ = 0;                                     // the next one, of columns without lists, as are the next
  uint64_t page_begin_ = 0, page_end_ = 0, target_ = 0;  // pages that end at or before the target are passed over
  uint64_t levels_ = 0, at_ = 0, value_ = 0;             // of lists: what was read, and how far it was taken
  bool is_open_ = false;                                 // a row was begun that may have more
};

// Of whole numbers and of bytes; nothing for the rest.
std::optional<Kind> KindOf(const parquet::ColumnDescriptor& column) {
  using Type = FieldColumn::Type;
  const auto& logical = column.logical_type();
  const bool is_decimal = logical != nullptr && logical->is_decimal();
  Kind kind{Type::kInt64};
  kind.length = static_cast<size_t>(std::max(0, column.type_length()));
  if (is_decimal) {
    kind.meaning = Meaning::kDecimal;
    kind.scale = std::pow(10.0, -column.type_scale());
    kind.type = Type::kDouble;
  }
  switch (column.physical_type()) {
    case parquet::Type::BOOLEAN:
      return Kind{Type::kBool};
    case parquet::Type::INT32:
    case parquet::Type::INT64:
      if (logical != nullptr && logical->is_int() &&
          !static_cast<const parquet::IntLogicalType&>(*logical).is_signed()) {
        kind.meaning = Meaning::kUnsigned;
        kind.type = column.physical_type() == parquet::Type::INT64 ? Type::kUint64 : Type::kInt64;
      }
      return kind;
    case parquet::Type::INT96:
      return Kind{Type::kInt64};
    case parquet::Type::FLOAT:
    case parquet::Type::DOUBLE:
      return Kind{Type::kDouble};
    case parquet::Type::FIXED_LEN_BYTE_ARRAY:
      if (logical != nullptr && logical->is_float16() && kind.length == 2)
        return Kind{Type::kDouble, Meaning::kHalf, 1, 2};
      [[fallthrough]];
    case parquet::Type::BYTE_ARRAY:
      if (!is_decimal) kind.type = Type::kText;
      return kind;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::unique_ptr<ParquetColumn> ParquetColumn::Make(const parquet::ColumnDescriptor* column,
                                                   std::unique_ptr<parquet::PageReader> pages,
                                                   arrow::MemoryPool* pool) {
  const std::optional<Kind> kind = KindOf(*column);
  if (!kind) return nullptr;
  const auto make = [&]<typename DType>(DType) -> std::unique_ptr<ParquetColumn> {
    return std::make_unique<ColumnOf<DType>>(column, *kind, std::move(pages), pool);
  };
  switch (column->physical_type()) {
    case parquet::Type::BOOLEAN:
      return make(parquet::BooleanType());
    case parquet::Type::INT32:
      return make(parquet::Int32Type());
    case parquet::Type::INT64:
      return make(parquet::Int64Type());
    case parquet::Type::INT96:
      return make(parquet::Int96Type());
    case parquet::Type::FLOAT:
      return make(parquet::FloatType());
    case parquet::Type::DOUBLE:
      return make(parquet::DoubleType());
    case parquet::Type::BYTE_ARRAY:
      return make(parquet::ByteArrayType());
    default:
      return make(parquet::FLBAType());
  }
}

}  // namespace downpour
