#include "reader/reader_role.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "job/job_file.h"
#include "runtime/row_frames.h"
#include "schema/codec.h"
#include "schema/peer_role.h"
#include "tests/scenario/tiny_job.h"

namespace downpour {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kRun = 9;
constexpr Incarnation kPs[] = {Incarnation{100}, Incarnation{200}};

// A chief and two ps that say what a test has them say. Of each variable all numbers are alike.
class ReaderRoleTest : public testing::Test {
 protected:
  struct Asked {
    PeerId ps{};
    Pull pull;
  };

  ReaderRoleTest() { Give(Started()); }

  void Give(Input input) {
    Effects effects;
    role_.Step(now_, std::move(input), effects);
    for (Effect& effect : effects.Take()) {
      if (const auto* dial = std::get_if<Dial>(&effect)) dialled_[dial->endpoint] = dial->peer;
      auto* const send = std::get_if<Send>(&effect);
      if (send == nullptr) continue;
      const absl::Status may = CheckSpeaker(PeerRole::kViewer, send->message);
      EXPECT_TRUE(may.ok()) << may;  // of everything that it ever says
      if (const auto* request = std::get_if<PlacementRequest>(&send->message)) requests_.push_back(*request);
      if (const auto* pull = std::get_if<Pull>(&send->message)) asked_.push_back({send->to, *pull});
    }
  }
  void Pass(Duration duration) {
    now_ += duration;
    Give(Tick());
  }
  void FromChief(Message message, uint64_t run = kRun) { Give(Received{dialled_.at("h0:1"), std::move(message), run}); }

  // The kernel at ps-0 and the bias at ps-1.
  Placement PlaceIn(SliceEpoch kernel, SliceEpoch bias, Incarnation second = kPs[1]) {
    Placement placement{
        .number = ++placements_, .term = kernel.term, .train_examples = kTinyExamples, .servers = {}, .slices = {}};
    placement.servers = {{kPs[0], "ps-0", "p0:1"}, {second, "ps-1", second == kPs[1] ? "p1:1" : "p2:1"}};
    placement.slices = {{kKernel, kernel, 0}, {kBias, bias, 1}};
    placement.job = CanonicalJob(job_);
    return placement;
  }

  PullReply ReplyTo(const Pull& pull, Incarnation from, Version version, float value) {
    PullReply reply{.from = from, .request = pull.request, .slices = {}, .window = 8 << 20};
    for (const Pull::Item& item : pull.slices) {
      PullReply::Item& answer = reply.slices.emplace_back();
      answer.slice = item.slice;
      answer.version = version;
      const std::vector<float> numbers(item.slice == kKernel ? 4 : 2, value);
      if (item.have != version) answer.values = Payload::CopyOf(numbers.data(), numbers.size() * sizeof(float));
    }
    return reply;
  }
  void Answer(const Asked& asked, Incarnation from, Version version, float value) {
    Give(Received{asked.ps, ReplyTo(asked.pull, from, version, value), kRun});
  }
  std::vector<Asked> TakeAsked() { return std::exchange(asked_, {}); }
  static std::vector<float> Firsts(const ValueSet& values) {
    std::vector<float> firsts;
    for (const Payload& one : values.values) firsts.push_back(one.floats()[0]);
    return firsts;
  }
  // Places both slices and answers for both.
  void ReadOnce() {
    FromChief(PlaceIn({1, 1}, {1, 1}));
    const std::vector<Asked> asked = TakeAsked();
    ASSERT_THAT(asked, SizeIs(2));
    Answer(asked[0], kPs[0], {{1, 1}, 5}, 5);
    Answer(asked[1], kPs[1], {{1, 1}, 6}, 6);
    ASSERT_THAT(Firsts(role_.TakeValues().value()), ElementsAre(5, 6));
  }

  JobSpec job_ = TinyJob();
  Time now_{};
  ReaderRole role_{{.chief = "h0:1", .secret = "open"}};
  std::map<std::string, PeerId> dialled_;
  std::vector<PlacementRequest> requests_;
  std::vector<Asked> asked_;
  uint64_t placements_ = 0;
};

TEST_F(ReaderRoleTest, ASetIsWholeOrNotThere) {
  ASSERT_THAT(requests_, SizeIs(1));
  EXPECT_EQ(requests_[0].secret, "open");
  FromChief(PlaceIn({1, 1}, {1, 1}));
  const std::vector<Asked> asked = TakeAsked();
  ASSERT_THAT(asked, SizeIs(2));
  EXPECT_EQ(asked[0].pull.from, Incarnation::kNone);
  Answer(asked[0], kPs[0], {{1, 1}, 5}, 5);
  EXPECT_EQ(role_.TakeValues(), std::nullopt) << "ps-1 has not answered";
  Answer(asked[1], kPs[1], {{1, 1}, 6}, 6);
  const std::optional<ValueSet> values = role_.TakeValues();
  ASSERT_TRUE(values.has_value());
  EXPECT_THAT(Firsts(*values), ElementsAre(5, 6));
  EXPECT_EQ(role_.TakeValues(), std::nullopt);
}

TEST_F(ReaderRoleTest, APartOfTheNextRoundDoesNotShow) {
  ReadOnce();
  Pass(200ms);
  const std::vector<Asked> asked = TakeAsked();
  ASSERT_THAT(asked, SizeIs(2));
  Answer(asked[0], kPs[0], {{1, 1}, 7}, 7);
  EXPECT_EQ(role_.TakeValues(), std::nullopt);
  Answer(asked[1], kPs[1], {{1, 1}, 6}, 6);  // it has not changed
  EXPECT_THAT(Firsts(role_.TakeValues().value()), ElementsAre(7, 6));
}

TEST_F(ReaderRoleTest, ASetIsAsOldAsItsRoundsBeginning) {
  ReadOnce();
  Pass(200ms);
  const Time begun = now_;
  const std::vector<Asked> asked = TakeAsked();
  now_ += 30ms;
  Answer(asked[0], kPs[0], {{1, 1}, 5}, 5);
  Answer(asked[1], kPs[1], {{1, 1}, 6}, 6);
  EXPECT_EQ(role_.TakeValues().value().as_of, begun);
}

// ps-1 dies amid a round, and another process has its slice, in an older state.
TEST_F(ReaderRoleTest, ARoundEndsWithTheEpochsOfOnePlacement) {
  FromChief(PlaceIn({1, 1}, {1, 1}));
  std::vector<Asked> asked = TakeAsked();
  Answer(asked[0], kPs[0], {{1, 1}, 5}, 5);
  const Asked late = asked[1];
  FromChief(PlaceIn({1, 1}, {1, 2}, Incarnation{300}));
  asked = TakeAsked();
  ASSERT_THAT(asked, SizeIs(1));
  EXPECT_EQ(asked[0].pull.slices[0].epoch, (SliceEpoch{1, 2}));
  Answer(late, kPs[1], {{1, 1}, 6}, 6);
  EXPECT_EQ(role_.TakeValues(), std::nullopt) << "B6: of an epoch that is over";
  Answer(asked[0], Incarnation{300}, {{1, 2}, 3}, 3);
  EXPECT_THAT(Firsts(role_.TakeValues().value()), ElementsAre(5, 3));
}

// The process that has the slice now does not answer before the next round is due.
TEST_F(ReaderRoleTest, WhatMovesBetweenRoundsIsAskedInTheNext) {
  ReadOnce();
  FromChief(PlaceIn({1, 1}, {1, 2}, Incarnation{300}));
  EXPECT_THAT(TakeAsked(), IsEmpty());
  Pass(200ms);
  const std::vector<Asked> asked = TakeAsked();
  ASSERT_THAT(asked, SizeIs(2));
  Answer(asked[0], kPs[0], {{1, 1}, 5}, 5);
  EXPECT_EQ(role_.TakeValues(), std::nullopt);
  Answer(asked[1], Incarnation{300}, {{1, 2}, 3}, 3);
  EXPECT_THAT(Firsts(role_.TakeValues().value()), ElementsAre(5, 3));
}

TEST_F(ReaderRoleTest, ARefusalIsNoValueAndAsksTheChief) {
  FromChief(PlaceIn({1, 1}, {1, 1}));
  const std::vector<Asked> asked = TakeAsked();
  Answer(asked[0], kPs[0], {{1, 1}, 5}, 5);
  PullReply refused{.from = kPs[1], .request = asked[1].pull.request, .slices = {}, .window = 1};
  refused.slices.push_back({kBias, SliceRefusal::kOtherEpoch, {}, {}});
  const size_t before = requests_.size();
  Give(Received{asked[1].ps, refused, kRun});
  EXPECT_EQ(requests_.size(), before + 1);
  EXPECT_EQ(requests_.back().number, 1u) << "what it knows already";
  EXPECT_EQ(role_.TakeValues(), std::nullopt);
  FromChief(PlaceIn({2, 1}, {2, 1}));
  for (const Asked& again : TakeAsked()) {
    Answer(again, again.pull.slices[0].slice == kKernel ? kPs[0] : kPs[1], {{2, 1}, 8}, 8);
  }
  EXPECT_THAT(Firsts(role_.TakeValues().value()), ElementsAre(8, 8));
}

TEST_F(ReaderRoleTest, OnlyWhatWasAskedOfThatProcessCounts) {
  FromChief(PlaceIn({1, 1}, {1, 1}));
  const std::vector<Asked> asked = TakeAsked();
  Answer(asked[0], kPs[0], {{1, 1}, 5}, 5);
  Answer(asked[1], kPs[0], {{1, 1}, 6}, 6);  // A9: another process at that address
  PullReply other = ReplyTo(asked[1].pull, kPs[1], {{1, 1}, 6}, 6);
  Give(Received{asked[1].ps, other, kRun + 1});  // of another run
  other.request += 7;
  Give(Received{asked[1].ps, other, kRun});
  Answer(asked[1], kPs[1], {{1, 2}, 6}, 6);  // B6: of another epoch
  EXPECT_EQ(role_.TakeValues(), std::nullopt);
  PullReply small = ReplyTo(asked[1].pull, kPs[1], {{1, 1}, 6}, 6);
  small.slices[0].values = Payload::Zeros(4);
  Give(Received{asked[1].ps, small, kRun});
  EXPECT_EQ(role_.TakeValues(), std::nullopt);
  EXPECT_EQ(role_.rejected(), 2u);
  Pass(500ms);  // what was answered wrongly is asked again
  ASSERT_FALSE(asked_.empty());
  Answer(asked_.back(), kPs[1], {{1, 1}, 6}, 6);
  EXPECT_THAT(Firsts(role_.TakeValues().value()), ElementsAre(5, 6));
}

TEST_F(ReaderRoleTest, WhatWasLostIsAskedAgain) {
  FromChief(PlaceIn({1, 1}, {1, 1}));
  const std::vector<Asked> asked = TakeAsked();
  Give(Reconnected{asked[1].ps});
  std::vector<Asked> again = TakeAsked();
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_EQ(again[0].pull.request, asked[1].pull.request);
  Pass(2s);
  EXPECT_THAT(TakeAsked(), SizeIs(2)) << "after data_retry of silence";
}

TEST_F(ReaderRoleTest, RoundsAreRefreshApartAndTakeAFifthOfTheTime) {
  ReadOnce();
  Pass(199ms);
  EXPECT_THAT(TakeAsked(), IsEmpty());
  Pass(1ms);
  const auto answer = [&] {
    const std::vector<Asked> asked = TakeAsked();
    ASSERT_THAT(asked, SizeIs(2));
    now_ += 100ms;
    Answer(asked[0], kPs[0], {{1, 1}, 7}, 7);
    Answer(asked[1], kPs[1], {{1, 1}, 7}, 7);
  };
  answer();
  Pass(100ms);
  answer();  // the first one was short: these may have had to wait for a processor
  for (int i = 0; i < 2; ++i) {
    Pass(100ms);
    answer();
  }
  Pass(399ms);  // a large model, or a slow link
  EXPECT_THAT(TakeAsked(), IsEmpty());
  Pass(1ms);
  EXPECT_THAT(TakeAsked(), SizeIs(2));
}

// Else a version that is deployed while a ps is away would follow its job four times as long later.
TEST_F(ReaderRoleTest, ToWaitForALostPsIsNoTimeSpentInRounds) {
  FromChief(PlaceIn({1, 1}, {1, 1}));
  const std::vector<Asked> asked = TakeAsked();
  Answer(asked[0], kPs[0], {{1, 1}, 5}, 5);
  Pass(30s);
  TakeAsked();
  FromChief(PlaceIn({1, 1}, {1, 2}, Incarnation{300}));
  const std::vector<Asked> moved = TakeAsked();
  ASSERT_THAT(moved, SizeIs(1));
  now_ += 100ms;
  Answer(moved[0], Incarnation{300}, {{1, 2}, 3}, 3);
  ASSERT_TRUE(role_.TakeValues().has_value());
  Pass(399ms);
  EXPECT_THAT(TakeAsked(), IsEmpty());
  Pass(1ms);
  EXPECT_THAT(TakeAsked(), SizeIs(2));
}

TEST_F(ReaderRoleTest, OneMessageAtATimeIsUnansweredAtAPs) {
  std::get<DenseSpec>(job_.model.layers[0].op).units = kMaxSliceElements;  // three slices of 1 MiB
  Placement placement{.number = 1, .term = 1, .train_examples = kTinyExamples, .servers = {}, .slices = {}};
  placement.servers = {{kPs[0], "ps-0", "p0:1"}};
  for (uint32_t i = 0; i < 3; ++i) placement.slices.push_back({SliceId{i}, {1, 1}, 0});
  placement.job = CanonicalJob(job_);
  FromChief(placement);
  for (uint32_t i = 0; i < 3; ++i) {
    const std::vector<Asked> asked = TakeAsked();
    ASSERT_THAT(asked, SizeIs(1)) << "a worker's window is not a reader's";
    PullReply reply{.from = kPs[0], .request = asked[0].pull.request, .slices = {}, .window = 8 << 20};
    reply.slices.push_back({SliceId{i}, SliceRefusal::kNone, {{1, 1}, 1}, Payload::Zeros(kMaxFrameBytes)});
    Give(Received{asked[0].ps, reply, kRun});
  }
  EXPECT_TRUE(role_.TakeValues().has_value());
}

TEST_F(ReaderRoleTest, TheJobsEndIsTheEnd) {
  ReadOnce();
  FromChief(JobEnd{.succeeded = true, .why = ""}, kRun + 1);
  EXPECT_THAT(std::string(role_.end().message()), HasSubstr("another run"));
  Pass(1s);
  EXPECT_THAT(TakeAsked(), IsEmpty());
}

TEST_F(ReaderRoleTest, ARunThatIsGivenIsTheOnlyOne) {
  ReaderRole role({.chief = "h0:1", .run = kRun + 1});
  Effects effects;
  role.Step(now_, Started(), effects);
  role.Step(now_, Received{dialled_.at("h0:1"), PlaceIn({1, 1}, {1, 1}), kRun}, effects);
  EXPECT_THAT(std::string(role.end().message()), HasSubstr("another run"));
  EXPECT_EQ(role.run(), kRun + 1);
}

TEST_F(ReaderRoleTest, AnotherPlanIsAnotherModel) {
  ReadOnce();
  job_.training.epochs = 3;  // the same plan
  FromChief(PlaceIn({2, 1}, {2, 1}));
  EXPECT_TRUE(role_.end().ok());
  job_.seed = 77;
  FromChief(PlaceIn({3, 1}, {3, 1}));
  EXPECT_THAT(std::string(role_.end().message()), HasSubstr("another plan"));
}

TEST_F(ReaderRoleTest, AJobThatIsOverIsSaid) {
  FromChief(JobEnd{.succeeded = false, .why = "the disk is full"});
  EXPECT_THAT(std::string(role_.end().message()), HasSubstr("the disk is full"));
}

TEST_F(ReaderRoleTest, AnAnswerWithoutSlicesIsNothingNew) {
  ReadOnce();
  Pass(500ms);
  FromChief(Placement{.number = 1, .term = 1, .servers = {}, .slices = {}});
  FromChief(Placement{});  // a chief that is restoring slices
  EXPECT_TRUE(role_.end().ok());
  EXPECT_EQ(role_.chief_heard(), now_);
  EXPECT_EQ(role_.rejected(), 0u);
}

TEST_F(ReaderRoleTest, AChiefThatListensElsewhereIsDialledThere) {
  ReadOnce();
  FromChief(Refused{.code = RefusalCode::kSecretWanted, .why = ""});
  EXPECT_TRUE(role_.secret_refused());
  role_.Locate("h0:2", "sesame");
  Give(Tick());
  EXPECT_FALSE(role_.secret_refused());
  EXPECT_EQ(requests_.back().secret, "sesame");
  Give(Received{dialled_.at("h0:2"), PlaceIn({2, 1}, {2, 1}), kRun});
  Pass(200ms);
  EXPECT_THAT(TakeAsked(), SizeIs(2));
}

// A table of rows of two numbers beside the layers, in one bucket, at ps-0.
class ReaderOfRowsTest : public ReaderRoleTest {
 protected:
  static constexpr SliceId kBucket{2};

  explicit ReaderOfRowsTest(int buckets = 1) {
    job_ = ParseJob(absl::StrCat("{name: words, model: {tables: [{name: words, width: 2}], tableBuckets: ", buckets,
                                 ", layers: [{name: e, embedding: {table: words, column: word}}, "
                                 "{name: out, from: [e], dense: {units: 2}}]}, data: {format: csv, "
                                 "train: /nowhere/a.csv, label: liked, columns: [{name: word, key: integer}]}}"),
                    "test")
               .job;
    placement_ = PlaceIn({1, 1}, {1, 1});
    for (int i = 0; i < buckets; ++i) {
      placement_.slices.push_back({SliceId{2 + static_cast<uint32_t>(i)}, {1, 1}, static_cast<uint32_t>(i)});
    }
    FromChief(placement_);
    AnswerValues();
  }
  void AnswerValues() {
    for (const Asked& one : TakeAsked()) {
      Answer(one, one.pull.slices[0].slice == kKernel ? kPs[0] : kPs[1], {{1, 1}, 5}, 5);
    }
    EXPECT_TRUE(role_.TakeValues().has_value());
  }
  static SliceValues Keys(uint64_t key) { return {{kBucket, PackKeys({{1}, {key}})}}; }
  // Of more rows than fit into a message.
  static SliceValues ManyKeys() {
    RowKeys keys{.counts = {100'000}, .keys = std::vector<uint64_t>(100'000)};
    std::iota(keys.keys.begin(), keys.keys.end(), 0);
    return {{kBucket, PackKeys(keys)}};
  }
  void AnswerRow(const Asked& asked, float value, Incarnation from = kPs[0], SliceEpoch epoch = {1, 1}) {
    PullReply reply{.from = from, .request = asked.pull.request, .slices = {}, .window = 1 << 20};
    const float row[] = {value, value};
    const SliceId bucket = asked.pull.slices[0].slice;
    reply.slices.push_back({bucket, SliceRefusal::kNone, {epoch, 9}, Payload::CopyOf(row, sizeof(row))});
    Give(Received{asked.ps, reply, kRun});
  }

  Placement placement_;
};

// And one more bucket at ps-1.
class ReaderOfTwoBucketsTest : public ReaderOfRowsTest {
 protected:
  static constexpr SliceId kOtherBucket{3};
  ReaderOfTwoBucketsTest() : ReaderOfRowsTest(2) {}
};

TEST_F(ReaderOfRowsTest, QuestionsForRowsAreAskedSideBySide) {
  role_.WantRows(7, Keys(1));
  role_.WantRows(8, Keys(2));
  Give(Tick());
  const std::vector<Asked> asked = TakeAsked();
  ASSERT_THAT(asked, SizeIs(2));
  EXPECT_EQ(UnpackKeys(asked[0].pull.slices[0].keys, std::vector<uint32_t>{2})->keys[0], 1u);
  AnswerRow(asked[1], 20);
  std::vector<FoundRows> found = role_.TakeRows();
  ASSERT_THAT(found, SizeIs(1)) << "which waits for no other";
  EXPECT_EQ(found[0].number, 8u);
  EXPECT_EQ(found[0].rows[0].second.floats()[0], 20);
  AnswerRow(asked[0], 10);
  found = role_.TakeRows();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].number, 7u);
  EXPECT_EQ(found[0].rows[0].second.floats()[0], 10);
}

// What is asked of ps-0 is not answered.
TEST_F(ReaderOfTwoBucketsTest, RowsOfAPsThatIsAwayHoldUpNoOthers) {
  role_.WantRows(7, {{kBucket, PackKeys({{1}, {1}})}, {kOtherBucket, PackKeys({{1}, {2}})}});
  role_.WantRows(8, {{kOtherBucket, PackKeys({{1}, {3}})}});
  Give(Tick());
  for (const Asked& one : TakeAsked()) {
    if (one.pull.slices[0].slice == kOtherBucket) AnswerRow(one, 20, kPs[1]);
  }
  const std::vector<FoundRows> found = role_.TakeRows();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].number, 8u);
}

TEST_F(ReaderOfTwoBucketsTest, RowsThatMoveAreAskedAgain) {
  role_.WantRows(7, {{kBucket, PackKeys({{1}, {1}})}, {kOtherBucket, PackKeys({{1}, {2}})}});
  Give(Tick());
  std::vector<Asked> asked = TakeAsked();
  ASSERT_THAT(asked, SizeIs(2));
  AnswerRow(asked[1], 20, kPs[1]);
  placement_.slices[3].epoch = {1, 2};
  ++placement_.number;
  FromChief(placement_);
  AnswerRow(asked[0], 10);
  EXPECT_THAT(role_.TakeRows(), IsEmpty()) << "B6: a part of them is of an epoch that is over";
  asked = TakeAsked();
  ASSERT_THAT(asked, SizeIs(1));
  AnswerRow(asked[0], 30, kPs[1], {1, 2});
  const std::vector<FoundRows> found = role_.TakeRows();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].rows[0].second.floats()[0], 10);
  EXPECT_EQ(found[0].rows[1].second.floats()[0], 30);
}

// Keys and rows of more than a message.
TEST_F(ReaderOfRowsTest, RowsAndRoundsDoNotWaitForEachOther) {
  role_.WantRows(7, ManyKeys());
  Give(Tick());
  EXPECT_THAT(TakeAsked(), SizeIs(1));
  Pass(200ms);
  AnswerValues();
  Pass(200ms);
  EXPECT_THAT(TakeAsked(), SizeIs(2));  // which is not answered
  role_.ForgetRows(7);
  role_.WantRows(8, ManyKeys());
  Give(Tick());
  EXPECT_THAT(TakeAsked(), SizeIs(1));
}

TEST_F(ReaderOfRowsTest, RowsKeepOneMessageUnansweredAtAPsAndTheLargeOnesTheirTurn) {
  role_.WantRows(7, Keys(1));
  role_.WantRows(8, ManyKeys());
  role_.WantRows(9, Keys(2));
  Give(Tick());
  std::vector<Asked> asked = TakeAsked();
  ASSERT_THAT(asked, SizeIs(1));
  AnswerRow(asked[0], 10);
  asked = TakeAsked();
  ASSERT_THAT(asked, SizeIs(1)) << "its room is full";
  EXPECT_GT(asked[0].pull.slices[0].keys.size(), 1000u);
  role_.ForgetRows(8);
  Give(Tick());
  EXPECT_THAT(TakeAsked(), SizeIs(1));
}

TEST_F(ReaderOfRowsTest, WhatNobodyWaitsForHoldsUpNobody) {
  role_.WantRows(7, Keys(1));
  role_.WantRows(8, Keys(2));
  Give(Tick());
  const std::vector<Asked> asked = TakeAsked();
  ASSERT_THAT(asked, SizeIs(2));
  role_.ForgetRows(7);
  AnswerRow(asked[0], 10);
  EXPECT_THAT(role_.TakeRows(), IsEmpty()) << "of a question that was given up";
  AnswerRow(asked[1], 20);
  const std::vector<FoundRows> found = role_.TakeRows();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].rows[0].second.floats()[0], 20);
}

}  // namespace
}  // namespace downpour
