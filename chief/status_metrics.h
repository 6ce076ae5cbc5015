// StatusMetrics: a status (docs/STATUS.md) as metrics for Prometheus. docs/MONITORING.md has their names.
//
//   StatusMetrics metrics;
//   response = metrics.TextOf(status_json);
//
// Order: counters only rise. Where what is counted falls, as examples whose leases are opened again, the counter keeps
//   what it has and counts them again.
// Errors: none. What the status lacks has no sample; of a text that is no status nothing has.
// Tests: tests/unit/chief/status_metrics_test.cc, tests/process/test_metrics.py.
#pragma once

#include <string>

namespace downpour {

class StatusMetrics {
 public:
  std::string TextOf(const std::string& status);

 private:
  double examples_ = 0;       // counted so far
  double last_examples_ = 0;  // as the last status had them
};

}  // namespace downpour
