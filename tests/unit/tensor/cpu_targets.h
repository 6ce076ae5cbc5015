// The CPU targets for which kernels are compiled and that this machine has, to try each of them.
//
//   class MyTest : public CpuTargetTest {};
//   INSTANTIATE_TEST_SUITE_P(Targets, MyTest, testing::ValuesIn(CpuTargets()), NameOfCpuTarget);
#pragma once

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cstdint>
#include <string>
#include <vector>

namespace downpour {

// The one that needs nothing of the machine among them.
inline std::vector<int64_t> CpuTargets() {
  std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  if (targets.back() != HWY_STATIC_TARGET) targets.push_back(HWY_STATIC_TARGET);
  return targets;
}

inline std::string NameOfCpuTarget(const testing::TestParamInfo<int64_t>& target) {
  return hwy::TargetName(target.param);
}

class CpuTargetTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

}  // namespace downpour
