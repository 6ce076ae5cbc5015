#include "tests/schema/golden.h"

#include <fstream>

#include "tests/source_tree.h"

namespace downpour {

std::string GoldenPath(const std::string& kind) { return SourcePath("tests/schema/golden/" + kind + ".txt"); }

Golden ReadGolden(const std::string& kind) {
  Golden golden;
  std::ifstream file(GoldenPath(kind));
  const std::string prefix = "frame ";
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(prefix)) {
      golden.lines.push_back(line);
      continue;
    }
    std::string bytes;
    for (size_t i = prefix.size(); i + 1 < line.size(); i += 2) {
      bytes += static_cast<char>(std::stoi(line.substr(i, 2), nullptr, 16));
    }
    golden.frames.push_back(Payload::CopyOf(bytes.data(), bytes.size()));
  }
  return golden;
}

}  // namespace downpour
