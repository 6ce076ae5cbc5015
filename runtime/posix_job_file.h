// A job file from the disk, its relative data paths made absolute: how the chief and the command-line tool begin.
//
// Errors: a file that cannot be read is an error of the result, like those in the file.
#pragma once

#include <string>
#include <vector>

#include "schema/job_file.h"

namespace downpour {

JobFileResult LoadJobFile(const std::string& path, const std::vector<std::string>& overrides = {});

}  // namespace downpour
