#include "chief/journal.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schema/checkpoint_format.h"

namespace downpour {
namespace {

using Json = nlohmann::json;

constexpr char kJournalA[] = "journal.a";
constexpr char kJournalB[] = "journal.b";
constexpr uint64_t kMaxJournalFile = uint64_t{4} << 20;  // a job's text is at most 1 MiB, quoted twice as much

std::string Seal(const std::string& text) {
  return absl::StrFormat(" crc32c %08x\n", Crc32c({reinterpret_cast<const std::byte*>(text.data()), text.size()}));
}

}  // namespace

std::string EncodeJobRecord(const JobRecord& record, uint64_t number) {
  Json json = {{"number", number},        {"run", record.run}, {"beganUnixMs", record.began_unix_ms},
               {"chiefs", record.chiefs}, {"job", record.job}, {"ended", record.ended}};
  if (record.data) {
    json["data"] = {{"trainExamples", record.data->train_examples},
                    {"evalExamples", record.data->eval_examples},
                    {"fingerprint", record.data->fingerprint}};
  }
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text + Seal(text);
}

absl::StatusOr<std::pair<uint64_t, JobRecord>> DecodeJobRecord(const std::string& text) {
  const size_t end = text.size() - std::min(text.size(), Seal("").size());
  const std::string said = text.substr(0, end);
  if (said.empty() || !absl::EndsWith(text, Seal(said))) {
    return absl::DataLossError("is not a job's record and its checksum");
  }
  // Whole, so written by a chief; perhaps of another release.
  const Json json = Json::parse(said, nullptr, /*allow_exceptions=*/false);
  const auto number = [](const Json& object, const char* key) -> uint64_t {
    const auto found = object.find(key);
    return found != object.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
  };
  const auto words = [&json](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : "";
  };
  if (!json.is_object() || number(json, "number") == 0) return absl::DataLossError("is not a job's record");
  JobRecord record{.run = number(json, "run"),
                   .began_unix_ms = static_cast<int64_t>(std::min<uint64_t>(number(json, "beganUnixMs"), INT64_MAX)),
                   .chiefs = number(json, "chiefs"),
                   .job = words("job"),
                   .data = {},
                   .ended = words("ended")};
  if (const auto data = json.find("data"); data != json.end() && data->is_object()) {
    record.data = {number(*data, "trainExamples"), number(*data, "evalExamples"), number(*data, "fingerprint")};
  }
  return std::pair(number(json, "number"), std::move(record));
}

void Journal::Load(std::function<void()> then) {
  Read(kJournalA, [this, then = std::move(then)] { Read(kJournalB, then); });
}

void Journal::Read(const std::string& file, std::function<void()> then) {
  storage_.Run({ReadFile(file, 0, kMaxJournalFile)}, [this, file, then = std::move(then)](const StorageDone& done) {
    if (absl::IsNotFound(done.status)) return then();
    auto read = done.status.ok() ? DecodeJobRecord(ToString(done.data))
                                 : absl::StatusOr<std::pair<uint64_t, JobRecord>>(done.status);
    if (!read.ok()) {
      damage_ = absl::StrCat(file, ": ", Words(read.status()));
    } else if (read->first > number_) {
      std::tie(number_, record_) = *std::move(read);
    }
    then();
  });
}

void Journal::Save(std::function<void(const absl::Status&)> then) {
  writing_ = true;
  const std::string text = EncodeJobRecord(record_, ++number_);
  std::vector<StorageOp> ops = ReplaceFile(kJournalA, text);
  for (StorageOp& op : ReplaceFile(kJournalB, text)) ops.push_back(std::move(op));
  storage_.Run(std::move(ops), [this, saved = record_, then = std::move(then)](const StorageDone& done) {
    writing_ = false;
    if (done.status.ok()) {
      error_.clear();
      durable_ = saved;
    } else {
      error_ = Words(done.status);
      next_try_ = turn_.now + timing_.control_retry;
    }
    then(done.status);
  });
}

void Journal::Advance() {
  if (writing_ || durable() || turn_.now < next_try_) return;
  Save([](const absl::Status&) {});
}

}  // namespace downpour
