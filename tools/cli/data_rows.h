// Rows of data by their numbers, for another program: what downpour.data of the Python package reads by.
//
//   downpour data rows < QUESTIONS > ANSWERS
//
//   first  ->  a line of JSON: {"data": what a job file has there, "labelsAreNumbers": false}. There may be no label,
//              and `eval` is not read
//          <-  a line: {"rows", "columns": [{"name", "type", "width", "categories"}], "hasLabel", "blockExamples",
//              "fingerprint"}, or {"error"} and the end. Types are uint8, float32 and int64. A label is the last column
//   then   ->  uint32 n, and n times uint64: numbers from 0 to below `rows`, in any order, any number of times
//          <-  uint32 0, and each column in its order: n * width values, row-major. Or uint32 m above 0, and m bytes of
//              text: what is wrong. The next question may be asked then
//
// All numbers are in the machine's byte order. The end of the questions ends it.
// Cost: that of opening and reading a Dataset (data/dataset.h); memory of one answer, kMostAnswer at most.
// Tests: tests/unit/tools/cli/data_rows_test.cc, tests/python/test_data.py.
#pragma once

#include <cstdint>
#include <istream>
#include <ostream>

namespace downpour {

inline constexpr uint64_t kMostAnswer = uint64_t{1} << 30;  // bytes
inline constexpr uint32_t kMostAsked = uint32_t{1} << 24;   // rows of a question

// The exit code.
int AnswerRows(std::istream& questions, std::ostream& answers);

}  // namespace downpour
