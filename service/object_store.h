// ObjectStore: the service's gs://, buckets and objects as folders and files.
//
//   ObjectStore store(root);
//   const std::string upload = store.Begin({.bucket = "models", .name = "wd1/trainer-0.0.0.tar.gz"}).value();
//   store.uploads().Write(upload, /*offset=*/0, bytes);
//   store.Finish(upload);                          // the object is there now, whole
//   store.PathOf("gs://models/wd1")                // ROOT/storage/models/wd1
//
// Shapes: gs://BUCKET/NAME is ROOT/storage/BUCKET/NAME. A bucket comes with its first use. What is being uploaded lies
//   in ROOT/uploads (uploads.h).
// Errors: INVALID_ARGUMENT for names that Google would refuse and for those that would leave the bucket's folder;
//   NOT_FOUND; ABORTED where another object is there than the caller knows of; FAILED_PRECONDITION for a bucket that is
//   not empty; UNAVAILABLE where the disk refuses; those of Uploads and of ChecksumCache.
// Threads: any.
// Tests: tests/unit/service/object_store_test.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/checksums.h"
#include "service/uploads.h"

namespace downpour {

inline constexpr char kPackagesBucket[] = "packages";  // of the code that `downpour jobs submit` brings

struct StoredObject {
  std::string bucket, name;
  int64_t bytes = 0;
  int64_t written_ms = 0;
  int64_t generation = 0;  // another one after each change: when that was, in us
};

struct ListOrder {
  std::string prefix = {};
  std::string delimiter = {};  // what a name has behind the prefix and this is one entry; empty: each name is one
  std::string after = {};      // Listing::last of the page before
  size_t most = 1000;
};

struct Listing {
  std::vector<StoredObject> objects;  // by name, in the order of its bytes
  std::vector<std::string> prefixes;  // names to the delimiter
  std::string last = {};              // empty: no more entries follow
};

class ObjectStore {
 public:
  explicit ObjectStore(std::string root)
      : root_(std::move(root)),
        uploads_(std::make_unique<Uploads>(root_ + "/uploads")),
        checksums_(std::make_unique<ChecksumCache>()) {}

  // By name.
  std::vector<std::string> Buckets() const;
  absl::Status MakeBucket(const std::string& bucket) const;  // ALREADY_EXISTS
  // Of one without objects.
  absl::Status RemoveBucket(const std::string& bucket) const;
  absl::Status CheckBucket(const std::string& bucket) const;
  // Of gs://BUCKET/NAME, whether something is there or not.
  absl::StatusOr<std::string> PathOf(const std::string& uri) const;
  absl::StatusOr<std::string> PathOf(const std::string& bucket, const std::string& name) const;

  Uploads& uploads() const { return *uploads_; }
  // An argument of a program with paths for its URIs, which are all of it, stand behind a '=', or behind a comma each:
  // "--train=gs://models/a,gs://models/b". What is no URI of this store stays as it is.
  std::string WithPaths(const std::string& argument) const;
  // Returns the id of an upload. ABORTED where Finish would be refused as well.
  absl::StatusOr<std::string> Begin(const UploadOrder& order) const;
  // Done again, it says the same.
  absl::StatusOr<StoredObject> Finish(const std::string& upload) const;
  absl::StatusOr<StoredObject> Store(const UploadOrder& order, std::string_view content) const;
  absl::StatusOr<StoredObject> Copy(const StoredObject& from, const UploadOrder& order) const;

  absl::StatusOr<StoredObject> Find(const std::string& bucket, const std::string& name) const;
  absl::StatusOr<Checksums> ChecksumsOf(const StoredObject& object) const;
  // Walks through all that the prefix's folder holds.
  absl::StatusOr<Listing> List(const std::string& bucket, const ListOrder& order) const;
  // The object, and the folders above it that hold nothing else. Nothing is done where there is none.
  absl::Status Remove(const std::string& uri) const;

 private:
  absl::Status CheckGeneration(const UploadOrder& order) const;
  absl::Status Keep(const UploadOrder& order, const std::string& data) const;

  const std::string root_;
  const std::unique_ptr<Uploads> uploads_;
  const std::unique_ptr<ChecksumCache> checksums_;
  mutable std::mutex folders_;  // held while one is made for an object, or removed because it is empty
};

}  // namespace downpour
