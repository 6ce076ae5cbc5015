#include "tests/scenario/script.h"

#include <glog/logging.h>

#include <cstdio>
#include <memory>
#include <sstream>

#include "tests/scenario/ps_stage.h"
#include "tests/scenario/worker_stage.h"

namespace downpour {
namespace {

std::unique_ptr<Stage> MakeStage(const std::string& which) {
  if (which == "ps") return std::make_unique<PsStage>();
  CHECK_EQ(which, "worker") << "a stage is ps or worker";
  return std::make_unique<WorkerStage>();
}

}  // namespace

Command::Command(const std::string& line) {
  std::istringstream in(line);
  in >> name_;
  for (std::string word; in >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      words_.push_back(word);
    } else {
      options_[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
}

std::string Command::Text(const std::string& option, const std::string& otherwise) const {
  const auto found = options_.find(option);
  return found == options_.end() ? otherwise : found->second;
}

uint64_t Command::Number(const std::string& option, uint64_t otherwise) const {
  const auto found = options_.find(option);
  return found == options_.end() ? otherwise : std::stoull(found->second);
}

SlicePlace ParsePlace(const std::string& word) {
  unsigned slice = 0, term = 0, n = 0;
  int read = 0;
  CHECK_EQ(std::sscanf(word.c_str(), "%u@%u.%u%n", &slice, &term, &n, &read), 3) << word << " is not SLICE@TERM.N";
  const std::string rest = word.substr(static_cast<size_t>(read));
  return {SliceId{slice}, {term, n}, rest.empty() ? rest : rest.substr(1)};
}

Round ParseRoundName(const std::string& word) {
  Round round;
  CHECK_EQ(std::sscanf(word.c_str(), "%u-%u", &round.term, &round.n), 2) << word << " is not TERM-N";
  return round;
}

std::string Play(const std::string& text) {
  std::istringstream in(text);
  std::ostringstream played;
  std::unique_ptr<Stage> stage;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(" ")) continue;  // what was expected
    played << line << "\n";
    if (line.empty() || line.starts_with("#")) continue;
    const Command command(line);
    if (command.name() == "stage") {
      stage = MakeStage(command.words().at(0));
      continue;
    }
    CHECK(stage != nullptr) << "the first command names the stage";
    for (const std::string& outcome : stage->Do(command)) played << "    " << outcome << "\n";
  }
  return played.str();
}

}  // namespace downpour
