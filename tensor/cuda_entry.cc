// What the module offers to the program that loads it.

#include "tensor/cuda_backend.h"
#include "tensor/cuda_ceilings.h"
#include "tensor/cuda_module.h"

extern "C" __attribute__((visibility("default"))) const downpour::CudaModule* DownpourCudaModule() {
  static const downpour::CudaModule module = {DOWNPOUR_VERSION, downpour::MakeCudaBackend, downpour::TimeCudaProducts,
                                              downpour::TimeCudaCopy};
  return &module;
}
