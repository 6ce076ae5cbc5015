// Sequences of storage operations: each waits for the one before it, and the first failure ends the sequence.
//
//   storage.Run(ReplaceFile("chief.json", text), [this](const StorageDone& done) { ... });
//
// Order: `then` is called once, from the Step that brings the last completion, never from Run. Sequences do not wait
//   for each other.
// Errors: `then` sees the first failure, its message beginning with the path.
// Tests: tests/unit/chief/storage_test.cc.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "chief/known/step_context.h"

namespace downpour {

class Storage {
 public:
  using Then = std::function<void(const StorageDone&)>;

  explicit Storage(StepContext& context) : context_(context) {}

  void Run(std::vector<StorageOp> ops, Then then);
  void Complete(const StorageDone& done);

 private:
  struct Sequence {
    std::deque<StorageOp> rest;  // the first one is under way
    Then then;
  };
  void Issue(Sequence sequence);

  StepContext& context_;
  uint64_t last_ticket_ = 0;
  std::map<Ticket, Sequence> under_way_;
};

StorageOp MakeDir(std::string path);
StorageOp WriteFile(std::string path, const std::string& text);
StorageOp AppendTo(std::string path, std::vector<Payload> data);
StorageOp SyncFile(std::string path);
StorageOp SyncDir(std::string path);
StorageOp Rename(std::string path, std::string target);
StorageOp Remove(std::string path);
StorageOp ReadFile(std::string path, uint64_t offset, uint64_t bytes);
StorageOp ListDir(std::string path);

// A file replaced as a whole or not at all: written beside, synced, renamed, its folder synced.
std::vector<StorageOp> ReplaceFile(const std::string& path, const std::string& text, bool is_private = false);

std::string ToString(const Payload& bytes);

}  // namespace downpour
