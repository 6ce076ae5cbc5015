#include "tensor/cuda_module.h"

#include <dlfcn.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/modules/module_file.h"

namespace downpour {
namespace {

constexpr ModuleFile kModule{.file = kCudaModuleFile, .built_in = "tensor", .entry = kCudaModuleEntry};

absl::StatusOr<const CudaModule*> Load() {
  const std::string path = FindModule(kModule);
  if (path.empty()) {
    return absl::NotFoundError(
        absl::StrCat("there is no ", kCudaModuleFile, " beside this program: it was built without CUDA"));
  }
  const absl::StatusOr<void*> entry = LoadModule(kModule, path);
  if (!entry.ok()) return entry.status();
  const CudaModule* const module = reinterpret_cast<const CudaModule* (*)()>(*entry)();
  if (absl::Status same = CheckRelease(path, module->release); !same.ok()) return same;
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
