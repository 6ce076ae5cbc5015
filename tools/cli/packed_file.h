// PackedFile: a file that is written from its beginning to its end, packed by gzip or zstd or not, under a hidden name
// until it is whole.
//
//   PackedFile file("out/part-00000.csv.gz", Packing::kGzip);
//   if (absl::Status status = file.Open(); !status.ok()) return status;
//   file.Add(bytes);                             // any number of times
//   if (absl::Status status = file.Finish(); !status.ok()) return status;
//   if (absl::Status status = file.Publish(); !status.ok()) return status;
//
// Order: the calls are those above. What was not published is removed with this.
// Cost: memory of a piece and, packed, of the packer's window.
// Errors: ALREADY_EXISTS where the path or its hidden name is there, which stays as it is; of the disk what
//   absl::ErrnoToStatus makes of it. The first failure of Add is told by Finish.
// Tests: tests/unit/tools/cli/data_convert_test.cc.
#pragma once

#include <isa-l/igzip_lib.h>
#include <zstd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "data/byte_stream.h"
#include "runtime/posix/fd.h"

namespace downpour {

class PackedFile {
 public:
  // Whether it is a hidden name, without its folder.
  static bool IsDraft(std::string_view name);

  PackedFile(const std::string& path, Packing packing);
  PackedFile(const PackedFile&) = delete;
  PackedFile& operator=(const PackedFile&) = delete;
  ~PackedFile();

  absl::Status Open();
  void Add(std::string_view bytes);
  absl::Status Finish();
  absl::Status Publish();
  const std::string& path() const { return path_; }
  absl::Status failure() const { return status_; }  // so far

 private:
  void Pack(bool is_last);
  void Gzip(bool is_last);
  void Zstd(bool is_last);
  void Write(std::string_view bytes);
  absl::Status Failed(const std::string& path) const;

  const std::string path_, draft_;
  const Packing packing_;
  UniqueFd file_;
  bool is_there_ = false;  // the draft
  std::string piece_;      // to be packed
  absl::Status status_;
  std::unique_ptr<isal_zstream> gzip_;
  std::vector<uint8_t> gzip_memory_;
  std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> zstd_;
  std::vector<uint8_t> packed_;
};

}  // namespace downpour
