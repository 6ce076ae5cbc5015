#include "model/embedding_readers.h"

#include <algorithm>
#include <cmath>
#include <variant>

namespace downpour {
namespace {

template <typename Use>
void ForEachEmbedding(const ModelSpec& model, const Use& use) {
  for (const LayerSpec& layer : model.layers) {
    if (const auto* embedding = std::get_if<EmbeddingSpec>(&layer.op)) use(*embedding);
  }
}

size_t TableOf(const ModelSpec& model, const EmbeddingSpec& embedding) {
  const auto table = std::find_if(model.tables.begin(), model.tables.end(),
                                  [&](const ModelTable& known) { return known.name == embedding.table; });
  return static_cast<size_t>(table - model.tables.begin());
}

size_t WidthOf(const ModelSpec& model, const EmbeddingSpec& embedding) {
  const auto width = static_cast<size_t>(model.tables[TableOf(model, embedding)].width);
  return embedding.adds ? width : embedding.columns.size() * width;
}

}  // namespace

std::vector<EmbeddingReader> EmbeddingReadersOf(const ModelSpec& model) {
  std::vector<EmbeddingReader> readers;
  const std::vector<std::string> columns = KeyColumnsOf(model);
  size_t before = 0;
  ForEachEmbedding(model, [&](const EmbeddingSpec& embedding) {
    const size_t table = TableOf(model, embedding);
    const auto width = static_cast<size_t>(model.tables[table].width);
    for (size_t i = 0; i < embedding.columns.size(); ++i) {
      const auto column = std::find(columns.begin(), columns.end(), embedding.columns[i]) - columns.begin();
      const size_t first = before + (embedding.adds ? 0 : i * width);
      readers.push_back({table, static_cast<size_t>(column), width, first, embedding.pooling});
    }
    before += WidthOf(model, embedding);
  });
  return readers;
}

std::vector<std::string> KeyColumnsOf(const ModelSpec& model) {
  std::vector<std::string> names;
  ForEachEmbedding(model, [&](const EmbeddingSpec& embedding) {
    for (const std::string& column : embedding.columns) {
      if (std::find(names.begin(), names.end(), column) == names.end()) names.push_back(column);
    }
  });
  return names;
}

int64_t EmbeddingWidthOf(const ModelSpec& model) {
  size_t width = 0;
  ForEachEmbedding(model, [&](const EmbeddingSpec& embedding) { width += WidthOf(model, embedding); });
  return static_cast<int64_t>(width);
}

float PoolingScale(Pooling pooling, size_t keys) {
  if (pooling == Pooling::kMean) return 1 / static_cast<float>(keys);
  if (pooling == Pooling::kSqrtN) return 1 / std::sqrt(static_cast<float>(keys));
  return 1;
}

// In runs of a length that the compiler knows: it computes such a run in registers.
void AddScaled(float scale, const float* __restrict from, size_t width, float* __restrict to) {
  constexpr size_t kRun = 8;
  const float* const end = from + width;
  for (; from + kRun <= end; from += kRun, to += kRun) {
    for (size_t i = 0; i < kRun; ++i) to[i] += scale * from[i];
  }
  for (; from < end; ++from, ++to) *to += scale * *from;
}

}  // namespace downpour
