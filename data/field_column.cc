// Apart from what makes rows of columns (column_rows.cc), since modules have this as well.
#include "data/field_column.h"

namespace downpour {

void FieldColumn::Clear() {
  doubles.clear();
  integers.clear();
  text_ends.clear();
  text.clear();
  is_there.clear();
  ends.clear();
}

}  // namespace downpour
