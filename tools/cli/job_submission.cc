#include "tools/cli/job_submission.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "job/job_file.h"
#include "job/yaml_tree.h"
#include "runtime/driver/posix_job_file.h"
#include "service/job.h"
#include "service/object_store.h"
#include "service/service_client.h"
#include "tools/cli/job_warnings.h"
#include "tools/cli/python_packages.h"
#include "tools/cluster/private_folder.h"

namespace downpour {
namespace {

using nlohmann::json;

json LabelsOf(const JobSubmission& submission) {
  json labels = json::object();
  for (const std::string& label : submission.labels) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(label, absl::MaxSplits('=', 1));
    labels[pair.first] = pair.second;
  }
  return labels;
}

// The code in the service's store, as URIs: what lies there already, and one archive of the rest. Its name is new each
// time, so no job's code ever changes.
absl::StatusOr<json> Upload(const JobSubmission& submission, PythonCode code, const ServiceClient& service) {
  json uris = json::array();
  for (const std::string& package : code.packages) {
    if (absl::StartsWith(package, "gs://")) uris.push_back(package);
  }
  std::erase_if(code.packages, [](const std::string& package) { return absl::StartsWith(package, "gs://"); });
  if (!uris.empty() && code.packages.empty() && code.package_path.empty()) return uris;
  const absl::StatusOr<PrivateFolder> scratch = PrivateFolder::Make();
  if (!scratch.ok()) return scratch.status();
  const absl::StatusOr<Payload> packed = GatherCode(code, scratch->path());
  if (!packed.ok()) return packed.status();
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  const std::string name = absl::StrCat(submission.name, "/", now, "/package-0.tar.gz");
  const std::string text(reinterpret_cast<const char*>(packed->data()), packed->size());
  const absl::StatusOr<json> stored = service.Ask(
      "POST", absl::StrCat("/upload/storage/v1/b/", kPackagesBucket, "/o?uploadType=media&name=", name), text);
  if (!stored.ok()) return absl::AbortedError(stored.status().message());  // the service's word, not the job's fault
  uris.push_back(absl::StrCat("gs://", kPackagesBucket, "/", name));
  return uris;
}

json JsonOf(const YamlNode& node) {
  json value;
  if (node.Is(YamlNode::Kind::kSequence)) {
    value = json::array();
    for (const YamlNode& item : node.items) value.push_back(JsonOf(item));
  } else if (node.Is(YamlNode::Kind::kMap)) {
    value = json::object();
    for (const YamlEntry& entry : node.entries) value[entry.key] = JsonOf(entry.value);
  } else if (node.Is(YamlNode::Kind::kScalar)) {
    int64_t whole = 0;
    double number = 0;
    value = node.text;
    if (node.quoted) return value;
    if (const std::optional<bool> flag = FlagIn(node)) return *flag;
    if (absl::SimpleAtoi(node.text, &whole)) return whole;
    if (absl::SimpleAtod(node.text, &number) && std::isfinite(number)) return number;
  }
  return value;
}

// The trainingInput of gcloud's --config.
absl::StatusOr<json> ReadConfig(const std::string& path) {
  if (path.empty()) return json::object();
  const absl::StatusOr<std::string> text = ReadJobText(path);
  if (!text.ok()) return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::string(text.status().message())));
  const YamlTree tree = ReadYaml(*text);
  if (!tree.errors.empty()) {
    const YamlError& error = tree.errors.front();
    return absl::InvalidArgumentError(absl::StrCat(path, ":", error.line, ":", error.column, ": ", error.what));
  }
  const YamlNode* input = tree.root.Find("trainingInput");
  if (input != nullptr && input->Is(YamlNode::Kind::kMap)) {
    json written = JsonOf(*input);
    for (const char* version : {"runtimeVersion", "pythonVersion"}) {  // as a number 2.10 would be 2.1
      const YamlNode* said = input->Find(version);
      if (said != nullptr && said->Is(YamlNode::Kind::kScalar)) written[version] = said->text;
    }
    const YamlNode* args = input->Find("args");  // likewise: 007 and 1e3 are as they were written
    for (size_t i = 0; args != nullptr && i < args->items.size(); ++i) {
      if (args->items[i].Is(YamlNode::Kind::kScalar)) written["args"][i] = args->items[i].text;
    }
    return written;
  }
  return absl::InvalidArgumentError(absl::StrCat(path, ": trainingInput is missing, or no map"));
}

}  // namespace

absl::StatusOr<json> BodyOf(const JobSubmission& submission, const PythonCode& code, const ServiceClient& service,
                            Streams streams) {
  json body = {{"jobId", submission.name}};
  if (!submission.labels.empty()) body["labels"] = LabelsOf(submission);
  absl::StatusOr<json> input = ReadConfig(submission.config);
  if (!input.ok()) return input.status();
  if (!input->empty()) body["trainingInput"] = *input;
  if (code.module.empty()) {
    const ChosenJob chosen = LoadChosenJob(submission.job, "jobs submit", streams);
    if (!chosen.parsed.ok()) return absl::InvalidArgumentError("the job file has errors: mend it first");
    const DataFacts facts = LookAtData(chosen.parsed);
    TellWarnings("jobs submit", chosen.parsed, facts, streams);
    for (const JobError& error : facts.errors) streams.err << ToString(error) << "\n";
    if (!facts.errors.empty()) return absl::InvalidArgumentError("the job's data have errors: mend them first");
    body["jobFile"] = CanonicalJob(chosen.parsed.job);
    return body;
  }
  const absl::StatusOr<json> packages = Upload(submission, code, service);
  if (!packages.ok()) return packages.status();
  std::string tier = submission.job.scale_tier;
  if (tier.empty()) tier = input->contains("scaleTier") ? (*input)["scaleTier"].dump() : "BASIC";
  std::erase(tier, '"');
  std::transform(tier.begin(), tier.end(), tier.begin(),
                 [](unsigned char c) { return c == '-' ? '_' : std::toupper(c); });
  body["trainingInput"].update({{"scaleTier", tier}, {"pythonModule", code.module}, {"packageUris", *packages}});
  if (!code.args.empty()) body["trainingInput"]["args"] = code.args;
  if (!submission.bucket_folder.empty()) body["trainingInput"]["jobDir"] = submission.bucket_folder;
  return body;
}

std::string WhyNoSubmission(const JobSubmission& submission, const PythonCode& code) {
  if (!IsJobName(submission.name)) {
    return absl::StrCat(submission.name, " is no name of a job: it must be a letter, then letters, digits and _");
  }
  for (const std::string& label : submission.labels) {
    if (!absl::StrContains(label, '=')) return absl::StrCat("--labels ", label, ": say KEY=VALUE");
  }
  if (const absl::Status labels = ReadLabels(LabelsOf(submission)).status(); !labels.ok()) {
    return absl::StrCat("--", std::string(labels.message()));
  }
  if (std::string why = WhyNoCode(code); !why.empty()) return why;
  const bool has_file = !submission.job.job_file.empty();
  if (code.module.empty()) {
    return has_file ? "" : "there is no job: give --file JOB.yaml, or --module-name and --package-path of Python code";
  }
  if (!has_file && submission.job.settings.empty()) return "";
  return absl::StrCat(has_file ? "--file" : "--set", " is for jobs without Python code, and this one has the module ",
                      code.module, ": give its own arguments after --, and the cluster's by --config");
}

}  // namespace downpour
