#include "tensor/device.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tensor/cuda_module.h"

namespace downpour {
namespace {

absl::StatusOr<std::unique_ptr<Backend>> OpenCuda(int device) {
  const absl::StatusOr<const CudaModule*> module = LoadCudaModule();
  if (!module.ok()) return module.status();
  return (*module)->make_backend(device, {});
}

Device Host(const HostBackendOptions& options, std::string why) { return {MakeHostBackend(options), std::move(why)}; }

Device OpenAny(int turn, const HostBackendOptions& host) {
  const absl::StatusOr<int> count = CountCudaDevices();
  if (!count.ok()) return Host(host, std::string(count.status().message()));
  auto backend = OpenCuda(turn < 0 ? 0 : turn % *count);
  if (!backend.ok()) return Host(host, absl::StrCat("a GPU answers, but ", backend.status().message()));
  if (*count == 1) return {*std::move(backend), "a GPU answers"};
  const char* const which = turn < 0 ? "the first, since no --index says whose turn it is" : "taken in turn by --index";
  return {*std::move(backend), absl::StrCat(*count, " GPUs answer, ", which)};
}

}  // namespace

absl::StatusOr<Device> OpenDevice(const std::string& wish, int turn, const HostBackendOptions& host) {
  if (wish == "auto") return OpenAny(turn, host);
  if (wish == "cpu") return Host(host, "asked for");
  int number = 0;
  const bool is_cuda = absl::StartsWith(wish, "cuda:") && absl::SimpleAtoi(wish.substr(5), &number) && number >= 0;
  if (!is_cuda) {
    return absl::InvalidArgumentError(absl::StrCat("\"", wish, "\" is no device: auto, cpu or cuda:N, such as cuda:0"));
  }
  if (const absl::StatusOr<int> count = CountCudaDevices(); !count.ok()) return count.status();
  auto backend = OpenCuda(number);
  if (!backend.ok()) return backend.status();
  return Device{*std::move(backend), "asked for"};
}

}  // namespace downpour
