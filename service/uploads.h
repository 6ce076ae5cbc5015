// Uploads: the objects that are being uploaded, each in a folder of its own until it is whole.
//
//   Uploads uploads("/srv/jobs/uploads");
//   const std::string id = uploads.Begin({.bucket = "models", .name = "a"}).value();
//   uploads.Write(id, /*offset=*/0, bytes);     // again, or by two requests at a time: the same bytes once
//   uploads.Finish(id, [](const UploadOrder& order, const std::string& data) { ...rename the file data... });
//
// Shapes: FOLDER/ID/data has the bytes so far and FOLDER/ID/order what is to become of them, so that a later service
//   continues them. An id is random.
// Bounds: UploadBounds. One that has not grown for `age` goes. Where there is no room for another one, those go that
//   have not grown for `idle`, the longest idle first.
// Errors: NOT_FOUND for an id that never was, or is over; INVALID_ARGUMENT for bytes that do not fit behind those that
//   are there; OUT_OF_RANGE for an object of more than kMostObjectBytes; RESOURCE_EXHAUSTED where uploads that are at
//   work have all the room; UNAVAILABLE where the disk refuses.
// Threads: any. Two requests for one upload write one after the other.
// Tests: tests/unit/service/uploads_test.cc.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace downpour {

inline constexpr int64_t kMostObjectBytes = int64_t{2} << 30;

struct UploadOrder {
  std::string bucket, name;
  std::string crc32c = {}, md5 = {};       // that its bytes must have, in base64; empty: not said
  std::optional<int64_t> generation = {};  // of the object that it may replace; 0: there may be none
};

struct UploadBounds {
  size_t uploads = 256;
  int64_t bytes = int64_t{16} << 30;  // of all together
  int64_t age_ms = int64_t{7} * 24 * 3600 * 1000;
  int64_t idle_ms = int64_t{10} * 60 * 1000;
};

class Uploads {
 public:
  explicit Uploads(std::string folder, UploadBounds bounds = {}) : folder_(std::move(folder)), bounds_(bounds) {}
  ~Uploads();

  // Returns its id.
  absl::StatusOr<std::string> Begin(const UploadOrder& order);
  // How many bytes it has, from its first byte on without a gap.
  absl::StatusOr<int64_t> Size(const std::string& id);
  // How many bytes it is to have. Said twice, it must be the same.
  absl::Status Expect(const std::string& id, int64_t total);
  // The bytes that belong at `offset`. Those that are there already stay as they are.
  absl::Status Write(const std::string& id, int64_t offset, std::string_view bytes);

  // While `keep` takes the file away nobody writes. The upload is over then, unless `keep` says UNAVAILABLE.
  using Keep = std::function<absl::Status(const UploadOrder& order, const std::string& data)>;
  absl::Status Finish(const std::string& id, const Keep& keep);
  // What an id of the last few that were finished became, for a client to which no answer came.
  std::optional<UploadOrder> Finished(const std::string& id) const;
  absl::Status Drop(const std::string& id);
  void RemoveOld();

 private:
  struct Upload;
  using Held = std::shared_ptr<Upload>;
  absl::StatusOr<Held> Find(const std::string& id);
  void Load();  // what an earlier service left
  // Takes those that go out of the list, and makes room for so many more; without any lock.
  void MakeRoom(size_t uploads, int64_t bytes);
  absl::Status Reserve(int64_t bytes);
  void Forget(const std::string& id);
  void Remove(const Held& upload);

  const std::string folder_;
  const UploadBounds bounds_;
  mutable std::mutex mutex_;  // of what follows; taken after an Upload's own
  bool loaded_ = false;
  std::map<std::string, Held> uploads_;
  int64_t bytes_ = 0;
  std::deque<std::pair<std::string, UploadOrder>> finished_;
};

}  // namespace downpour
