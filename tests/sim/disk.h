// Simulated storage: files in memory, and what of them survives when the power fails.
//
//   Disk disk(seed);
//   StorageDone done = disk.Carry(op);      // at once; the world adds the delay
//   disk.PowerFailure();                    // unsynced contents and folder entries are lost, in part
//
// Order: contents are durable after kSync, entries after kSyncDir of their folder. At a power failure each name by
//   itself is drawn to be as it was synced or as any change since left it, whatever becomes of the others; each file
//   keeps a drawn part of its unsynced tail, of which a drawn run reads as zeros.
// Errors: as runtime/posix/storage.h gives them: ALREADY_EXISTS, NOT_FOUND, RESOURCE_EXHAUSTED (no space, after a part
//   was written), UNKNOWN (an input/output error; of a sync: the unsynced tail is gone). A path that leaves the folder
//   is INVALID_ARGUMENT.
// Tests: tests/sim/disk_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/prng.h"
#include "runtime/role.h"
#include "tests/sim/fault_counts.h"

namespace downpour {

class Disk {
 public:
  explicit Disk(uint64_t seed) : prng_(seed) {}

  struct Faults {
    double no_space = 0;  // chance that a write or append fails half done
    double io_error = 0;  // chance that a sync, read, rename or folder sync fails
  };
  void set_faults(Faults faults) { faults_ = faults; }
  Faults faults() const { return faults_; }

  // Whether drawn faults may hit it.
  StorageDone Carry(const StorageOp& op, bool may_fail = true);
  void PowerFailure();
  // The files as a process sees them, and a folder where there is none.
  using Backup = std::map<std::string, std::optional<std::string>>;
  Backup MakeBackup() const;
  void PutBack(const Backup& backup);  // all of it is durable, and nothing else is left
  void NoteStall() { ++faults_dealt_["stall"]; }
  // One byte flipped, or the tail or all of it gone.
  void Damage(const std::string& path);
  const FaultCounts& faults_dealt() const { return faults_dealt_; }

  // What a reader would find if the power failed now and nothing unsynced survived. NOT_FOUND if that is no whole file.
  absl::StatusOr<std::string> ReadDurable(const std::string& path) const;
  // Whether a power failure now may leave that name.
  bool MaySurvive(const std::string& path) const;
  // What a process reads, if no fault is in its way.
  absl::StatusOr<std::string> ReadSeen(const std::string& path) const;
  // Files whose path begins with `prefix`, as a process sees them.
  std::vector<std::string> Files(const std::string& prefix) const;

 private:
  struct File {
    std::string data;
    size_t synced = 0;
  };
  struct Entry {  // a folder if `file` is null
    std::shared_ptr<File> file;
  };
  using Tree = std::map<std::string, Entry>;
  using State = std::optional<Entry>;  // of a name; none: it is not there

  void Set(const std::string& path, State state);
  static void Put(const std::string& path, const State& state, Tree& tree);
  bool Deal(double chance, const char* kind);

  absl::Status MakeDir(const std::string& path);
  absl::Status Append(const StorageOp& op);
  absl::Status Sync(const std::string& path);
  absl::Status SyncDir(const std::string& path);
  absl::Status Rename(const std::string& path, const std::string& target);
  void Remove(const std::string& path);
  absl::StatusOr<Payload> Read(const StorageOp& op);
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) const;

  Prng prng_;
  Faults faults_;
  bool may_fail_ = true;  // the operation at hand
  FaultCounts faults_dealt_;
  Tree seen_;                                           // as processes see it
  Tree durable_;                                        // entries that survive; contents survive up to File::synced
  std::map<std::string, std::vector<State>> unsynced_;  // what each path became since its folder was synced
};

}  // namespace downpour
