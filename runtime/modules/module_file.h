// Modules: parts of a program that it loads at run time, so that one install serves hosts that have what a part needs
// and hosts that do not.
//
//   const ModuleFile module{.file = "downpour-cuda.so", .built_in = "tensor", .entry = "Entry"};
//   absl::StatusOr<void*> entry = LoadModule(module, FindModule(module));
//
// Errors: NOT_FOUND for a module that is not there, that lacks a library, or that is none of this project, in words
//   that people understand.
// Threads: any; a module that was loaded stays.
// Tests: tests/unit/tensor/device_test.cc, tests/unit/data/parquet_module_test.cc.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace downpour {

struct ModuleFile {
  const char* file;
  const char* built_in;  // the folder below the build's root where the build puts it
  const char* entry;     // the function that it offers itself by
};

// The path of a file that came with this program: beside it, or in the folder `built_in` below the root of the build
// where the program lies. Empty: it is nowhere. It is not taken from just anybody who may write where it is looked for:
// its owner is root, this user, or the owner of the program.
std::string FindBeside(const std::string& file, const std::string& built_in);

// The path of the module, likewise, or where modules are installed.
std::string FindModule(const ModuleFile& module);

// The module's entry.
absl::StatusOr<void*> LoadModule(const ModuleFile& module, const std::string& path);

// FAILED_PRECONDITION for a module whose release is not that of this program.
absl::Status CheckRelease(const std::string& path, const std::string& release);

}  // namespace downpour
