#include "tensor/cuda_module.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <string>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

std::string FolderOfProgram() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  const std::string program(path, length > 0 ? static_cast<size_t>(length) : 0);
  return program.substr(0, program.find_last_of('/') + 1);
}

// A library is not taken from just anybody who may write where it is looked for, as somewhere in /tmp.
bool MayBeLoaded(const std::string& path) {
  struct stat program, library;
  if (stat("/proc/self/exe", &program) != 0 || stat(path.c_str(), &library) != 0) return false;
  return library.st_uid == 0 || library.st_uid == geteuid() || library.st_uid == program.st_uid;
}

// Beside the program, where the build puts it for programs and for tests, where it is installed.
std::string FindModule() {
  const std::string own = FolderOfProgram();
  for (const std::string& folder :
       {own, own + "../tensor/", own + "../../tensor/", own + "../../../tensor/",
        std::string(DOWNPOUR_MODULE_DIR "/")}) {
    const std::string path = folder + kCudaModuleFile;
    if (access(path.c_str(), R_OK) == 0 && MayBeLoaded(path)) return path;
  }
  return "";
}

absl::StatusOr<const CudaModule*> Load() {
  const std::string path = FindModule();
  if (path.empty()) {
    return absl::NotFoundError(
        absl::StrCat("there is no ", kCudaModuleFile, " beside this program: it was built without CUDA"));
  }
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return absl::NotFoundError(absl::StrCat(kCudaModuleFile, " cannot be loaded: ", dlerror()));
  using Entry = const CudaModule* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, kCudaModuleEntry));
  if (entry == nullptr) return absl::NotFoundError(absl::StrCat(path, " is no module of this project"));
  const CudaModule* const module = entry();
  if (std::string(module->release) != DOWNPOUR_VERSION) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is of release ", module->release, ", this program of " DOWNPOUR_VERSION));
  }
  return module;
}

}  // namespace

absl::StatusOr<int> CountCudaDevices() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // stays: loading it again costs
  if (driver == nullptr) return absl::NotFoundError("there is no NVIDIA driver here");
  // As cuda.h declares them; 0 is success.
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto get_count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  int count = 0;
  int error = -1;
  if (init != nullptr && get_count != nullptr) error = init(0);
  if (error == 0) error = get_count(&count);
  if (error != 0) return absl::NotFoundError(absl::StrCat("the NVIDIA driver finds no GPU (CUDA error ", error, ")"));
  if (count == 0) return absl::NotFoundError("the NVIDIA driver finds no GPU");
  return count;
}

absl::StatusOr<const CudaModule*> LoadCudaModule() {
  static const absl::StatusOr<const CudaModule*>& module = *new absl::StatusOr<const CudaModule*>(Load());
  return module;
}

}  // namespace downpour
