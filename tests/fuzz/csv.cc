// Text as a CSV file: whatever it is, records come to an end, have fields, and begin on ever later lines.
#include "data/csv.h"

#include <glog/logging.h>

#include <string>
#include <vector>

#include "tests/fuzz/target.h"
#include "tests/unit/data/text_source.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace downpour;
  const TextSource source(std::string(reinterpret_cast<const char*>(data), size));
  const absl::StatusOr<CsvDialect> dialect = GuessCsvDialect(source);
  CsvReader reader(source, dialect.ok() ? dialect->separator : ',');
  std::vector<std::string_view> fields;
  std::string place;
  for (size_t records = 0;; ++records) {
    const absl::StatusOr<bool> more = reader.Next(&fields);
    if (!more.ok() || !*more) break;
    CHECK_LE(records, size);
    CHECK(!fields.empty());
    CHECK(reader.place() != place);
    place = reader.place();
    for (const std::string_view field : fields) {
      if (IntegerIn(field)) CHECK(NumberIn(field));
    }
  }
  return 0;
}
