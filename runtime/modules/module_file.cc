#include "runtime/modules/module_file.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

std::string FolderOfProgram() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  const std::string program(path, length > 0 ? static_cast<size_t>(length) : 0);
  return program.substr(0, program.find_last_of('/') + 1);
}

bool IsOurs(const std::string& path) {
  struct stat program, file;
  if (access(path.c_str(), R_OK) != 0 || stat("/proc/self/exe", &program) != 0 || stat(path.c_str(), &file) != 0) {
    return false;
  }
  return file.st_uid == 0 || file.st_uid == geteuid() || file.st_uid == program.st_uid;
}

}  // namespace

std::string FindBeside(const std::string& file, const std::string& built_in) {
  const std::string own = FolderOfProgram();
  const std::string built = absl::StrCat("../", built_in, "/");
  for (const std::string& folder : {own, own + built, own + "../" + built, own + "../../" + built}) {
    if (IsOurs(folder + file)) return folder + file;
  }
  return "";
}

std::string FindModule(const ModuleFile& module) {
  const std::string installed = absl::StrCat(DOWNPOUR_MODULE_DIR "/", module.file);
  const std::string beside = FindBeside(module.file, module.built_in);
  return beside.empty() && IsOurs(installed) ? installed : beside;
}

absl::StatusOr<void*> LoadModule(const ModuleFile& module, const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return absl::NotFoundError(absl::StrCat(module.file, " cannot be loaded: ", dlerror()));
  void* const entry = dlsym(library, module.entry);
  if (entry == nullptr) return absl::NotFoundError(absl::StrCat(path, " is no module of this project"));
  return entry;
}

absl::Status CheckRelease(const std::string& path, const std::string& release) {
  if (release == DOWNPOUR_VERSION) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, " is of release ", release, ", this program of " DOWNPOUR_VERSION));
}

}  // namespace downpour
