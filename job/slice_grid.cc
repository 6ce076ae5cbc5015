#include "job/slice_grid.h"

#include <algorithm>
#include <utility>

namespace downpour {
namespace {

constexpr int64_t kCacheLineElements = 16;  // cuts fall between cache lines

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t RoundUp(int64_t a) { return CeilDiv(a, kCacheLineElements) * kCacheLineElements; }

}  // namespace

SliceGrid MakeSliceGrid(std::vector<VariableSpec> variables) {
  SliceGrid grid{.variables = std::move(variables), .slices = {}};
  for (size_t v = 0; v < grid.variables.size(); ++v) {
    const int64_t elements = grid.variables[v].elements();
    // Pieces of like size rather than full ones and a rest: they are easier to balance.
    const int64_t piece = RoundUp(CeilDiv(elements, std::max<int64_t>(1, CeilDiv(elements, kMaxSliceElements))));
    for (int64_t offset = 0; offset < elements; offset += piece) {
      grid.slices.push_back({static_cast<SliceId>(grid.slices.size()), static_cast<uint32_t>(v), offset,
                             std::min(piece, elements - offset)});
    }
  }
  return grid;
}

absl::StatusOr<SliceGrid> GridOf(const ModelSpec& model, WireFormat wire) {
  absl::StatusOr<std::vector<VariableSpec>> variables = InferVariables(model);
  if (!variables.ok()) return variables.status();
  SliceGrid grid = MakeSliceGrid(*std::move(variables));
  grid.wire = wire;
  if (!model.has_tables()) return grid;
  for (const ModelTable& table : model.tables) grid.row_widths.push_back(static_cast<uint32_t>(table.width));
  grid.buckets = static_cast<uint32_t>(model.table_buckets);
  for (uint32_t bucket = 0; bucket < grid.buckets; ++bucket) {
    grid.slices.push_back({static_cast<SliceId>(grid.slices.size()), kNoVariable, bucket, 0});
  }
  return grid;
}

}  // namespace downpour
