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

// A file of this ending is a manifest: it lists paths, addresses or patterns, one on each line, and relative ones begin
// where it lies. Empty lines and those that begin with # are none.
inline constexpr char kManifestSuffix[] = ".manifest";

// Manifests become what they list. A pattern (*, ?, [...]) of paths, or of objects of s3 or gs (open_source.h), becomes
// what it matches, sorted byte by byte, without indexes. A name that begins with a dot is matched by a pattern alone
// that does. Any other path stays, whether a file is there or not.
// Errors: NOT_FOUND for a pattern that matches nothing; those of MatchingObjects; those of reading a manifest, and
// INVALID_ARGUMENT with its line for one that lists no files, or more than 1,000,000, or another manifest.
absl::StatusOr<std::vector<std::string>> ExpandFiles(const std::vector<std::string>& files);

}  // namespace downpour
