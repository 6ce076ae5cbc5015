// The large step with a ps in between, on this host, and each of its parts alone.
#pragma once

#include <string>

namespace downpour {

struct GpuClusterOptions {
  int device = 0;
  int runs = 1;
  std::string downpour;  // the command-line tool
};

// For a push of every batch and of every 16th, prints the parts of a step (computing, copies, wire, updates), how long
// a step of the cluster takes, and what that makes of the slowest part.
// Order: nothing in this process has touched the device before.
void MeasureCluster(const GpuClusterOptions& options);

}  // namespace downpour
