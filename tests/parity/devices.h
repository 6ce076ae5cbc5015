// The backends that a parity program holds against the reference; each program has a list of its own.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "tensor/backend.h"

namespace downpour {

struct DeviceCase {
  std::string name;
  std::function<std::unique_ptr<Backend>()> open;
  // How far, at most, a product moves each of its factors before it multiplies them, as a share of the factor.
  double factor_rounding = 0;
  // Likewise what it keeps in memory of FloatFormat::kFactor, to the nearest.
  double storage_rounding = 0;
};
inline std::ostream& operator<<(std::ostream& out, const DeviceCase& device) { return out << device.name; }

inline constexpr double kTf32Rounding = 0x1p-10;  // 10 bits of mantissa, which a device may cut off
inline constexpr double kBf16Rounding = 0x1p-8;   // 7 bits, to the nearest

std::vector<DeviceCase> DevicesUnderTest();

}  // namespace downpour
