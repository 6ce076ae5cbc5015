#include "runtime/process/nvml_monitor.h"

#include <dlfcn.h>

#include <condition_variable>
#include <utility>

#include "schema/text.h"

namespace downpour {
namespace {

constexpr size_t kNameBytes = 96;  // NVML_DEVICE_NAME_V2_BUFFER_SIZE

// As nvml.h declares them; 0 is success.
struct Utilisation {
  unsigned gpu, memory;  // percent
};
struct Memory {
  unsigned long long total, free, used;
};
struct Device;

template <typename Function>
void Find(void* library, const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

// One GPU as the library knows it.
class NvmlMonitor::Card {
 public:
  static std::unique_ptr<Card> Open(const std::string& address, const std::string& library) {
    void* const nvml = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays: the driver keeps threads of its own
    if (nvml == nullptr) return nullptr;
    int (*init)() = nullptr;
    int (*by_address)(const char*, Device**) = nullptr;
    auto card = std::unique_ptr<Card>(new Card);
    Find(nvml, "nvmlInit_v2", &init);
    Find(nvml, "nvmlDeviceGetHandleByPciBusId_v2", &by_address);
    Find(nvml, "nvmlDeviceGetName", &card->get_name_);
    Find(nvml, "nvmlDeviceGetUtilizationRates", &card->get_utilisation_);
    Find(nvml, "nvmlDeviceGetMemoryInfo", &card->get_memory_);
    Find(nvml, "nvmlDeviceGetTemperature", &card->get_temperature_);
    if (init == nullptr || by_address == nullptr || init() != 0) return nullptr;
    return by_address(address.c_str(), &card->device_) == 0 ? std::move(card) : nullptr;
  }

  void Look(GpuStats* stats) const {
    char name[kNameBytes] = {};
    if (get_name_ != nullptr && get_name_(device_, name, kNameBytes) == 0) stats->name = CleanText(name, kNameBytes);
    Utilisation utilisation{};
    const bool busy = get_utilisation_ != nullptr && get_utilisation_(device_, &utilisation) == 0;
    stats->utilisation = busy ? static_cast<int32_t>(utilisation.gpu) : -1;
    unsigned celsius = 0;
    const bool warm = get_temperature_ != nullptr && get_temperature_(device_, /*of the chip*/ 0, &celsius) == 0;
    stats->celsius = warm ? static_cast<int32_t>(celsius) : -1;
    Memory memory{};
    if (get_memory_ == nullptr || get_memory_(device_, &memory) != 0) memory = {};
    stats->memory_used = memory.used;
    stats->memory_total = memory.total;
  }

 private:
  Card() = default;

  Device* device_ = nullptr;
  int (*get_name_)(Device*, char*, unsigned) = nullptr;
  int (*get_utilisation_)(Device*, Utilisation*) = nullptr;
  int (*get_memory_)(Device*, Memory*) = nullptr;
  int (*get_temperature_)(Device*, int, unsigned*) = nullptr;
};

NvmlMonitor::NvmlMonitor(const std::string& address, const std::string& library, Duration period) {
  latest_.address = address;
  if (!address.empty()) card_ = Card::Open(address, library);
  if (card_ == nullptr) return;
  card_->Look(&latest_);
  thread_ = std::jthread([this, period](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any ending;
    std::unique_lock waiting(mutex);
    while (!ending.wait_for(waiting, stop, period, [&stop] { return stop.stop_requested(); })) {
      GpuStats stats = Latest();
      card_->Look(&stats);
      std::lock_guard lock(mutex_);
      latest_ = std::move(stats);
    }
  });
}

NvmlMonitor::~NvmlMonitor() = default;

GpuStats NvmlMonitor::Latest() const {
  std::lock_guard lock(mutex_);
  return latest_;
}

}  // namespace downpour
