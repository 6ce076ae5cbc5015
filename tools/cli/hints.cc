#include "tools/cli/hints.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "job/job_file.h"
#include "job/job_names.h"
#include "job/nearest_name.h"

namespace downpour {
namespace {

struct Synonym {
  const char* said;
  const char* meant;
};

constexpr Synonym kVerbs[] = {
    {"train", "run"},
    {"fit", "run"},
    {"start", "run"},
    {"launch", "run"},
    {"exec", "run"},
    {"submit", "run"},
    {"up", "run"},
    {"resume", "run"},
    {"continue", "run"},
    {"restart", "run"},
    {"kill", "stop"},
    {"end", "stop"},
    {"abort", "stop"},
    {"halt", "stop"},
    {"terminate", "stop"},
    {"down", "stop"},
    {"delete", "stop"},
    {"quit", "stop"},
    {"resize", "scale"},
    {"autoscale", "scale"},
    {"workers", "scale"},
    {"grow", "scale"},
    {"shrink", "scale"},
    {"info", "status"},
    {"show", "status"},
    {"state", "status"},
    {"ps", "status"},
    {"describe", "status"},
    {"list", "status"},
    {"top", "watch"},
    {"monitor", "watch"},
    {"follow", "watch"},
    {"progress", "watch"},
    {"tail", "logs"},
    {"validate", "check"},
    {"lint", "check"},
    {"verify", "check"},
    {"plan", "check"},
    {"diagnose", "doctor"},
    {"test", "evaluate"},
    {"eval", "evaluate"},
    {"predict", "evaluate"},
    {"score", "evaluate"},
    {"save", "export"},
    {"convert", "export"},
    {"checkpoints", "checkpoint"},
    {"download", "data"},
    {"keygen", "keys"},
    {"audit", "ledger"},
    {"compare", "experiments"},
    {"runs", "experiments"},
    {"history", "experiments"},
};

// What other trainers call flags of ours.
constexpr Synonym kFlags[] = {
    {"output", "job-dir"},     {"outputdir", "job-dir"}, {"outdir", "job-dir"},        {"logdir", "job-dir"},
    {"modeldir", "job-dir"},   {"dir", "job-dir"},       {"folder", "job-dir"},        {"savedir", "job-dir"},
    {"continue", "resume"},    {"restore", "resume"},    {"fromcheckpoint", "resume"}, {"host", "chief"},
    {"address", "chief"},      {"server", "chief"},      {"master", "chief"},          {"port", "listen"},
    {"bind", "listen"},        {"json", "output"},       {"silent", "quiet"},          {"override", "set"},
    {"numworkers", "workers"}, {"nworkers", "workers"},  {"workercount", "workers"},   {"n", "workers"},
    {"replicas", "workers"},
};

// And entries of the job file, beside their own last names.
constexpr Synonym kEntries[] = {
    {"lr", "training.optimizer.learningRate"},
    {"batch", "training.batchSize"},
    {"bs", "training.batchSize"},
    {"numepochs", "training.epochs"},
    {"nepochs", "training.epochs"},
    {"optimizer", "training.optimizer.name"},
    {"momentum", "training.optimizer.momentum"},
    {"wd", "training.optimizer.weightDecay"},
    {"clip", "training.optimizer.clipNorm"},
    {"gradclip", "training.optimizer.clipNorm"},
    {"maxgradnorm", "training.optimizer.clipNorm"},
    {"warmup", "training.optimizer.schedule.warmupSteps"},
    {"lrschedule", "training.optimizer.schedule.name"},
    {"lrscheduler", "training.optimizer.schedule.name"},
    {"workers", "cluster.workerCount"},
    {"workercount", "cluster.workerCount"},
    {"numworkers", "cluster.workerCount"},
    {"nworkers", "cluster.workerCount"},
    {"ps", "cluster.parameterServerCount"},
    {"numps", "cluster.parameterServerCount"},
    {"servers", "cluster.parameterServerCount"},
    {"numservers", "cluster.parameterServerCount"},
    {"parameterservers", "cluster.parameterServerCount"},
    {"parameterservercount", "cluster.parameterServerCount"},
    {"checkpointevery", "checkpoint.every"},
    {"saveevery", "checkpoint.every"},
    {"savesteps", "checkpoint.every"},
    {"maxtime", "scheduling.maxRunningTime"},
    {"timeout", "scheduling.maxRunningTime"},
    {"dtype", "training.precision"},
    {"randomseed", "seed"},
    {"accumulate", "training.pushEvery"},
    {"gradientaccumulationsteps", "training.pushEvery"},
    {"innersteps", "training.localSteps"},
    {"syncevery", "training.localSteps"},
    {"trainimages", "data.train.images"},
    {"trainlabels", "data.train.labels"},
    {"sampleweight", "data.weight"},
    {"weightcolumn", "data.weight"},
};

std::string Plain(const std::string& name) {
  return absl::AsciiStrToLower(absl::StrReplaceAll(name, {{"-", ""}, {"_", ""}}));
}

template <size_t n>
std::string Meant(const Synonym (&synonyms)[n], const std::string& said) {
  const auto found = std::find_if(std::begin(synonyms), std::end(synonyms),
                                  [&](const Synonym& synonym) { return synonym.said == said; });
  return found == std::end(synonyms) ? "" : found->meant;
}

// The entry of the job file whose last name that is, of several the outermost.
std::string EntryNamed(const std::string& name) {
  std::string nearest;
  const nlohmann::json defaults = nlohmann::json::parse(CanonicalJob(JobSpec())).flatten();
  for (const auto& [place, value] : defaults.items()) {
    const std::string key = absl::StrReplaceAll(place.substr(1), {{"/", "."}});
    const bool outer =
        nearest.empty() || std::count(key.begin(), key.end(), '.') < std::count(nearest.begin(), nearest.end(), '.');
    if (outer && Plain(key.substr(key.rfind('.') + 1)) == name) nearest = key;
  }
  return nearest;
}

bool Has(const std::vector<std::string>& known, const std::string& name) {
  return std::find(known.begin(), known.end(), name) != known.end();
}

}  // namespace

std::string VerbMeant(const std::string& word, const std::vector<std::string>& known) {
  const std::string meant = Meant(kVerbs, Plain(word));
  return Has(known, meant) ? meant : NearestName(word, known);
}

std::string FlagMeantBy(const std::string& word) {
  for (const char* resumes : {"resume", "continue", "restart"}) {
    if (Plain(word) == resumes) return " --resume";
  }
  return Plain(word) == "start" ? " (with --resume it continues a job)" : "";
}

std::string FlagHint(const std::string& flag, const std::string& rest, const std::vector<std::string>& known) {
  const size_t equals = flag.find('=');
  const std::string name = flag.substr(0, equals), plain = Plain(name);
  if (!flag.starts_with("-")) return DidYouMean(name, known);
  if (const std::string ours = "--" + Meant(kFlags, plain); Has(known, ours)) return "; did you mean " + ours + "?";
  if (Has(known, "--set")) {
    std::string entry = Meant(kEntries, plain);
    if (entry.empty()) entry = EntryNamed(plain);
    const bool has_value = equals == std::string::npos && !rest.empty() && !rest.starts_with("-");
    const std::string value = equals != std::string::npos ? flag.substr(equals + 1) : has_value ? rest : "VALUE";
    if (!entry.empty()) return absl::StrCat("; did you mean --set ", entry, "=", value, "?");
  }
  return DidYouMean(name, known);
}

}  // namespace downpour
