// EmbeddingReader: which rows an example reads of which table, and where their sum goes.
//
//   for (const EmbeddingReader& reader : EmbeddingReadersOf(job.model)) {
//     const float scale = PoolingScale(reader.pooling, keys.size());
//     for (each key) AddScaled(scale, row, reader.width, numbers + reader.first);
//   }
//
// Shapes: an example has EmbeddingWidthOf(model) numbers: what each embedding layer yields, in the order of
//   model.layers. A layer's columns lie side by side, or are added up. An example's keys of one column are pooled:
//   their rows' sum, that sum divided by how many keys there are, or by the root of that number. A key that an example
//   has twice counts twice. Without a key a column yields zeros.
// Tests: tests/unit/model/embedding_rows_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "job/job.h"

namespace downpour {

// Of one layer one column.
struct EmbeddingReader {
  size_t table = 0;
  size_t column = 0;  // in KeyColumnsOf
  size_t width = 0;   // of a row
  size_t first = 0;   // in an example's numbers
  Pooling pooling = Pooling::kSum;
};
std::vector<EmbeddingReader> EmbeddingReadersOf(const ModelSpec& model);

// The columns that embedding layers read, each once, in the order in which layers name them.
std::vector<std::string> KeyColumnsOf(const ModelSpec& model);
// How many numbers of an example all embedding layers yield.
int64_t EmbeddingWidthOf(const ModelSpec& model);

// What each number of a row counts, where an example has so many keys.
float PoolingScale(Pooling pooling, size_t keys);
void AddScaled(float scale, const float* __restrict from, size_t width, float* __restrict to);

}  // namespace downpour
