// HistoryFile: a file that only grows, for people to read. Losing some of it harms nobody, so it never keeps anything
// waiting.
//
//   HistoryFile file(context, storage, /*mend=*/"\n");
//   file.Open("metrics.jsonl");
//   file.Add(line);
//
// Order: bytes in the order in which they were added. One append is under way at a time. What is added meanwhile goes
//   with the next one.
// Cost: kMostPending of memory, and as much again while an append is under way. What is added beyond that is lost.
// Errors: the first failed append is a warning in the log. Its bytes are tried again with the next ones, behind `mend`,
//   since the disk may have kept a part of them.
// Tests: tests/unit/chief/history_file_test.cc.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "chief/folder/storage.h"

namespace downpour {

class HistoryFile {
 public:
  static constexpr size_t kMostPending = size_t{1} << 20;

  HistoryFile(StepContext& context, Storage& storage, std::string mend)
      : context_(context), storage_(storage), mend_(std::move(mend)) {}

  void Open(const std::string& path) { path_ = path; }
  void Add(const std::string& bytes);

 private:
  void Write();

  StepContext& context_;
  Storage& storage_;
  const std::string mend_;
  std::string path_;
  std::string pending_;
  bool is_writing_ = false;
  bool has_warned_ = false;
};

}  // namespace downpour
