// Columns and labelled lines, as all tables of the tool have them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace downpour {

// Shapes: each row as long as the first one, which is the head.
// Left-aligned names, right-aligned numbers, two spaces between columns, nothing after the last word of a line.
std::string TextTable(const std::vector<std::vector<std::string>>& rows, size_t first_number, size_t last_number);

// A label, then one line for each entry, all in one column.
void AddSection(const std::string& label, const std::vector<std::string>& lines, std::string* out);

}  // namespace downpour
