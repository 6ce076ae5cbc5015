// RecordEncoder: the bytes of records in a format that Downpour writes: CSV, JSON lines or TFRecord.
//
//   auto encoder = NewTfRecordEncoder(fields);
//   std::string bytes = encoder->header();
//   encoder->Add(values, &bytes);
//
// Shapes: CSV has names in its first line, lines that end with LF, and quotes where RFC 4180 needs them, or a reader
//   would take blanks away. A JSON line has all fields, null where one is missing. A tf.train.Example has them as well,
//   a feature without a list where one is missing; numbers are floats of 32 bits there, and truths are 0 and 1. Of a
//   double all digits are written that tell it from the next one.
// Errors: none. What a format cannot hold was found by FieldSurvey.
// Source: RFC 4180; RFC 8259; https://www.tensorflow.org/tutorials/load_data/tfrecord.
// Tests: tests/unit/tools/cli/data_convert_test.cc, tests/process/test_data_convert.py.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "data/record_format.h"
#include "tools/cli/field_survey.h"

namespace downpour {

struct EncodedField {
  std::string name;
  FieldType type = FieldType::kText;
  bool is_list = false;  // in some record
};

class RecordEncoder {
 public:
  virtual ~RecordEncoder() = default;
  virtual std::string header() const { return ""; }
  // One value for each field.
  virtual void Add(absl::Span<const FieldValue> values, std::string* to) = 0;
};

std::unique_ptr<RecordEncoder> NewCsvEncoder(std::vector<EncodedField> fields);
std::unique_ptr<RecordEncoder> NewJsonEncoder(std::vector<EncodedField> fields);
std::unique_ptr<RecordEncoder> NewTfRecordEncoder(std::vector<EncodedField> fields);

}  // namespace downpour
