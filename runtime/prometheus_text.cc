#include "runtime/prometheus_text.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace downpour {
namespace {

std::string OfNumber(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return absl::StrFormat("%.15g", value);
}

}  // namespace

void PrometheusText::Begin(const std::string& name, const char* type, const std::string& help) {
  name_ = name;
  head_ = absl::StrCat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
}

void PrometheusText::Add(double value, const Labels& labels, const char* suffix) {
  absl::StrAppend(&text_, head_, name_, suffix);
  head_.clear();
  const char* before = "{";
  for (const auto& [label, said] : labels) {
    absl::StrAppend(&text_, before, label, "=\"",
                    absl::StrReplaceAll(said, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}), "\"");
    before = ",";
  }
  absl::StrAppend(&text_, labels.empty() ? "" : "}", " ", OfNumber(value), "\n");
}

}  // namespace downpour
