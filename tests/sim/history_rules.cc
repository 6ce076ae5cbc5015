#include "tests/sim/history_rules.h"

#include <nlohmann/json.hpp>
#include <sstream>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "chief/history.h"

namespace downpour {

void HistoryRules::Before(const Process& process, const Input& input) {
  if (process.chief == nullptr) return;
  if (life_ != process.life) *this = HistoryRules(world_);
  life_ = process.life;
  const auto* done = std::get_if<StorageDone>(&input);
  if (done == nullptr) return;
  const auto append = appends_.extract(done->ticket);
  if (append.empty()) return;
  failed_ = !done->status.ok();
  if (!failed_) Read(process, append.mapped());
}

void HistoryRules::Read(const Process& chief, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) {
      Add(chief, "writes a history that is no JSON");
      continue;
    }
    if (json["kind"] == "eval") ++evaluated_;
    if (json["kind"] == "job") continue;
    const uint64_t step = json["step"];
    if (step < step_) Add(chief, absl::StrCat("writes step ", step, " behind ", step_));
    step_ = step;
  }
  if (evaluated_ > over_) Add(chief, "writes an evaluation twice");
}

void HistoryRules::OnEffect(const Process& process, const Effect& effect) {
  if (process.chief == nullptr) return;
  if (const auto* op = std::get_if<StorageOp>(&effect);
      op != nullptr && op->kind == StorageOp::Kind::kAppend && op->path == kHistoryFile) {
    std::string& text = appends_[op->ticket];
    for (const Payload& part : op->data) text += ToString(part);
  }
  if (const auto* log = std::get_if<Log>(&effect); log != nullptr && absl::StartsWith(log->text, "evaluation after ")) {
    ++over_;
  }
  const bool is_written = appends_.empty() && !failed_;
  if (std::holds_alternative<Exit>(effect) && is_written && evaluated_ < over_) {
    Add(process, absl::StrCat("writes ", evaluated_, " of ", over_, " evaluations"));
  }
}

}  // namespace downpour
