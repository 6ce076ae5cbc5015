// A session whose chief is the test.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "job/job_file.h"
#include "runtime/member_session.h"

namespace downpour {

using News = MemberSession::News;

inline constexpr Incarnation kMe{7};
inline constexpr uint64_t kNonce = 42;

inline MemberOptions Options() {
  MemberOptions options;
  options.join.nonce = kNonce;
  options.chief = "h0:2222";
  return options;
}

inline std::string JobText(const std::string& chief_wait) {
  return CanonicalJob(ParseJob(R"({name: small, cluster: {scaleTier: BASIC}, training: {optimizer: {name: sgd}},
      model: {inputs: [{name: x, shape: [4]}], layers: [{dense: {units: 3}}], loss: softmaxCrossEntropy},
      data: {format: idx, train: {images: a, labels: b}}})",
                               "small.yaml", {"timing.chiefWait=" + chief_wait})
                          .job);
}

class MemberSessionTest : public testing::Test {
 protected:
  explicit MemberSessionTest(MemberOptions options = Options(), TaskRole role = TaskRole::kPs)
      : session_(role, std::move(options)) {
    session_.Start(now_, Started{.unix_ms = 0, .endpoint = "h1:9"}, effects_);
    Collect();
  }

  void Collect() {
    for (Effect& effect : effects_.Take()) {
      if (auto* send = std::get_if<Send>(&effect)) {
        if (const auto* join = std::get_if<Join>(&send->message)) last_join_ = join->number;
        sent_.push_back(std::move(send->message));
      }
      if (auto* log = std::get_if<Log>(&effect)) logged_.push_back(log->text);
      if (auto* exit = std::get_if<Exit>(&effect)) exit_ = *exit;
    }
  }
  News Receive(const Message& message) {
    const News news = session_.Receive(now_, message, effects_);
    Collect();
    return news;
  }
  // Ticks through that much time.
  void Pass(Duration duration) {
    for (const Time end = now_ + duration; now_ < end;) {
      now_ += 100ms;
      session_.Tick(now_, /*placement=*/5, effects_);
      Collect();
    }
  }
  News Welcomed(Incarnation incarnation = kMe, uint32_t term = 3, uint64_t run = 1, const std::string& job = "{}") {
    return Receive(AnswerTo(last_join_, incarnation, term, run, job));
  }
  static Welcome AnswerTo(uint64_t number, Incarnation incarnation, uint32_t term, uint64_t run,
                          const std::string& job = "{}") {
    return {
        .you = incarnation, .term = term, .name = "ps-4", .job = job, .run = run, .nonce = kNonce, .number = number};
  }
  // As a chief of the run that it is in says it of a heartbeat.
  News RefusedAs(Incarnation member, const std::string& why = "it is of an earlier chief") {
    return Receive(Refused{.code = RefusalCode::kUnknown, .why = why, .member = member, .run = session_.run()});
  }
  // As the answer to its last Join.
  News RefusedToJoin(RefusalCode code, bool for_good, const std::string& why) {
    return Receive(Refused{.code = code, .for_good = for_good, .why = why, .number = last_join_});
  }
  template <typename M>
  std::vector<M> Take() {
    std::vector<M> taken;
    for (const Message& message : std::exchange(sent_, {})) {
      if (const auto* m = std::get_if<M>(&message)) taken.push_back(*m);
    }
    return taken;
  }

  Time now_{};
  uint64_t last_join_ = 0;  // its number
  Effects effects_;
  MemberSession session_;
  std::vector<Message> sent_;
  std::vector<std::string> logged_;
  std::optional<Exit> exit_;
};

}  // namespace downpour
