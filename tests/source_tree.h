// Files of the source tree that tests read. The build says where it is when it runs them, so that what is compiled is
// the same in every clone; by hand they are run in its root.
#pragma once

#include <cstdlib>
#include <string>

namespace downpour {

inline std::string SourcePath(const std::string& path) {
  const char* root = std::getenv("DOWNPOUR_SOURCE_ROOT");
  return std::string(root == nullptr ? "." : root) + "/" + path;
}

}  // namespace downpour
