// A job of MNIST's shape and data for it, for tests of what is said of a job before it runs.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "data/idx.h"

namespace downpour {

// Of images and labels in the job file's folder. `leases`: as many batches as let four workers have one each.
inline std::string MnistJob(const std::string& leases = "leaseBatches: 4, ") {
  return R"(name: mnist
cluster: {workerCount: 4, parameterServerCount: 2}
model:
  inputs: [{name: image, shape: [28, 28, 1]}]
  layers: [{dense: {units: 256, activation: relu}}, {dense: {units: 128, activation: relu}}, {dense: {units: 10}}]
training: {epochs: 10, )" +
         leases + R"(optimizer: {name: momentum, learningRate: 0.02}}
data:
  train: {images: images, labels: labels}
)";
}

inline void WritePair(const std::string& images, const std::string& labels, uint32_t count, uint32_t side,
                      uint32_t label_count, uint8_t classes = 10) {
  ASSERT_TRUE(WriteIdx(images, {count, side, side}, std::vector<uint8_t>(size_t{count} * side * side)).ok());
  std::vector<uint8_t> drawn(label_count);
  for (uint32_t i = 0; i < label_count; ++i) drawn[i] = static_cast<uint8_t>(i % classes);
  ASSERT_TRUE(WriteIdx(labels, {label_count}, drawn).ok());
}

}  // namespace downpour
