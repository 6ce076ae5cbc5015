#include "service/optuna.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "runtime/posix/whole_file.h"
#include "runtime/prng.h"
#include "service/ask_program.h"

namespace downpour {
namespace {

using nlohmann::json;

constexpr const char* kAsk = R"(
import json, sys
import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import TrialState, create_trial
optuna.logging.set_verbosity(optuna.logging.ERROR)
asked = json.load(open(sys.argv[1]))
space = {f"{i:03}": CategoricalDistribution(list(range(count))) if count else FloatDistribution(0, 1)
         for i, count in enumerate(asked["categories"])}
def told(units):
    return {name: min(int(unit * len(space[name].choices)), len(space[name].choices) - 1)
            if isinstance(space[name], CategoricalDistribution) else unit for name, unit in zip(space, units)}
sampler = optuna.samplers.TPESampler(seed=asked["seed"], n_startup_trials=asked["startup"], constant_liar=True)
study = optuna.create_study(direction=asked["direction"], sampler=sampler)
for trial in asked["trials"]:
    state = TrialState.RUNNING if trial["objective"] is None else TrialState.COMPLETE
    study.add_trial(create_trial(params=told(trial["units"]), distributions=space, value=trial["objective"],
                                 state=state))
answer = study.ask(space).params
print(json.dumps([(answer[name] + 0.5) / len(space[name].choices)
                  if isinstance(space[name], CategoricalDistribution) else answer[name] for name in space]))
)";
// The first trials are drawn at random: a fourth of all, within these.
constexpr int kLeastAtRandom = 3, kMostAtRandom = 10;

json QuestionOf(const TuningSpec& spec, uint64_t seed, const std::vector<Job>& trials) {
  json question = {{"seed", MixAll(seed, trials.size()) & 0x7fffffffu},
                   {"startup", std::clamp(spec.most_trials / 4, kLeastAtRandom, kMostAtRandom)},
                   {"direction", spec.maximize ? "maximize" : "minimize"},
                   {"categories", json::array()},
                   {"trials", json::array()}};
  for (const TunedParameter& parameter : spec.parameters) question["categories"].push_back(parameter.categories.size());
  for (const Job& trial : trials) {
    if (IsOver(trial.state) && !trial.trial->objective) continue;  // it failed, which says nothing of its values
    question["trials"].push_back({{"units", trial.trial->units}, {"objective", nullptr}});
    if (trial.trial->objective) question["trials"].back()["objective"] = *trial.trial->objective;
  }
  return question;
}

}  // namespace

absl::StatusOr<std::vector<double>> AskOptuna(const TuningSpec& spec, uint64_t seed, const std::vector<Job>& trials,
                                              const std::string& folder) {
  const std::string script = folder + "/ask.py", question = folder + "/ask.json";
  for (const auto& [path, text] :
       {std::pair{script, std::string(kAsk)}, std::pair{question, QuestionOf(spec, seed, trials).dump()}}) {
    const absl::Status written = WriteWhole(path, text, 0600, WhereThere::kReplace);
    if (!written.ok()) return written;
  }
  constexpr int kSeconds = 60;
  const char* python = std::getenv("DOWNPOUR_PYTHON");
  const std::vector<std::string> command = {python == nullptr ? "python3" : python, script, question};
  const absl::StatusOr<json> answer = ParseJson(AskProgram(command, kSeconds, Errors::kDropped).out);
  const auto is_unit = [](const json& unit) {
    return unit.is_number() && unit.get<double>() >= 0 && unit.get<double>() <= 1;
  };
  const bool is_good = answer.ok() && answer->is_array() && answer->size() == spec.parameters.size() &&
                       std::all_of(answer->begin(), answer->end(), is_unit);
  if (is_good) return answer->get<std::vector<double>>();
  return absl::UnavailableError("Optuna does not answer; its package is for the service's Python: pip install optuna");
}

}  // namespace downpour
