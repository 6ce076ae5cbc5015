// What a sender may make: exactly what its receiver takes.
#include <gtest/gtest.h>

#include <variant>

#include "schema/codec.h"
#include "tests/schema/random_message.h"

namespace downpour {
namespace {

std::string Exceeded(const Message& message) {
  const absl::Status status = EncodeWithinLimits(message).status();
  EXPECT_EQ(status.ok(), Decode(Encode(message)).ok()) << "sender and receiver disagree: " << status;
  return std::string(status.message());
}

TEST(CodecLimitsTest, WhatIsWithinThemIsEncodedAsEver) {
  Random random(5);
  for (int round = 0; round < 20; ++round) {
    for (size_t kind = 0; kind < std::variant_size_v<MessageKinds>; ++kind) {
      const Message message = RandomMessage(kind, random);
      const auto frames = EncodeWithinLimits(message);
      ASSERT_TRUE(frames.ok()) << frames.status();
      const std::vector<Payload> plain = Encode(message);
      ASSERT_EQ(frames->size(), plain.size());
      for (size_t i = 0; i < plain.size(); ++i) ASSERT_EQ((*frames)[i].bytes(), plain[i].bytes());
    }
  }
}

// 2,000 slices of 300 intervals each: what a ps with as many small slices holds after a while with many workers.
TEST(CodecLimitsTest, ReportsOfManyIntervalsAreNoticedWhereTheyAreMade) {
  IntervalSet finished;
  for (uint64_t i = 0; i < 300; ++i) finished.Insert(2 * i);
  SliceReport report;
  ShardWritten written;
  for (uint32_t i = 0; i < 2000; ++i) {
    report.slices.push_back({SliceId{i}, {1, 1}, "", finished});
    written.slices.push_back({SliceId{i}, {1, 1}, finished, i, 1, 0});
  }
  EXPECT_EQ(Exceeded(report), "SliceReport: a list has 600000 elements, of at most 131072");
  EXPECT_EQ(Exceeded(written), "ShardWritten: a list has 600000 elements, of at most 131072");
  report.slices.resize(400);
  written.slices.resize(400);
  EXPECT_EQ(Exceeded(report), "");
  EXPECT_EQ(Exceeded(written), "");
}

TEST(CodecLimitsTest, AHeaderThatIsTooLargeIsNoticed) {
  SliceReport report;
  for (uint32_t i = 0; i < 2000; ++i) report.slices.push_back({SliceId{i}, {1, 1}, std::string(4000, 'x'), {}});
  EXPECT_EQ(Exceeded(report).substr(0, 37), "SliceReport: no message: a header of ");
}

TEST(CodecLimitsTest, TextsThatAreTooManyAreNoticed) {
  Heartbeat heartbeat;
  heartbeat.log_lines.resize(kMaxItems + 1);
  EXPECT_EQ(Exceeded(heartbeat), "Heartbeat: a list has 131073 elements, of at most 131072");
}

TEST(CodecLimitsTest, AReportNamesSoManyFilesAndTheirNamesAreCut) {
  DataReport report;
  report.files.resize(kMostFilesTold + 1);
  EXPECT_EQ(Exceeded(report), "DataReport: a list has 4097 elements, of at most 4096");
  report.files.assign(kMostFilesTold, {std::string(kMaxFileName + 1, 'x'), 1, 1});
  EXPECT_EQ(Exceeded(report), "");
  const auto read = Decode(Encode(report));
  EXPECT_EQ(std::get<DataReport>(*read).files.back().name, std::string(kMaxFileName, 'x'));
}

TEST(CodecLimitsTest, PayloadsThatAreTooLargeOrTooManyAreNoticed) {
  Push push;
  push.slices.resize(1);
  push.slices[0].gradient = Payload::Zeros(kMaxFrameBytes + 4);
  EXPECT_EQ(Exceeded(push), "Push: a payload has 1048580 bytes, of at most 1048576");
  push.slices.resize(2);
  for (Push::Item& item : push.slices) item.gradient = Payload::Zeros(kMaxMessagePayload / 2 + 4);
  EXPECT_EQ(Exceeded(push), "Push: the payloads have more than 1048576 bytes together");
  PullReply reply;
  reply.slices.resize(kMaxFrames);
  for (PullReply::Item& item : reply.slices) item.values = Payload::Zeros(4);
  EXPECT_EQ(Exceeded(reply), "PullReply: no message: 1025 frames, of at most 1024");
  SliceRecord record;
  record.blocks.assign(kMaxRecordBytes / kMaxFrameBytes + 1, Payload::Zeros(kMaxFrameBytes));
  EXPECT_EQ(Exceeded(record), "SliceRecord: the payloads have more than 4194304 bytes together");
}

}  // namespace
}  // namespace downpour
