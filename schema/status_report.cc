#include "schema/status_report.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "schema/text.h"

namespace downpour {
namespace {

using Json = nlohmann::json;

class JsonWriter {
 public:
  static constexpr bool kWrites = true;

  template <typename T>
  static Json Write(const T& value) {
    JsonWriter fields;
    T::List(fields, value);
    return std::move(fields.json_);
  }

  template <typename T>
  void operator()(const char* key, const T& value) {
    json_[key] = Of(value);
  }
  void operator()(const char* key, const MaybeCount& count) {
    if (count) json_[key] = *count;
  }
  void operator()(const char* key, const MaybeNumber& number) {
    if (number && std::isfinite(*number)) json_[key] = *number;
  }
  void UnlessEmpty(const char* key, const std::string& text) {
    if (!text.empty()) json_[key] = text;
  }
  void UnlessEmpty(const char* key, const MetricValueList& metrics) {
    if (!metrics.empty()) json_[key] = Of(metrics);
  }
  template <typename T>
  void UnlessEmpty(const char* key, const T& value) {
    Json json = Of(value);
    if (!json.empty()) json_[key] = std::move(json);
  }

 private:
  static Json Of(const std::string& text) { return text; }
  static Json Of(bool value) { return value; }
  static Json Of(uint64_t count) { return count; }
  // A metric that is not defined, such as the AUC of a single class, is absent.
  static Json Of(const MetricValueList& metrics) {
    Json json = Json::object();
    for (const auto& [name, value] : metrics) {
      if (std::isfinite(value)) json[name] = value;
    }
    return json;
  }
  template <typename T>
  static Json Of(const std::vector<T>& list) {
    Json json = Json::array();
    for (const T& item : list) json.push_back(Of(item));
    return json;
  }
  template <typename T>
  requires std::is_class_v<T>
  static Json Of(const T& value) { return Write(value); }

  Json json_ = Json::object();
};

// A chief may write any number where a count belongs.
uint64_t NearestCount(const Json& number) {
  if (number.is_number_unsigned()) return number.get<uint64_t>();
  const double value = number.get<double>();
  if (!(value > 0)) return 0;
  return value < 0x1p64 ? static_cast<uint64_t>(value) : UINT64_MAX;
}

class JsonReader {
 public:
  static constexpr bool kWrites = false;

  explicit JsonReader(const Json& json) : json_(json) {}

  template <typename T>
  void operator()(const char* key, T& value) {
    if (!json_.is_object()) return;
    const auto found = json_.find(key);
    if (found != json_.end()) Read(*found, value);
  }
  template <typename T>
  void UnlessEmpty(const char* key, T& value) {
    (*this)(key, value);
  }

 private:
  static void Read(const Json& json, std::string& text) {
    if (json.is_string()) text = OneLine(json.get_ref<const std::string&>(), std::string::npos);
  }
  static void Read(const Json& json, bool& value) {
    if (json.is_boolean()) value = json.get<bool>();
  }
  static void Read(const Json& json, MaybeCount& count) {
    count = json.is_number() ? MaybeCount(NearestCount(json)) : std::nullopt;
  }
  static void Read(const Json& json, MaybeNumber& number) {
    number = json.is_number() ? MaybeNumber(json.get<double>()) : std::nullopt;
  }
  static void Read(const Json& json, MetricValueList& metrics) {
    if (!json.is_object()) return;
    for (const auto& [name, value] : json.items()) {
      if (value.is_number()) metrics.emplace_back(OneLine(name, std::string::npos), value.get<double>());
    }
  }
  static void Read(const Json& json, std::vector<uint64_t>& list) {
    if (!json.is_array()) return;
    for (const Json& item : json) {
      if (item.is_number_unsigned()) list.push_back(item.get<uint64_t>());
    }
  }
  static void Read(const Json& json, std::vector<std::string>& list) {
    if (!json.is_array()) return;
    for (const Json& item : json) {
      if (item.is_string()) Read(item, list.emplace_back());
    }
  }
  template <typename T>
  static void Read(const Json& json, std::vector<T>& list) {
    if (!json.is_array()) return;
    for (const Json& item : json) Read(item, list.emplace_back());
  }
  template <typename T>
  requires std::is_class_v<T>
  static void Read(const Json& json, T& value) {
    JsonReader fields(json);
    T::List(fields, value);
  }

  const Json& json_;
};

// Peers' words are cleaned on arrival; what is not UTF-8 even so must not end the chief.
std::string Dump(const Json& json, int indent) { return json.dump(indent, ' ', false, Json::error_handler_t::replace); }

template <typename Report>
absl::StatusOr<Report> Parse(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("not a JSON object");
  Report report;
  JsonReader fields(json);
  Report::List(fields, report);
  return report;
}

}  // namespace

VersionReport ReportOf(const VersionSpan& span) {
  return span.empty() ? VersionReport() : VersionReport{.oldest = span.oldest, .newest = span.newest};
}

VersionSpan SpanOf(const VersionReport& report) {
  return report.oldest && report.newest ? VersionSpan{*report.oldest, *report.newest} : VersionSpan();
}

std::string ToJson(const StatusReport& report) { return Dump(JsonWriter::Write(report), -1); }
std::string ToJson(const BestReport& report) { return Dump(JsonWriter::Write(report), -1); }
std::string ToJson(const SummaryReport& report) { return Dump(JsonWriter::Write(report), 1) + "\n"; }

absl::StatusOr<StatusReport> ParseStatus(std::string_view json) { return Parse<StatusReport>(json); }
absl::StatusOr<SummaryReport> ParseSummary(std::string_view json) { return Parse<SummaryReport>(json); }

}  // namespace downpour
