// CIFAR-10 and CIFAR-100 in binary as records (data/record_format.h).
//
// Shapes: a record is a byte with the class, or two bytes with the coarse and the fine one, and then 3072 bytes: the
//   red, the green and the blue values of 32 rows of 32 pixels. Fields: `label`, or `coarse` and `fine`, and `image`, a
//   list of 3072 numbers from 0 to 255 in that order.
// Errors: of a record a class that there is not, of the file a size that is no multiple of a record's.
// Source: https://www.cs.toronto.edu/~kriz/cifar.html, "Binary version".
// Tests: tests/unit/data/cifar_records_test.cc.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "data/record_format.h"

namespace downpour {

absl::StatusOr<std::unique_ptr<RecordFile>> OpenCifar10Records(const DataSpec& data, const ByteSource& source);
absl::StatusOr<std::unique_ptr<RecordFile>> OpenCifar100Records(const DataSpec& data, const ByteSource& source);

}  // namespace downpour
