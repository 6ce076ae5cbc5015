#include "tests/sim/viewer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>
#include <variant>

#include "runtime/row_frames.h"

namespace downpour {
namespace {

// As predict/live_feed has them.
constexpr Duration kSilence = 2s;
constexpr Duration kLookEvery = 1s;
constexpr size_t kMostQuestions = 12;

}  // namespace

Viewer::Viewer(Options options)
    : options_(std::move(options)),
      prng_(options_.seed),
      reader_(options_.reader),
      first_run_(options_.reader.run),
      place_{.endpoint = options_.reader.chief, .secret = options_.reader.secret} {}

void Viewer::Step(Time now, Input input, Effects& effects) {
  values_.reset();
  answers_.clear();
  if (has_ended_) return;
  const auto* received = std::get_if<Received>(&input);
  // Where it has just been told of another chief, words of the one before come too late.
  if (!std::exchange(has_moved_, false) && received != nullptr) Follow(now, *received);
  if (std::holds_alternative<Tick>(input)) AskOrForget(now);
  Effects out;
  reader_.Step(now, std::move(input), out);
  for (Effect& effect : out.Take()) {
    const auto* send = std::get_if<Send>(&effect);
    const auto* pull = send == nullptr ? nullptr : std::get_if<Pull>(&send->message);
    if (pull != nullptr) asked_[send->to] = *pull;
    const auto* dial = std::get_if<Dial>(&effect);
    if (dial != nullptr && dial->to == PeerRole::kChief) chief_ = dial->peer;
    effects.Add(std::move(effect));
  }
  Take();
  if (first_run_ == 0) first_run_ = run();
  if (!reader_.end().ok()) return End(std::string(reader_.end().message()), effects);
  if (now - reader_.chief_heard() >= kSilence || reader_.secret_refused()) Look(now, effects);
}

void Viewer::Follow(Time now, const Received& received) {
  const auto* placement = std::get_if<Placement>(&received.message);
  if (received.from != chief_ || placement == nullptr || placement->slices.empty()) return;
  if (run() != 0 && received.run != run()) return;
  const bool is_newer = std::tie(placement->term, placement->number) > std::tie(placement_.term, placement_.number);
  if (!is_newer) return;
  const auto epochs = [](const Placement& one) {
    std::map<SliceId, SliceEpoch> of;
    for (const Placement::Item& item : one.slices) of[item.slice] = item.epoch;
    return of;
  };
  if (epochs(*placement) != epochs(placement_)) moved_ = now;
  placement_ = *placement;
}

Duration Viewer::Around(Duration mean) {
  return Duration(static_cast<int64_t>(static_cast<double>(mean.count()) * -std::log(1 - prng_.Uniform())));
}

void Viewer::AskOrForget(Time now) {
  if (options_.plan.ask == Duration::zero() || placement_.number == 0) return;
  if (!ask_at_) ask_at_ = now + Around(options_.plan.ask);
  if (!forget_at_) forget_at_ = now + Around(options_.plan.forget);
  while (now >= *ask_at_) {
    *ask_at_ += std::max<Duration>(Around(options_.plan.ask), 1ms);
    SliceValues keys = SomeKeys();
    if (keys.empty() || questions_.size() >= kMostQuestions) continue;
    questions_[++last_question_] = {keys, now};
    reader_.WantRows(last_question_, std::move(keys));
  }
  if (now < *forget_at_) return;
  forget_at_.reset();
  if (questions_.empty()) return;
  const auto given_up = std::next(questions_.begin(), static_cast<std::ptrdiff_t>(prng_.Below(questions_.size())));
  reader_.ForgetRows(given_up->first);
  questions_.erase(given_up);
}

// Few, so that two questions often want as many rows of one bucket, but others. None where the buckets that were drawn
// have no keys.
SliceValues Viewer::SomeKeys() {
  const SliceGrid& grid = options_.oracle->grid();
  SliceValues some;
  for (size_t slice = grid.dense(); slice < grid.size(); ++slice) {
    const SliceId bucket{static_cast<uint32_t>(slice)};
    const RowKeys& all = options_.oracle->AllKeys(bucket);
    if (all.keys.empty() || prng_.Chance(0.4)) continue;
    RowKeys keys{.counts = std::vector<uint32_t>(all.counts.size()), .keys = {}};
    const size_t always = prng_.Below(all.keys.size());
    for (size_t table = 0, place = 0; table < all.counts.size(); ++table) {
      for (uint32_t i = 0; i < all.counts[table]; ++i, ++place) {
        if (place != always && !prng_.Chance(0.05)) continue;
        keys.keys.push_back(all.keys[place]);
        ++keys.counts[table];
      }
    }
    some.emplace_back(bucket, PackKeys(keys));
  }
  return some;
}

void Viewer::Take() {
  values_ = reader_.TakeValues();
  sets_ += values_.has_value();
  for (FoundRows& found : reader_.TakeRows()) {
    ++rows_;
    Answer& answer = answers_.emplace_back(Answer{found.number, std::nullopt, std::move(found.rows)});
    const auto question = questions_.find(found.number);
    if (question == questions_.end()) continue;
    answer.question = std::move(question->second);
    questions_.erase(question);
  }
}

void Viewer::Look(Time now, Effects& effects) {
  if (now < look_at_) return;
  look_at_ = now + kLookEvery;
  Place place = options_.look();
  if (place.is_over) return End("the job is over, its folder says", effects);
  if (place.endpoint.empty() || (place.endpoint == place_.endpoint && place.secret == place_.secret)) return;
  ++moves_;
  place_ = std::move(place);
  reader_.Locate(place_.endpoint, place_.secret);
  has_moved_ = true;
}

void Viewer::End(const std::string& why, Effects& effects) {
  has_ended_ = true;
  effects.Add(Exit{0, why, /*as_told=*/true});
}

}  // namespace downpour
