#include "runtime/posix/keys_watch.h"

#include <glog/logging.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace downpour {
namespace {

constexpr auto kEvery = std::chrono::seconds(1);

}  // namespace

struct KeysWatch::State {
  State(std::string folder_in, KeyRing now) : folder(std::move(folder_in)), last(std::move(now)) {}

  void ReadAgain();
  void Watch();

  const std::string folder;
  KeyRing last;         // of the thread alone, as is the next
  std::string trouble;  // why it could not be read at last

  std::mutex mutex;
  std::condition_variable ending;
  bool ended = false;
  std::optional<KeyRing> changed;
};

void KeysWatch::State::ReadAgain() {
  const absl::StatusOr<KeyRing> now = LoadKeysAgain(folder, last);
  const std::string why(now.status().message());
  if (std::exchange(trouble, why) != why && !now.ok()) {
    LOG(WARNING) << "the keys that are known stay known, since those in the folder cannot take their place: " << why;
  }
  if (!now.ok() || *now == last) return;
  LOG(INFO) << "the keys in " << folder << " have changed: whose is not there any more is not heard any more";
  last = *now;
  std::lock_guard lock(mutex);
  changed = *now;
}

void KeysWatch::State::Watch() {
  const auto over = [this] {
    std::unique_lock lock(mutex);
    return ending.wait_for(lock, kEvery, [this] { return ended; });
  };
  while (!over()) ReadAgain();
}

KeysWatch::KeysWatch(std::string folder, KeyRing now)
    : state_(std::make_shared<State>(std::move(folder), std::move(now))) {
  std::thread([state = state_] { state->Watch(); }).detach();
}

KeysWatch::~KeysWatch() {
  std::lock_guard lock(state_->mutex);
  state_->ended = true;
  state_->ending.notify_one();
}

std::optional<KeyRing> KeysWatch::Take() {
  std::lock_guard lock(state_->mutex);
  return std::exchange(state_->changed, std::nullopt);
}

}  // namespace downpour
