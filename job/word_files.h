// Word files: words that stand in a file of their own, one in a line, in place of a list in the job file.
//
//   data: {columns: [{name: city, vocabulary: {file: cities.txt}}], label: {column: income, classes: {file: c.txt}}}
//
// Whoever reads a job file from a disk puts the words into it. So a job that travels, or that a checkpoint keeps, has
// them, and no other process needs the file.
// Shapes: text in UTF-8. A line ends with LF or CR LF, the last one need not. A byte order mark is left out.
// Bounds: all files of a job together are no longer than a job file may be (kMaxYamlTextBytes).
// Errors: a file that cannot be read, and a line that is empty, twice there, or has blanks around its word. Each stands
//   at the job file's key, with the word file's path and line.
// Tests: tests/unit/job/word_files_test.cc.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace downpour {

class JobErrors;
struct YamlNode;

// The text of a file that a job names; of one that is longer than a job may be, enough to see that. `by_hand`: --set
// names it, so that a relative path begins at the folder where the command runs, and not at the job file's.
using ReadNamedFile = std::function<absl::StatusOr<std::string>(const std::string& path, bool by_hand)>;

// Puts the words of every file under `data` in its place. Without `read` such a file is an error.
void PutWordsInPlaceOfFiles(YamlNode* data, const ReadNamedFile& read, JobErrors& errors);

}  // namespace downpour
