#include "data/parquet_module.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/modules/module_file.h"

namespace downpour {
namespace {

constexpr ModuleFile kModule{.file = kParquetModuleFile, .built_in = "data", .entry = kParquetModuleEntry};
constexpr char kRebuild[] =
    "pip install pyarrow, then configure the build anew (meson setup --reconfigure BUILD) and build it";

// 26.0 of 26.0.1
std::string_view WithoutPatch(std::string_view version) { return version.substr(0, version.rfind('.')); }

absl::StatusOr<const ParquetModule*> Load() {
  const std::string path = FindModule(kModule);
  if (path.empty()) {
    return absl::NotFoundError(absl::StrCat("Parquet is read by ", kParquetModuleFile,
                                            ", which is not beside this program: it was built without pyarrow; ",
                                            kRebuild));
  }
  const absl::StatusOr<void*> entry = LoadModule(kModule, path);
  if (!entry.ok()) {
    return absl::NotFoundError(absl::StrCat(
        entry.status().message(), "; it needs the pyarrow that it was built with, in the same folder: ", kRebuild));
  }
  const ParquetModule* const module = reinterpret_cast<const ParquetModule* (*)()>(*entry)();
  if (absl::Status same = CheckRelease(path, module->release); !same.ok()) return same;
  if (WithoutPatch(module->arrow_built) != WithoutPatch(module->arrow_here)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " was built with pyarrow ", module->arrow_built,
                                                      ", and the one that is here is ", module->arrow_here, ": ",
                                                      kRebuild));
  }
  return module;
}

}  // namespace

absl::StatusOr<const ParquetModule*> LoadParquetModule() {
  static const absl::StatusOr<const ParquetModule*>& module = *new absl::StatusOr<const ParquetModule*>(Load());
  return module;
}

absl::StatusOr<std::unique_ptr<RowGroups>> OpenParquet(std::shared_ptr<const ByteSource> source) {
  const absl::StatusOr<const ParquetModule*> module = LoadParquetModule();
  if (!module.ok()) return absl::FailedPreconditionError(module.status().message());  // the file itself is there
  return (*module)->open(std::move(source));
}

bool LooksLikeParquet(std::string_view beginning) { return beginning.starts_with("PAR1"); }

}  // namespace downpour
