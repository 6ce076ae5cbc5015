#include "data/cifar_records.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

constexpr size_t kPixels = 3072;

struct ClassByte {
  std::string name;
  int classes;
};
// In their order; the image is behind them.
struct Kind {
  std::vector<ClassByte> classes;
  size_t bytes() const { return classes.size() + kPixels; }
  std::vector<std::string> fields() const {
    std::vector<std::string> names;
    for (const ClassByte& one : classes) names.push_back(one.name);
    names.emplace_back("image");
    return names;
  }
};

class CifarReader final : public RecordReader {
 public:
  CifarReader(const Kind& kind, std::vector<size_t> wanted) : kind_(kind), wanted_(std::move(wanted)) {}

  absl::Status Read(std::string_view record, absl::Span<FieldValue> values) override {
    const auto* bytes = reinterpret_cast<const uint8_t*>(record.data());
    for (size_t i = 0; i < kind_.classes.size(); ++i) {
      if (bytes[i] < kind_.classes[i].classes) continue;
      return absl::InvalidArgumentError(absl::StrCat("field '", kind_.classes[i].name, "': ", bytes[i],
                                                     " is no class from 0 to ", kind_.classes[i].classes - 1,
                                                     ": is the file of this format?"));
    }
    for (size_t i = 0; i < wanted_.size(); ++i) {
      if (wanted_[i] < kind_.classes.size()) {
        values[i] = int64_t{bytes[wanted_[i]]};
        continue;
      }
      pixels_.assign(bytes + kind_.classes.size(), bytes + kind_.bytes());
      values[i] = FieldList(pixels_);
    }
    return absl::OkStatus();
  }

 private:
  const Kind kind_;
  const std::vector<size_t> wanted_;  // fields, as Kind::fields() has them
  std::vector<double> pixels_;
};

class CifarFile final : public RecordFile {
 public:
  CifarFile(std::string name, Kind kind) : name_(std::move(name)), kind_(std::move(kind)) {}

  std::string layout() const override { return ""; }
  absl::StatusOr<CutRecord> Cut(std::string_view text, bool) const override {
    return CutRecord{text.size() < kind_.bytes() ? 0 : kind_.bytes()};
  }
  absl::StatusOr<std::unique_ptr<RecordReader>> NewReader(absl::Span<const std::string> wanted) const override {
    const std::vector<std::string> fields = kind_.fields();
    std::vector<size_t> places;
    for (const std::string& name : wanted) {
      const auto found = std::find(fields.begin(), fields.end(), name);
      if (found == fields.end()) return NoSuchField(name_, name, fields);
      places.push_back(static_cast<size_t>(found - fields.begin()));
    }
    return std::make_unique<CifarReader>(kind_, std::move(places));
  }
  absl::StatusOr<std::vector<std::string>> FieldsOf(std::string_view) const override { return kind_.fields(); }

 private:
  const std::string name_;
  const Kind kind_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordFile>> OpenCifar10Records(const DataSpec&, const ByteSource& source) {
  return std::make_unique<CifarFile>(source.name(), Kind{{{"label", 10}}});
}

absl::StatusOr<std::unique_ptr<RecordFile>> OpenCifar100Records(const DataSpec&, const ByteSource& source) {
  return std::make_unique<CifarFile>(source.name(), Kind{{{"coarse", 20}, {"fine", 100}}});
}

}  // namespace downpour
