// ObjectStore: the service's gs://, buckets and objects as folders and files.
//
//   ObjectStore store(root);
//   const std::string upload = store.Begin("models", "wd1/trainer-0.0.0.tar.gz").value();
//   store.Append(upload, bytes); store.Finish(upload);   // the object is there now, whole
//   store.PathOf("gs://models/wd1")                // ROOT/storage/models/wd1
//
// Shapes: gs://BUCKET/NAME is ROOT/storage/BUCKET/NAME. A bucket comes with its first use. What is being uploaded lies
//   in ROOT/uploads under a random id, by which a client, and a later service, may continue it.
// Errors: INVALID_ARGUMENT for names that Google would refuse and for those that would leave the bucket's folder;
//   NOT_FOUND; OUT_OF_RANGE for an object of more than kMostObjectBytes; UNAVAILABLE where the disk refuses.
// Threads: any.
// Tests: tests/unit/service/object_store_test.cc.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace downpour {

inline constexpr int64_t kMostObjectBytes = int64_t{2} << 30;
inline constexpr char kPackagesBucket[] = "packages";  // of the code that `downpour jobs submit` brings

struct StoredObject {
  std::string bucket, name;
  int64_t bytes = 0;
  int64_t written_ms = 0;
};

class ObjectStore {
 public:
  explicit ObjectStore(std::string root) : root_(std::move(root)) {}

  absl::Status CheckBucket(const std::string& bucket) const;
  // Of gs://BUCKET/NAME, whether something is there or not.
  absl::StatusOr<std::string> PathOf(const std::string& uri) const;
  absl::StatusOr<std::string> PathOf(const std::string& bucket, const std::string& name) const;

  // Returns the id of an upload.
  absl::StatusOr<std::string> Begin(const std::string& bucket, const std::string& name) const;
  absl::StatusOr<int64_t> Size(const std::string& upload) const;
  absl::Status Append(const std::string& upload, std::string_view bytes) const;
  absl::StatusOr<StoredObject> Finish(const std::string& upload) const;

  absl::StatusOr<StoredObject> Find(const std::string& bucket, const std::string& name) const;
  // By name, of at most `most` objects.
  absl::StatusOr<std::vector<StoredObject>> List(const std::string& bucket, const std::string& prefix,
                                                 size_t most) const;
  // The object, and the folders above it that hold nothing else. Nothing is done where there is none.
  absl::Status Remove(const std::string& uri) const;

 private:
  std::string root_;
  mutable std::mutex folders_;  // held while one is made for an object, or removed because it is empty
};

}  // namespace downpour
