// Where `downpour` is for a benchmark: beside it, as where it was packed, or in the build folder's tools/.
#pragma once

#include <filesystem>
#include <string>

namespace downpour {

inline std::string DownpourOfThisBuild() {
  const std::filesystem::path folder = std::filesystem::canonical("/proc/self/exe").parent_path();
  const std::filesystem::path beside = folder / "downpour";
  return (std::filesystem::exists(beside) ? beside : folder.parent_path() / "tools/downpour").string();
}

}  // namespace downpour
