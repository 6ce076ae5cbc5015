// Typed reading of one map of a job file: ask for each key that may stand there, then Finish() reports those nobody
// asked for. Whatever is wrong is added to the errors and leaves the output as it was, so that all errors are found in
// one go.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "job/job_error.h"
#include "job/job_names.h"
#include "job/yaml_tree.h"

namespace downpour {

inline constexpr int64_t kMostTasks = 1024;  // of one role

class JobErrors {
 public:
  static constexpr size_t kMost = 100;  // a file with more gets the first ones

  explicit JobErrors(std::string file) : file_(std::move(file)) {}
  void Add(const YamlNode& at, const std::string& key, std::string what, std::string remedy = "") {
    AddAt(at, key, std::move(what), std::move(remedy), /*of_itself=*/false);
  }
  // Likewise, what is wrong whatever else the job says (JobError::of_itself).
  void AddOfItself(const YamlNode& at, const std::string& key, std::string what, std::string remedy = "") {
    AddAt(at, key, std::move(what), std::move(remedy), /*of_itself=*/true);
  }
  void Add(const YamlError& error) {
    Add({file_, error.line, error.column, "", error.what, error.remedy, /*of_itself=*/true});
  }
  void AddOverride(const std::string& key, std::string what, std::string remedy = "") {
    Add({kSetByHand, 0, 0, key, std::move(what), std::move(remedy), /*of_itself=*/true});
  }
  // An override took it out of the file: that it is missing is the override's fault.
  void NoteRemoved(const std::string& key) { removed_.insert(key); }
  size_t count() const { return errors_.size(); }
  bool full() const { return errors_.size() >= kMost; }
  // In the order of the file, those of overrides last.
  std::vector<JobError> Take();

 private:
  void Add(JobError error);
  void AddAt(const YamlNode& at, const std::string& key, std::string what, std::string remedy, bool of_itself);
  std::string file_;
  std::vector<JobError> errors_;
  std::set<std::string> removed_;
};

class MapReader {
 public:
  // `path` is the dotted place of `node`, empty for the whole file. A node that is no map is reported and read as
  // empty.
  MapReader(const YamlNode& node, std::string path, JobErrors& errors);

  // The value of a key, or nullptr.
  const YamlNode* Find(const std::string& key);
  // The same; reports a missing one.
  const YamlNode* Require(const std::string& key);

  // Whether the key stands there without a value, which is as if absent; that is reported where the key stands.
  bool RefuseNothing(const std::string& key, const std::string& remedy);

  // Each reads a key if it is there; returns whether a good value was read.
  bool Integer(const std::string& key, int64_t min, int64_t max, int64_t* out);
  bool Seed(const std::string& key, uint64_t* out);
  bool Flag(const std::string& key, bool* out);
  bool Text(const std::string& key, std::string* out);
  bool Name(const std::string& key, std::string* out);  // what IsPlainName allows, at most 64 characters
  bool Duration(const std::string& key, std::chrono::nanoseconds* out);
  bool DurationOrAuto(const std::string& key, std::optional<std::chrono::nanoseconds>* out);  // auto: nothing
  // `good` must hold; `allowed` says what it asks for.
  bool Number(const std::string& key, const std::function<bool(double)>& good, const std::string& allowed, double* out);
  // The index of the value in `allowed`, or -1.
  int Choose(const std::string& key, const std::vector<std::string>& allowed);
  template <typename T, size_t N>
  bool Choice(const std::string& key, const Named<T> (&names)[N], T* out) {
    std::vector<std::string> allowed;
    for (const Named<T>& named : names) allowed.push_back(named.name);
    const int chosen = Choose(key, allowed);
    if (chosen >= 0) *out = names[chosen].value;
    return chosen >= 0;
  }

  void Finish();

  // The dotted place of a key; of the map itself for "".
  std::string PathOf(const std::string& key) const {
    return key.empty() || path_.empty() ? path_ + key : path_ + "." + key;
  }
  void Fail(const YamlNode& at, const std::string& key, std::string what, std::string remedy = "") {
    errors_.Add(at, PathOf(key), std::move(what), std::move(remedy));
  }
  // A key that is there, though it has a meaning only with `needed`, such as "name: adam". `actual` says what is so.
  void FailOnlyWith(const std::string& key, const std::string& needed, const std::string& actual);
  // A key that has a meaning elsewhere: where it stands here, that is told, and not that it is unknown.
  void FailElsewhere(const std::string& key, std::string what, std::string remedy);
  const YamlNode& node() const { return node_; }

 private:
  void Refuse(const YamlNode& at, const std::string& key, std::string what, std::string remedy = "") {
    errors_.AddOfItself(at, PathOf(key), std::move(what), std::move(remedy));
  }
  // `or_else` says what else is allowed.
  bool ReadDuration(const YamlNode& value, const std::string& key, const std::string& or_else,
                    std::chrono::nanoseconds* out);

  const YamlNode& node_;
  std::string path_;
  JobErrors& errors_;
  std::vector<std::string> known_;
  std::vector<std::string> elsewhere_;  // of FailElsewhere
};

// A scalar as text; reports what is no scalar, or what YAML takes for a number, a boolean or nothing unless quoted. An
// argument may be empty, other text not.
bool ReadArgument(const YamlNode& node, const std::string& path, JobErrors& errors, std::string* out);
bool ReadText(const YamlNode& node, const std::string& path, JobErrors& errors, std::string* out);
bool ReadInteger(const YamlNode& node, const std::string& path, JobErrors& errors, int64_t min, int64_t max,
                 int64_t* out);
// `good` and `allowed` as MapReader::Number takes them.
bool ReadNumber(const YamlNode& node, const std::string& path, JobErrors& errors,
                const std::function<bool(double)>& good, const std::string& allowed, double* out);
bool ReadName(const YamlNode& node, const std::string& path, JobErrors& errors, std::string* out);

// The items of a list that must hold 1 to `most` of them; none where it does not, which is reported, or is not there.
const std::vector<YamlNode>& ItemsOf(const YamlNode* node, const std::string& path, size_t most, JobErrors& errors);
// The same of a list that may be empty.
const std::vector<YamlNode>& MaybeItemsOf(const YamlNode* node, const std::string& path, size_t most,
                                          JobErrors& errors);

// "a map", "the text 'abc'", "nothing"; for sentences.
std::string Describe(const YamlNode& node);

}  // namespace downpour
