// Text as libsvm: as rows of four indices, and as single ones.
#include "tests/fuzz/records.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  downpour::ReadAsRecords(text, downpour::kLibsvmFormat);
  downpour::DataSpec spec;
  spec.format = downpour::kLibsvmFormat;
  const downpour::TextSource source(text);
  spec.columns.emplace_back().from = {"features"};
  spec.columns[0].numbers = 4;
  spec.columns.emplace_back().from = {"indices"};
  spec.columns[1].kind = downpour::ColumnKind::kKey;
  const auto file = downpour::OpenRecordFile(spec, source);
  if (!file.ok()) return 0;
  const std::vector<std::string> wanted = {"features", "3", "label"};
  const auto reader = (*file)->NewReader(wanted);
  CHECK(reader.ok());
  const std::vector<std::string> keys = {"indices"};
  const auto key_reader = (*file)->NewReader(keys);
  CHECK(key_reader.ok());
  downpour::RecordScanner scanner(source, **file);
  std::string_view record;
  std::vector<downpour::FieldValue> values(wanted.size());
  for (auto more = scanner.Next(&record); more.ok() && *more; more = scanner.Next(&record)) {
    std::vector<downpour::FieldValue> key(1);
    if ((*key_reader)->Read(record, absl::MakeSpan(key)).ok()) CHECK_LE(downpour::WordsIn(key).size(), 64u);
    if (!(*reader)->Read(record, absl::MakeSpan(values)).ok()) continue;
    const auto row = std::get<downpour::FieldList>(values[0]);
    CHECK_EQ(row.size(), 4u);
    CHECK_EQ(row[2], std::get<double>(values[1]));
  }
  return 0;
}
