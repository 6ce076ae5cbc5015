// What `downpour doctor` found: one line each, and a remedy where something is wrong.
//
// Tests: tests/unit/tools/cli/doctor_test.cc, doctor_keys_test.cc.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace downpour {

struct Finding {
  enum class Grade { kGood, kWarning, kProblem };
  Grade grade = Grade::kGood;
  std::string about;  // memory, data, ...
  std::string what;
  std::string remedy;  // of all but the good

  bool operator==(const Finding&) const = default;
};
using Findings = std::vector<Finding>;

inline Finding Good(std::string about, std::string what) {
  return {Finding::Grade::kGood, std::move(about), std::move(what), ""};
}
inline Finding Warning(std::string about, std::string what, std::string remedy) {
  return {Finding::Grade::kWarning, std::move(about), std::move(what), std::move(remedy)};
}
inline Finding Problem(std::string about, std::string what, std::string remedy) {
  return {Finding::Grade::kProblem, std::move(about), std::move(what), std::move(remedy)};
}

}  // namespace downpour
