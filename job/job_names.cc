#include "job/job_names.h"

#include "absl/strings/str_cat.h"

namespace downpour {

std::string NameOf(const MetricSpec& metric) {
  if (!metric.name.empty()) return metric.name;
  return metric.kind == MetricKind::kTopK ? absl::StrCat(kTop, metric.k) : NameIn(kMetrics, metric.kind);
}

}  // namespace downpour
