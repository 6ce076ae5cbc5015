// BucketWriter: a bucket's record, made of rows that were trained elsewhere: a new job begins with them.
//
//   BucketWriter writer(TablesOf(job), bucket, part_bytes, append);
//   absl::Status status = writer.Begin(slice);
//   for (...) status = writer.Add(key, row);              // of the first table, in any order; each key once
//   status = writer.EndTable();                           // then of the next, as many as there are
//
// Shapes: what it gives to `append` is one record after the other as BucketParts reads it. No push has been consumed;
//   rows count as if the job's first push had them.
// Cost: memory for one part.
// Errors: those of `append`, the first of them again from every later call.
// Tests: tests/unit/ps/bucket_writer_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "ps/table/table_part.h"
#include "ps/table/table_spec.h"
#include "schema/ids.h"
#include "schema/payload.h"

namespace downpour {

class BucketWriter {
 public:
  using Append = std::function<absl::Status(std::vector<Payload> blocks)>;

  // CHECKs that `part_bytes` hold a row of each table.
  BucketWriter(const std::vector<TableSpec>& tables, uint32_t bucket, size_t part_bytes, Append append);

  // The bucket's own record, which comes before its rows. `version`: updates that they have had, as Adam counts them.
  absl::Status Begin(SliceId slice, uint64_t version = 0);
  // A row as it lies, of the table's shape. CHECKs that the key belongs to the bucket and a table is left.
  absl::Status Add(uint64_t key, const std::byte* row);
  absl::Status EndTable();

 private:
  void OpenPart();
  absl::Status ClosePart(bool is_last);

  std::vector<TableSpec> tables_;
  const size_t part_bytes_;
  Append append_;
  std::optional<TablePartWriter> part_;
  size_t table_ = 0;    // whose rows come
  uint32_t parts_ = 0;  // of it, as is the next
  uint32_t rows_ = 0;
  absl::Status status_;
};

}  // namespace downpour
