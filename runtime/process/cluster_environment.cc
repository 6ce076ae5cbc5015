#include "runtime/process/cluster_environment.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <sstream>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/exit_code.h"
#include "runtime/posix/job_file.h"
#include "schema/host_port.h"

ABSL_FLAG(std::string, cluster, "",
          "a file like TF_CONFIG that says where the tasks are; or none: ignore TF_CONFIG and the like, too");

namespace downpour {
namespace {

constexpr const char* kNone = "none";

ClusterConfigResult ReadClusterFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadJobText(path);
  if (text.ok()) return ParseTfConfig(*text, path);
  return {.config = {}, .errors = {{path, 0, 0, "", std::string(text.status().message())}}, .warnings = {}};
}

// What a host's name resolves to, as numbers; at least one.
absl::StatusOr<std::vector<std::string>> NumbersOf(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int failure = getaddrinfo(host.c_str(), nullptr, &hints, &found); failure != 0) {
    return absl::NotFoundError(gai_strerror(failure));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
  std::vector<std::string> numbers;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    char number[NI_MAXHOST] = {};
    if (const int failure =
            getnameinfo(one->ai_addr, one->ai_addrlen, number, sizeof(number), nullptr, 0, NI_NUMERICHOST);
        failure != 0) {
      return absl::NotFoundError(gai_strerror(failure));
    }
    numbers.push_back(number);
  }
  return numbers;
}

template <typename T>
std::optional<T> ValueOfFlag(const std::string& name) {
  const absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
  if (flag == nullptr) return std::nullopt;
  const auto value = flag->TryGet<T>();
  return value ? std::optional<T>(*value) : std::nullopt;
}

absl::Status RefuseOwn(const Told& told, const absl::Status& why) {
  return absl::InvalidArgumentError(absl::StrCat(told.origin, " says that this task is at ", told.value, ": ",
                                                 std::string(why.message()), "; give --listen=ADDRESS:PORT"));
}

}  // namespace

absl::StatusOr<std::string> ChooseOwnAddress(const std::string& name, const std::vector<std::string>& addresses) {
  const auto reached = std::find_if_not(addresses.begin(), addresses.end(), IsLoopback);
  if (reached != addresses.end()) return *reached;
  if (name == "localhost" || IsLoopback(name)) return addresses.front();
  return absl::FailedPreconditionError(
      absl::StrCat("here that name means ", addresses.front(), ", where no other host reaches it; correct /etc/hosts"));
}

absl::StatusOr<std::string> OwnEndpoint(const Told& told) {
  HostPort address = *ParseHostPort(told.value);
  absl::StatusOr<std::vector<std::string>> numbers = NumbersOf(address.host);
  absl::StatusOr<std::string> chosen =
      numbers.ok() ? ChooseOwnAddress(address.host, *numbers) : absl::StatusOr<std::string>(numbers.status());
  if (!chosen.ok()) return RefuseOwn(told, chosen.status());
  address.host = *std::move(chosen);
  return ToString(address);
}

std::vector<std::string> NumbersInHosts(std::istream& file, const std::string& name) {
  std::vector<std::string> numbers;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string number;
    words >> number;
    for (std::string word; words >> word;) {
      if (word == name) numbers.push_back(number);
    }
  }
  return numbers;
}

absl::Status CheckOwnEndpoint(const Told& told, std::istream& hosts) {
  const std::string host = ParseHostPort(told.value)->host;
  const std::vector<std::string> numbers = NumbersInHosts(hosts, host);
  if (numbers.empty()) return absl::OkStatus();
  const absl::Status status = ChooseOwnAddress(host, numbers).status();
  return status.ok() ? status : RefuseOwn(told, status);
}

Environment ProcessEnvironment() {
  Environment variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

bool SizesCluster(const std::vector<std::string>& overrides) {
  return std::any_of(overrides.begin(), overrides.end(), [](const std::string& item) {
    return absl::StartsWith(item, "cluster=") || absl::StartsWith(item, "cluster.scaleTier=");
  });
}

LaunchSources ReadLaunchSources(const std::string& cluster, const Environment& environment) {
  LaunchSources sources;
  if (cluster == kNone) return sources;
  const auto add = [&sources](ClusterConfigResult result) {
    sources.configs.push_back(std::move(result.config));
    sources.errors.insert(sources.errors.end(), result.errors.begin(), result.errors.end());
    sources.warnings.insert(sources.warnings.end(), result.warnings.begin(), result.warnings.end());
  };
  if (!cluster.empty()) add(ReadClusterFile(cluster));
  for (const char* name : {"TF_CONFIG", "CLUSTER_SPEC"}) {
    if (const auto found = environment.find(name); found != environment.end()) add(ParseTfConfig(found->second, name));
  }
  add(ParseDmlc(environment));
  add(ParseTorchrun(environment));
  add(ParseSlurm(environment));
  return sources;
}

std::optional<int> FillFlags(const Usage& usage, TaskType role) {
  const auto refuse = [&usage](const std::string& why) {
    std::cerr << usage.program << ": " << why << "\n";
    return kExitBadCommandLine;
  };
  const LaunchSources sources = ReadLaunchSources(absl::GetFlag(FLAGS_cluster), ProcessEnvironment());
  for (const JobError& warning : sources.warnings) std::cerr << "warning: " << ToString(warning) << "\n";
  for (const JobError& error : sources.errors) refuse(ToString(error));
  if (!sources.errors.empty()) return kExitBadCommandLine;
  std::optional<int64_t> given_index;
  if (IsFlagGiven("index")) given_index = ValueOfFlag<int32_t>("index");
  absl::StatusOr<LaunchSettings> settings = SettleLaunch(role, sources.configs, given_index);
  if (!settings.ok()) return refuse(std::string(settings.status().message()));
  if (const auto listen = settings->find("listen"); listen != settings->end() && !IsFlagGiven("listen")) {
    const absl::StatusOr<std::string> number = OwnEndpoint(listen->second);
    if (!number.ok()) return refuse(std::string(number.status().message()));
    listen->second.value = *number;
  }
  const bool sized = SizesCluster(ValueOfFlag<Settings>("set").value_or(Settings()).items);
  for (const auto& [name, told] : *settings) {
    if (name == "set" ? !sized : !IsFlagGiven(name)) PresetFlag(name, told.value);
  }
  return std::nullopt;
}

}  // namespace downpour
