#include "data/open_indexed_file.h"

#include "data/cut_file.h"
#include "data/row_group_file.h"
#include "data/row_groups.h"

namespace downpour {

absl::StatusOr<std::unique_ptr<IndexedFile>> OpenIndexedFile(const DataSpec& data, const std::string& path, bool anew) {
  const RowGroupOpener open = RowGroupOpenerOf(data.format);
  return open != nullptr ? RowGroupFile::Open(data, path, open, anew) : CutFile::Open(data, path, anew);
}

}  // namespace downpour
