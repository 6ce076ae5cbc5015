#include "predict/predictor.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "job/nearest_name.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr size_t kShown = 40;      // bytes of a name, in an error
constexpr size_t kMostNamed = 10;  // inputs, in an error

}  // namespace

std::optional<size_t> Signature::Find(std::string_view name) const {
  const auto found = std::find_if(inputs.begin(), inputs.end(), [&](const auto& one) { return one.name == name; });
  if (found != inputs.end()) return static_cast<size_t>(found - inputs.begin());
  return inputs.size() == 1 && (name == "input" || name.empty()) ? std::optional<size_t>(0) : std::nullopt;
}

bool Signature::PassesOver(std::string_view name) const {
  return std::binary_search(passed_over.begin(), passed_over.end(), name);
}

absl::Status Signature::NoSuchInput(std::string_view name) const {
  std::vector<std::string> names;
  for (const SignatureInput& input : inputs) names.push_back(input.name);
  const std::string meant = DidYouMean(std::string(name.substr(0, kShown)), names);
  const size_t shown = std::min(names.size(), kMostNamed);
  return absl::InvalidArgumentError(absl::StrCat(
      "the model has no input '", OneLine(name, kShown), "'", meant,
      meant.empty() ? ": leave it out; the inputs are " : "",
      meant.empty() ? absl::StrJoin(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", ") : "",
      meant.empty() && shown < names.size() ? absl::StrCat(" and ", names.size() - shown, " more") : ""));
}

absl::Status TooManyRows(size_t most) {
  return absl::OutOfRangeError(absl::StrCat("more than ", most, " rows: send them in several requests"));
}

absl::Status WarmUp(const Predictor& predictor) {
  if (const InstancePredictor* own = predictor.instances(); own != nullptr) return own->AnswerExample();
  InputBatch batch{1, {}};
  std::vector<std::vector<double>> zeros;
  zeros.reserve(predictor.signature().inputs.size());  // so that none moves
  static constexpr std::string_view kNoWord;
  for (const SignatureInput& input : predictor.signature().inputs) {
    if (input.kind == InputKind::kText) {
      batch.columns.push_back({input.name, 1, absl::MakeConstSpan(&kNoWord, 1)});
      continue;
    }
    const int64_t width = input.kind == InputKind::kNumber ? input.width : 1;
    zeros.emplace_back(static_cast<size_t>(width));
    batch.columns.push_back({input.name, width, absl::MakeConstSpan(zeros.back())});
  }
  return predictor.Predict(batch).status();
}

}  // namespace downpour
