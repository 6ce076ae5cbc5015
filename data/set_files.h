// The files of a set, from the paths and patterns that a job has.
//
// Tests: tests/unit/data/set_files_test.cc.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace downpour {

// What a file's index is called: its path with this behind it.
inline constexpr char kIndexSuffix[] = ".downpour-index";

// A pattern (*, ?, [...]) of paths, or of objects of s3 or gs (open_source.h), becomes what it matches, sorted byte by
// byte, without indexes. A name that begins with a dot is matched by a pattern alone that does. Any other path stays,
// whether a file is there or not.
// Errors: NOT_FOUND for a pattern that matches nothing; those of MatchingObjects.
absl::StatusOr<std::vector<std::string>> ExpandFiles(const std::vector<std::string>& files);

}  // namespace downpour
