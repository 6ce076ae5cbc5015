// What bench_data measures of JSON lines, libsvm and TFRecord: a file of each, and a bare loop over the same bytes.
//
// The loops know the order of keys and how many there are, and check nothing. That of TFRecord computes both checksums
// of each record, and looks at nothing else.
#pragma once

#include <cstdint>
#include <string>

#include "job/data_spec.h"

namespace downpour {

struct FormatCase {
  const char* name;
  DataSpec (*spec)();
  std::string (*write)(uint64_t bytes, uint64_t* rows);
  uint64_t (*bare)(const std::string& bytes);  // gives what it found, so that it is not left out
};
extern const FormatCase kFormatCases[3];

}  // namespace downpour
