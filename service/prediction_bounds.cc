#include "service/prediction_bounds.h"

#include "absl/strings/str_cat.h"

namespace downpour {

absl::Status ServiceEnds() { return absl::UnavailableError("the service is ending: ask again"); }

// The end of the service first: it reads no connection any more by then, so that each looks as if it had gone.
absl::Status WhyEnd(const PredictionBounds& bounds, std::chrono::steady_clock::time_point now, size_t done,
                    size_t rows) {
  if (bounds.ends != nullptr && *bounds.ends) return ServiceEnds();
  if (bounds.has_gone && bounds.has_gone()) return absl::CancelledError("whoever asked has hung up");
  if (now - bounds.begun < bounds.most) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(
      "a request may take ", static_cast<double>(bounds.most.count()) / 1000, " s, in which ", done, " of its ", rows,
      " rows were computed: send fewer in each, or start the service with another --prediction-seconds"));
}

}  // namespace downpour
