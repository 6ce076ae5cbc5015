#include "bench/bench_data_formats.h"

#include <charconv>
#include <cstring>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "data/word_hash.h"
#include "runtime/prng.h"
#include "schema/checkpoint_format.h"

namespace downpour {
namespace {

constexpr int kNumbers = 13, kWords = 7;  // of JSON
constexpr uint64_t kCategories = 1 << 20;
constexpr int kIndices = 200;  // of libsvm
constexpr int kPixels = 784;   // of TFRecord

ColumnSpec ColumnOf(const std::string& name, int64_t numbers = 1) {
  ColumnSpec column;
  column.name = name;
  column.from = {name};
  column.numbers = numbers;
  return column;
}

DataSpec JsonSpec() {
  DataSpec data;
  data.format = kJsonFormat;
  data.label.column = "label";
  for (int i = 0; i < kNumbers; ++i) data.columns.push_back(ColumnOf(absl::StrCat("n", i)));
  for (int i = 0; i < kWords; ++i) {
    ColumnSpec& column = data.columns.emplace_back(ColumnOf(absl::StrCat("w", i)));
    column.kind = ColumnKind::kHash;
    column.hash = kCategories;
  }
  return data;
}

std::string WriteJson(uint64_t bytes, uint64_t* rows) {
  std::string text;
  Prng draw(1);
  for (*rows = 0; text.size() < bytes; ++*rows) {
    absl::StrAppend(&text, "{\"label\":", draw.Below(2));
    for (int i = 0; i < kNumbers; ++i) absl::StrAppendFormat(&text, ",\"n%d\":%.6f", i, draw.Uniform() * 20 - 10);
    for (int i = 0; i < kWords; ++i)
      absl::StrAppendFormat(&text, ",\"w%d\":\"%08x\"", i, draw.Below(uint64_t{1} << 32));
    text += "}\n";
  }
  return text;
}

uint64_t BareJson(const std::string& bytes) {
  uint64_t found = 0;
  std::vector<float> numbers(kNumbers + 1);
  for (const char *at = bytes.data(), *const end = at + bytes.size(); at < end; at += 2) {
    for (int field = 0; field <= kNumbers + kWords; ++field) {
      while (*at != ':') ++at;
      ++at;
      if (field <= kNumbers) {
        at = std::from_chars(at, end, numbers[field]).ptr;
        continue;
      }
      const char* const stop = static_cast<const char*>(std::memchr(at + 1, '"', static_cast<size_t>(end - at - 1)));
      found += HashWord({at + 1, stop}) % kCategories;
      at = stop + 1;
    }
  }
  return found + static_cast<uint64_t>(numbers[0]);
}

DataSpec LibsvmSpec() {
  DataSpec data;
  data.format = kLibsvmFormat;
  data.label.column = "label";
  data.columns.push_back(ColumnOf("features", kIndices));
  return data;
}

std::string WriteLibsvm(uint64_t bytes, uint64_t* rows) {
  std::string text;
  Prng draw(1);
  for (*rows = 0; text.size() < bytes; ++*rows) {
    absl::StrAppend(&text, draw.Below(2));
    for (uint64_t index = 1 + draw.Below(10); index <= kIndices; index += 1 + draw.Below(10)) {
      absl::StrAppendFormat(&text, " %d:%.6f", index, draw.Uniform() * 20 - 10);
    }
    text += "\n";
  }
  return text;
}

uint64_t BareLibsvm(const std::string& bytes) {
  uint64_t found = 0;
  std::vector<float> row(kIndices);
  for (const char *at = bytes.data(), *const end = at + bytes.size(); at < end; ++at) {
    std::fill(row.begin(), row.end(), 0.0f);
    int label = 0, index = 0;
    at = std::from_chars(at, end, label).ptr;
    while (*at == ' ') {
      at = std::from_chars(at + 1, end, index).ptr;
      at = std::from_chars(at + 1, end, row[static_cast<size_t>(index - 1)]).ptr;
    }
    found += static_cast<uint64_t>(label) + (row[7] > 0 ? 1 : 0);
  }
  return found;
}

uint32_t Checksum(std::string_view bytes) {
  return Crc32c({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
}

// The bytes of a message's field with a length: of less than 2^14 bytes.
std::string Field(char number, std::string_view bytes) {
  const std::string tag(1, static_cast<char>(number << 3 | 2));
  const char low = static_cast<char>(bytes.size() % 128 + 128), high = static_cast<char>(bytes.size() / 128);
  return absl::StrCat(tag, std::string{low, high}, std::string(bytes));
}

template <typename T>
std::string Raw(const T* values, size_t count = 1) {
  return {reinterpret_cast<const char*>(values), count * sizeof(T)};
}

std::string TfRecord(const std::string& data) {
  const uint64_t size = data.size();
  const auto masked = [](std::string_view bytes) {
    const uint32_t crc = Checksum(bytes);
    const uint32_t sum = ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
    return Raw(&sum);
  };
  const std::string length = Raw(&size);
  return length + masked(length) + data + masked(data);
}

DataSpec TfRecordSpec() {
  DataSpec data;
  data.format = kTfRecordFormat;
  data.label.column = "class";
  data.columns.push_back(ColumnOf("image", kPixels));
  return data;
}

std::string WriteTfRecord(uint64_t bytes, uint64_t* rows) {
  std::string text;
  Prng draw(1);
  std::vector<float> pixels(kPixels);
  for (*rows = 0; text.size() < bytes; ++*rows) {
    for (float& pixel : pixels) pixel = static_cast<float>(draw.Uniform());
    const auto feature = [](const char* key, const std::string& values) {
      return Field(1, Field(1, key) + Field(2, values));
    };
    const std::string label(1, static_cast<char>(draw.Below(10)));
    text += TfRecord(Field(1, feature("image", Field(2, Field(1, Raw(pixels.data(), pixels.size())))) +
                                  feature("class", Field(3, Field(1, label)))));
  }
  return text;
}

uint64_t BareTfRecord(const std::string& bytes) {
  uint64_t found = 0;
  for (const char *at = bytes.data(), *const end = at + bytes.size(); at < end;) {
    uint64_t length = 0;
    std::memcpy(&length, at, sizeof(length));
    found += Checksum({at, sizeof(length)}) + Checksum({at + 12, length});
    at += 16 + length;
  }
  return found;
}

}  // namespace

const FormatCase kFormatCases[3] = {
    {"jsonl: 13 fractions, 7 words", &JsonSpec, &WriteJson, &BareJson},
    {"libsvm: rows of 200, 36 in each", &LibsvmSpec, &WriteLibsvm, &BareLibsvm},
    {"tfrecord: 784 floats", &TfRecordSpec, &WriteTfRecord, &BareTfRecord},
};

}  // namespace downpour
