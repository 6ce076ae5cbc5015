// Some of NVIDIA's management library, with two GPUs: at ...:01 one that tells all, at ...:02 one in MIG mode.
#include <cstdio>
#include <cstring>

namespace {

constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;

bool initialised = false;
unsigned looks = 0;
int whole = 0, in_parts = 0;  // their addresses are the handles

}  // namespace

extern "C" {

int nvmlInit_v2() {
  initialised = true;
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  if (!initialised) return 1;
  *device = std::strcmp(address, "0000:00:01.0") == 0 ? &whole : &in_parts;
  return std::strncmp(address, "0000:00:0", 9) == 0 ? 0 : kNotFound;
}
int nvmlDeviceGetName(void*, char* name, unsigned length) {
  std::snprintf(name, length, "Stand-in 80GB");
  return 0;
}
int nvmlDeviceGetUtilizationRates(void* device, unsigned* rates) {
  if (device == &in_parts) return kNotSupported;
  rates[0] = 1 + looks++ % 100;
  rates[1] = 0;
  return 0;
}
int nvmlDeviceGetMemoryInfo(void*, unsigned long long* memory) {
  memory[0] = 80ull << 30;
  memory[1] = 60ull << 30;
  memory[2] = 20ull << 30;
  return 0;
}
int nvmlDeviceGetTemperature(void*, int sensor, unsigned* celsius) {
  *celsius = sensor == 0 ? 61 : 0;
  return 0;
}
}
