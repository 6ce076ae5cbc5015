// DeployedFiles: where a version's files lie, and how they come there, so that nothing that happens to its origin later
// changes what was deployed.
//
//   const DeployedFiles files(root);
//   absl::StatusOr<FoundOrigin> found = FindOrigin("gs://models/wd1/best", look_up);
//   absl::StatusOr<PinnedFiles> pinned = files.Pin(*found, "m", "v1");
//   auto predictor = OpenPredictor(files.PathOf("m", "v1", pinned->files), {});
//
// Shapes: an origin is the URI of a job's --job-dir, a job's name, a path below the service's root, or any path, each
//   also with /latest, /best, /checkpoints/TERM-N or /live behind it; or an exported file, or a folder that holds one.
//   ROOT/models/MODEL/VERSION has checkpoints/TERM-N or the exported file; of Python code also its files
//   (served_code.h), and kPythonLog with what it prints.
// Order: the files lie in VERSION.new until all are there, and are synced before they have their name. A checkpoint of
//   a job of this service is pinned by hard links, since its files are never changed; all else is copied.
// Errors: NOT_FOUND for an origin that is nothing; INVALID_ARGUMENT for one that is no model; DATA_LOSS for damage;
//   UNAVAILABLE where the disk refuses; those of OpenPredictor.
// Threads: any; of one version one at a time.
// Tests: tests/process/test_predictions.py.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace downpour {

struct FoundOrigin {
  std::string path;             // a job's folder, a checkpoint's, or a file
  std::string checkpoint = {};  // of a job's folder: TERM-N or best; empty: the newest
  bool is_live = false;         // of a job's folder: what its servers hold by now, as long as it trains
};

// What an origin may name, as the service knows it.
struct OriginLookup {
  std::string root;
  std::function<absl::StatusOr<std::string>(const std::string& uri)> path_of;  // of gs://
  std::function<std::string(const std::string& uri)>
      job_with;  // the folder of the newest job with that --job-dir; or ""
  std::function<std::string(const std::string& name)> job_named;  // the folder of a job; or ""
};

inline constexpr char kLiveSuffix[] = "/live";
bool IsLiveOrigin(const std::string& origin);

// Whether the origin may lead outside of the service's root: whoever names it must be one who may run programs there.
bool IsAnyPath(const std::string& origin, const std::string& root);

absl::StatusOr<FoundOrigin> FindOrigin(const std::string& origin, const OriginLookup& look_up);

struct PinnedFiles {
  std::string files;  // below the version's folder
  std::string found;  // what the origin came to: a path
};

inline constexpr char kPythonLog[] = "python.log";

class DeployedFiles {
 public:
  explicit DeployedFiles(std::string root) : root_(std::move(root)) {}

  std::string PathOf(const std::string& model, const std::string& version, const std::string& files = "") const;
  absl::StatusOr<PinnedFiles> Pin(const FoundOrigin& origin, const std::string& model,
                                  const std::string& version) const;
  void Remove(const std::string& model, const std::string& version) const;
  void RemoveModel(const std::string& model) const;  // with its log of requests
  // All but those of these versions, of a service that was killed.
  void RemoveOthers(const std::vector<std::pair<std::string, std::string>>& versions) const;

 private:
  std::string root_;
};

}  // namespace downpour
