// A turn, a disk and a storage between them, for tests of single parts of the chief.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "chief/folder/storage.h"
#include "chief/known/step_context.h"
#include "job/job_file.h"
#include "tests/unit/chief/memory_disk.h"

namespace downpour {

// Two slices (dense_0/kernel and dense_0/bias), leases of 2 batches of 2 examples. Rounds begin every 10 s alone.
inline JobSpec SmallJob(const std::vector<std::string>& overrides = {}) {
  const JobFileResult result = ParseJob(R"(
name: small
cluster: {scaleTier: CUSTOM, workerCount: 2, parameterServerCount: 2}
model:
  inputs: [{name: x, shape: [4]}]
  layers: [{dense: {units: 3}}]
  loss: softmaxCrossEntropy
training: {batchSize: 2, leaseBatches: 2, epochs: 2, optimizer: {name: momentum, learningRate: 0.1}}
data: {format: idx, train: {images: a, labels: b}, eval: {images: c, labels: d}}
checkpoint: {every: 10s, keep: 2, best: none}
)",
                                        "small.yaml", overrides);
  for (const JobError& error : result.errors) ADD_FAILURE() << ToString(error);
  return result.job;
}

class PartsFixture : public ::testing::Test {
 protected:
  // Carries out storage effects until there are none; returns the other effects.
  std::vector<Effect> Settle() {
    std::vector<Effect> others;
    for (std::vector<Effect> effects = context.out.Take(); !effects.empty(); effects = context.out.Take()) {
      for (Effect& effect : effects) {
        if (const auto* op = std::get_if<StorageOp>(&effect)) {
          storage.Complete(disk.Carry(*op));
        } else {
          others.push_back(std::move(effect));
        }
      }
    }
    return others;
  }

  StepContext context;
  Storage storage{context};
  MemoryDisk disk;
};

template <typename T>
std::vector<T> SentOf(const std::vector<Effect>& effects, PeerId to) {
  std::vector<T> messages;
  for (const Effect& effect : effects) {
    const auto* send = std::get_if<Send>(&effect);
    if (send == nullptr || send->to != to) continue;
    if (const auto* message = std::get_if<T>(&send->message)) messages.push_back(*message);
  }
  return messages;
}

}  // namespace downpour
