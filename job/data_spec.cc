#include "job/data_spec.h"

namespace downpour {

int64_t ColumnSpec::categories() const {
  switch (kind) {
    case ColumnKind::kNumber:
    case ColumnKind::kKey:
      return 0;
    case ColumnKind::kBuckets:
      return static_cast<int64_t>(boundaries.size()) + 1;
    case ColumnKind::kVocabulary:
      return static_cast<int64_t>(vocabulary.size()) + 1;
    case ColumnKind::kHash:
      return hash;
  }
  return 0;
}

}  // namespace downpour
