// A job's data and a file as frames: how columns are made (a hostile job), and records. Cut in one go or in pieces they
// are the same, and each is read or refused.
#include <glog/logging.h>

#include <algorithm>
#include <string>
#include <vector>

#include "data/columns.h"
#include "data/record_scan.h"
#include "tests/fuzz/frames.h"
#include "tests/fuzz/target.h"
#include "tests/unit/data/text_source.h"

namespace downpour {
namespace {

// Takes what the fuzzer has as numbers and words.
class Draw {
 public:
  explicit Draw(const Payload& bytes) : bytes_(reinterpret_cast<const char*>(bytes.data()), bytes.size()) {}
  bool is_done() const { return at_ >= bytes_.size(); }
  uint8_t Byte() { return is_done() ? 0 : static_cast<uint8_t>(bytes_[at_++]); }
  double Number() { return (Byte() - 128) * std::vector<double>{1e-300, 0.5, 1, 1e300}[Byte() % 4]; }
  std::string Word() {
    const size_t size = Byte() % 8, from = std::min(at_, bytes_.size());
    at_ = std::min(bytes_.size(), from + size);
    return bytes_.substr(from, at_ - from);
  }

 private:
  const std::string bytes_;
  size_t at_ = 0;
};

DataSpec SpecFrom(Draw draw) {
  DataSpec data;
  data.format = kCsvFormat;
  const uint8_t options = draw.Byte();
  if (options & 1) data.header = (options & 2) != 0;
  if (options & 4) data.separator = static_cast<char>(draw.Byte());
  data.label.column = "c0";
  data.label.is_number = (options & 8) != 0;
  if (options & 16) data.label.classes = {{draw.Word()}, {draw.Word(), draw.Word()}};
  if (options & 32) data.weight = "c2";
  if (options & 64) data.label.outputs = 2;
  if ((options & 192) == 64) data.label.of_outputs = {"c1", "c2"}, data.label.column = "";
  if ((options & 192) == 192) data.label.is_multiple = true, data.label.separator = static_cast<char>(draw.Byte());
  while (!draw.is_done()) {
    ColumnSpec& column = data.columns.emplace_back();
    column.name = draw.Word();
    column.from = {"c" + std::to_string(draw.Byte() % 4), "c1"};
    column.kind = static_cast<ColumnKind>(draw.Byte() % 5);
    const uint8_t transforms = draw.Byte();
    if (transforms & 1) column.fill = draw.Number();
    if (transforms & 2) column.least = draw.Number();
    if (transforms & 4) column.most = draw.Number();
    column.log = (transforms & 8) != 0;
    column.key_is_text = (transforms & 16) != 0;
    column.deviation = draw.Number();
    column.boundaries = {draw.Number(), draw.Number()};
    column.vocabulary = {draw.Word(), draw.Word()};
    column.hash = static_cast<int64_t>(draw.Number());
  }
  return data;
}

}  // namespace
}  // namespace downpour

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace downpour;
  std::vector<Payload> frames = SplitFrames(data, size);
  frames.resize(2);
  const DataSpec spec = SpecFrom(Draw(frames[0]));
  const std::string text(reinterpret_cast<const char*>(frames[1].data()), frames[1].size());
  const TextSource source(text);
  const auto file = OpenRecordFile(spec, source);
  if (!file.ok()) return 0;
  const ColumnReader columns(spec);
  const auto reader = (*file)->NewReader(columns.fields());
  RecordScanner scanner(source, **file);
  std::vector<ColumnValues> values = columns.Room(1);
  std::vector<FieldValue> fields(columns.fields().size());
  std::string_view run;
  bool is_record = false;
  uint64_t end = (*file)->begin();
  for (;;) {
    const absl::StatusOr<bool> more = scanner.NextRun(&run, &is_record);
    if (!more.ok() || !*more) break;
    CHECK(!run.empty());
    if (!text.starts_with("\x1f\x8b")) CHECK_EQ(scanner.offset(), end);
    end = scanner.offset() + run.size();
    // What was cut is one record by itself.
    const absl::StatusOr<CutRecord> again = (*file)->Cut(run, true);
    CHECK(again.ok() && again->bytes == run.size() && again->is_record == is_record);
    if (!is_record || !reader.ok()) continue;
    if ((*reader)->Read(run, absl::MakeSpan(fields)).ok()) columns.Take(fields, 0, &values).IgnoreError();
    for (size_t i = 0; i < columns.columns().size(); ++i) {
      const auto* category = std::get_if<std::vector<int64_t>>(&values[i]);
      if (category == nullptr || columns.columns()[i].categories <= 0) continue;
      CHECK((*category)[0] >= 0 && (*category)[0] < columns.columns()[i].categories);
    }
  }
  return 0;
}
