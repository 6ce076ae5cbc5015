#include "predict/batch.h"

#include <algorithm>

namespace downpour {

const OutputColumn* OutputBatch::Find(std::string_view name) const {
  const auto found = std::find_if(columns.begin(), columns.end(), [&](const auto& one) { return one.name == name; });
  return found == columns.end() ? nullptr : &*found;
}

}  // namespace downpour
