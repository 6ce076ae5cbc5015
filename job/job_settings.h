// Settings of a job beside its file: the `downpour` section of a config.yaml, which gcloud sends on as it is.
//
//   downpour:
//     training: {consistency: sync}
//     checkpoint.every: 30s
//   for (const PlacedEntry& placed : SettingsIn(*section, errors)) ...   // training.consistency="sync", ...
//
// Shapes: keys of a job file, in maps or dotted. Each entry is one as --set takes it, whose value is JSON. A list is
//   one value. Nothing as a value (null) takes the key out of the job file.
// Bounds: at most 1,000 settings.
// Errors: keys that no job file can have, at their place; what the values are is for the parser of the job to say.
// Tests: tests/unit/job/job_settings_test.cc.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "job/job_reader.h"
#include "job/job_training_input.h"
#include "job/yaml_tree.h"

namespace downpour {

inline constexpr const char* kSettingsSection = "downpour";

std::vector<PlacedEntry> SettingsIn(const YamlNode& section, JobErrors& errors);

// The key of an entry as --set takes it, if a job file can have it: training.epochs of training.epochs=3; else empty.
std::string KeyOfSetting(const std::string& entry);

// As YAML's core schema has it: plain numbers, true and false are no text. A number is as exact as JSON has it.
nlohmann::json JsonOf(const YamlNode& node);

}  // namespace downpour
