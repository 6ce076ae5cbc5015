// Text as libsvm: as rows of four indices, and as single ones.
#include "tests/fuzz/records.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  downpour::DataSpec spec{.format = downpour::kLibsvmFormat};
  downpour::ReadAsRecords(text, spec);
  const downpour::TextSource source(text);
  spec.columns = {{.name = "x", .from = {"features"}, .numbers = 4}};
  const auto file = downpour::OpenRecordFile(spec, source);
  if (!file.ok()) return 0;
  const std::vector<std::string> wanted = {"features", "3", "label"};
  const auto reader = (*file)->NewReader(wanted);
  CHECK(reader.ok());
  downpour::RecordScanner scanner(source, **file);
  std::string_view record;
  std::vector<downpour::FieldValue> values(wanted.size());
  for (auto more = scanner.Next(&record); more.ok() && *more; more = scanner.Next(&record)) {
    if (!(*reader)->Read(record, absl::MakeSpan(values)).ok()) continue;
    const auto row = std::get<downpour::FieldList>(values[0]);
    CHECK_EQ(row.size(), 4u);
    CHECK_EQ(row[2], std::get<double>(values[1]));
  }
  return 0;
}
