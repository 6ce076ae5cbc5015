// EmbeddingRows: the rows of tables that a step reads, from the keys of its examples to the gradients of those rows.
//
//   EmbeddingRows rows(job.model, &grid);
//   rows.Begin();
//   for (each batch) rows.Find(key columns, examples);
//   KeysFound{rows.Keys()};                                 // asked of the buckets
//   status = rows.SetRows(request.updates);                 // as they answered
//   for (each batch) {
//     rows.Pool(batch, stride, inputs);                     // what the embedding layers yield
//     rows.AddGradients(batch, stride, gradients);          // of what they yielded
//   }
//   rows.AppendGradients(&slices);
//
// Shapes: an example has width() numbers, as embedding_readers.h has them.
// Units: gradients are what the caller has of the numbers that were pooled, for all lookups of a row added up.
// Order: a bucket's keys are table by table, and of one table they ascend. Sums go by the order in which the examples
//   have the keys, so that the same step gives the same bits.
// Cost: nothing is allocated for a lookup, and only the frames for a step, once there was one of its size.
// Errors: of SetRows: INVALID_ARGUMENT for rows that are not those of the bucket's keys, FAILED_PRECONDITION where a
//   bucket's are missing. Whether a frame is too long for a message is for who sends it.
// Tests: tests/unit/model/embedding_rows_test.cc, trainer_tables_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "data/dataset.h"
#include "job/job.h"
#include "job/slice_grid.h"
#include "model/embedding_readers.h"
#include "model/key_numbers.h"
#include "runtime/compute.h"
#include "runtime/row_frames.h"

namespace downpour {

class EmbeddingRows {
 public:
  // The grid is of that model and outlives this.
  EmbeddingRows(const ModelSpec& model, const SliceGrid* grid);

  size_t width() const { return width_; }

  // Forgets all keys and batches.
  void Begin();
  // The next batch: its columns as KeyColumnsOf has them, each [examples, keys of one example] of int64.
  void Find(absl::Span<const ColumnValues> columns, size_t examples);
  // Behind the last Find: a frame for each bucket that has keys.
  SliceValues Keys();
  // Of each bucket that has keys its rows; other slices are passed over. All gradients are zero from then on.
  absl::Status SetRows(const SliceValues& updates);
  // `batch`: its number among those that were found. `stride`: from one example to the next.
  void Pool(size_t batch, size_t stride, float* to) const;
  void AddGradients(size_t batch, size_t stride, const float* gradients);
  // A frame for each bucket that has keys.
  void AppendGradients(SliceValues* slices) const;

 private:
  struct Reader : EmbeddingReader {
    size_t keys = 0;  // of an example at most, as the data have it
  };
  struct Table {
    size_t width = 0;
    KeyNumbers rows = {};
    std::vector<uint32_t> buckets = {};  // by row, as is the next
    std::vector<size_t> places = {};     // among all numbers
  };
  struct Bucket {
    RowKeys rows = {};
    size_t first = 0;  // among all numbers
    size_t numbers = 0;
  };
  struct Batch {
    size_t first = 0;  // among the lookups
    size_t examples = 0;
  };

  template <typename Use>
  void ForEachLookup(size_t batch, const Use& use) const;

  const SliceGrid* grid_;
  size_t width_ = 0;
  std::vector<Reader> readers_;
  std::vector<Table> tables_;    // as in the model
  std::vector<Bucket> buckets_;  // by number
  std::vector<Batch> batches_;
  std::vector<uint32_t> lookups_;  // by batch, reader, example: rows of the reader's table, or kNoRow
  std::vector<std::pair<uint64_t, uint32_t>> ascending_;  // keys of the table at hand, and their rows
  std::vector<float> values_;                             // of all rows, bucket by bucket, as are the next
  std::vector<float> gradients_;
};

}  // namespace downpour
