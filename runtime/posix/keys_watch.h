// A folder of keys, read again and again on a thread of its own: a mount that hangs holds up nobody else.
//
//   KeysWatch watch("/etc/downpour/keys", ring);
//   if (std::optional<KeyRing> changed = watch.Take()) ...
//
// Order: Take gives each change once, the newest. What cannot be read, or is of another cluster, changes nothing.
// Cost: five small files a second.
// Errors: logged, each once until there is another.
// Threads: one, and the watch's own. The destructor does not wait for a file that does not come.
// Tests: tests/unit/runtime/posix/keys_watch_test.cc.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/posix/keys.h"

namespace downpour {

class KeysWatch {
 public:
  KeysWatch(std::string folder, KeyRing now);
  ~KeysWatch();
  std::optional<KeyRing> Take();

 private:
  struct State;  // its thread's as well, which may outlive this

  const std::shared_ptr<State> state_;
};

}  // namespace downpour
