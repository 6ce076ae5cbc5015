#include "chief/known/rate_window.h"

namespace downpour {

void RateWindow::Add(Time now, double total) {
  if (!samples_.empty() && now - samples_.back().first < kGrain) {
    samples_.back().second = total;
  } else {
    samples_.emplace_back(now, total);
  }
  while (samples_.size() > 2 && samples_[1].first <= now - kWindow) samples_.pop_front();
}

double RateWindow::PerSecond(Time now) const {
  if (samples_.size() < 2) return 0;
  const auto& [begin, first] = samples_.front();
  const auto& [last_news, last] = samples_.back();
  const Time end = now - last_news > kWindow / 2 ? now : last_news;
  return end > begin ? (last - first) / Seconds(end - begin) : 0;
}

}  // namespace downpour
