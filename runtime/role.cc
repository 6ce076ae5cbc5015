#include "runtime/role.h"

#include <csignal>
#include <utility>

namespace downpour {

std::string Reason(const StopRequested& stop) {
  if (!stop.notice.empty()) return stop.notice;
  return stop.signal == SIGINT ? "an interrupt (Ctrl-C, SIGINT)" : "SIGTERM";
}

Input::Input(const Input& other) = default;
Input::Input(Input&& other) noexcept = default;
Input& Input::operator=(const Input& other) = default;
Input& Input::operator=(Input&& other) noexcept = default;
Input::~Input() = default;

Effect::Effect(const Effect& other) = default;
Effect::Effect(Effect&& other) noexcept = default;
Effect& Effect::operator=(const Effect& other) = default;
Effect& Effect::operator=(Effect&& other) noexcept = default;
Effect::~Effect() = default;

void Effects::Add(Effect effect) { list_.push_back(std::move(effect)); }
void Effects::SendTo(PeerId to, Message message) { Add(Send{to, std::move(message)}); }
void Effects::Info(std::string text) { Add(Log{Severity::kInfo, std::move(text)}); }
void Effects::Warn(std::string text) { Add(Log{Severity::kWarning, std::move(text)}); }
void Effects::Error(std::string text) { Add(Log{Severity::kError, std::move(text)}); }
void Effects::SayIn(uint64_t run) {
  for (Effect& effect : list_) {
    if (auto* send = std::get_if<Send>(&effect)) send->run = run;
  }
}
std::vector<Effect> Effects::Take() { return std::exchange(list_, {}); }

}  // namespace downpour
