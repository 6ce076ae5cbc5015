// Headers that verify and still say what no sender of ours says, made with the generated code.
#include <gtest/gtest.h>

#include <limits>

#include "schema/codec.h"
#include "schema/downpour_generated.h"

namespace downpour {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

template <typename Table>
absl::StatusOr<Message> Sent(FlatBufferBuilder& fbb, Offset<Table> body, wire::Body kind) {
  fbb.Finish(wire::CreateEnvelope(fbb, kind, body.Union()), wire::EnvelopeIdentifier());
  return Decode({Payload::CopyOf(fbb.GetBufferPointer(), fbb.GetSize())});
}

template <typename Table>
std::string Why(FlatBufferBuilder& fbb, Offset<Table> body) {
  const absl::Status status = Sent(fbb, body, wire::BodyTraits<Table>::enum_value).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

template <typename Struct>
auto Vector(FlatBufferBuilder& fbb, const std::vector<Struct>& structs) {
  return fbb.CreateVectorOfStructs(structs.data(), structs.size());
}

TEST(HostileHeaderTest, AKindOfALaterVersionIsToldFromJunk) {
  FlatBufferBuilder fbb;
  const auto status = Sent(fbb, wire::CreateGrant(fbb, 1, 2), static_cast<wire::Body>(200)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(), "a message of kind 200, which this build does not know");
}

TEST(HostileHeaderTest, AnEnvelopeNeedsABodyAndItsIdentifier) {
  FlatBufferBuilder none;
  EXPECT_EQ(Sent(none, wire::CreateGrant(none, 1, 2), wire::Body::NONE).status().message(),
            "no message: the header has no body");
  FlatBufferBuilder null;
  EXPECT_EQ(Sent(null, Offset<wire::Grant>(), wire::Body::Grant).status().message(),
            "no message: the header has no body");
  FlatBufferBuilder other;
  other.Finish(wire::CreateEnvelope(other, wire::Body::Grant, wire::CreateGrant(other).Union()), "ELSE");
  EXPECT_EQ(Decode({Payload::CopyOf(other.GetBufferPointer(), other.GetSize())}).status().message(),
            "no message: the header is damaged");
}

TEST(HostileHeaderTest, NamesOutsideAnEnumerationAreRefused) {
  FlatBufferBuilder a, b, c, d, e;
  EXPECT_EQ(Why(a, wire::CreateJoin(a, 1, 1, wire::TaskRole{3})), "Join: role is 3, which this build does not know");
  EXPECT_EQ(Why(b, wire::CreateRefused(b, wire::RefusalCode{7})), "Refused: code is 7, which this build does not know");
  EXPECT_EQ(Why(c, wire::CreateAssign(c, 1, 1, Vector<wire::AssignItem>(c, {{1, {1, 1}, wire::SliceSource{3}}}))),
            "Assign: source is 3, which this build does not know");
  EXPECT_EQ(Why(d, wire::CreatePushReply(
                       d, 1, 1, Vector<wire::PushReplyItem>(d, {{1, {1, 1}, 0, 0, wire::SliceRefusal{6}, false, 0}}))),
            "PushReply: refusal is 6, which this build does not know");
  EXPECT_EQ(Why(e, wire::CreatePullReply(
                       e, 1, 1, Vector<wire::PullReplyItem>(e, {{1, 0, {{1, 1}, 0}, wire::SliceRefusal{255}}}))),
            "PullReply: refusal is 255, which this build does not know");
}

TEST(HostileHeaderTest, NumbersOutsideTheirRangeAreRefused) {
  FlatBufferBuilder a, b;
  EXPECT_EQ(Why(a, wire::CreateJoin(a, 1, 1, wire::TaskRole::Ps, -2)), "Join: index is negative");
  wire::TaskStatsBuilder builder(b);
  builder.add_cpu_seconds(std::numeric_limits<double>::quiet_NaN());
  const auto stats = builder.Finish();
  EXPECT_EQ(Why(b, wire::CreateHeartbeat(b, 1, 1, stats)), "Heartbeat: cpu_seconds is not finite");
}

TEST(HostileHeaderTest, ItemsAndWhatTheyTakeFromFlatVectorsAgree) {
  const auto report = [](const wire::ReportItem& item, std::vector<wire::Interval> finished,
                         std::vector<std::string> errors) {
    FlatBufferBuilder fbb;
    return Why(fbb, wire::CreateSliceReport(fbb, 1, Vector<wire::ReportItem>(fbb, {item}), Vector(fbb, finished),
                                            fbb.CreateVectorOfStrings(errors)));
  };
  const wire::Epoch epoch(1, 1);
  EXPECT_EQ(report({0, epoch, 2, false}, {{0, 1}}, {}),
            "SliceReport: finished holds fewer elements than its items name");
  EXPECT_EQ(report({0, epoch, 0xffffffff, false}, {{0, 1}}, {}),
            "SliceReport: finished holds fewer elements than its items name");
  EXPECT_EQ(report({0, epoch, 0, false}, {{0, 1}}, {}),
            "SliceReport: finished holds more elements than its items name");
  EXPECT_EQ(report({0, epoch, 0, true}, {}, {}), "SliceReport: errors holds fewer elements than its items name");
  EXPECT_EQ(report({0, epoch, 0, false}, {}, {"why"}), "SliceReport: errors holds more elements than its items name");
  const std::string set = "SliceReport: finished is not a set of ascending, separate intervals";
  EXPECT_EQ(report({0, epoch, 1, false}, {{5, 5}}, {}), set);
  EXPECT_EQ(report({0, epoch, 2, false}, {{0, 3}, {2, 4}}, {}), set);
  EXPECT_EQ(report({0, epoch, 2, false}, {{0, 3}, {3, 4}}, {}), set);
  EXPECT_EQ(report({0, epoch, 2, false}, {{5, 6}, {0, 1}}, {}), set);
}

TEST(HostileHeaderTest, PlacementsNameServersThatAreThere) {
  const auto placement = [](std::vector<std::string> names, uint32_t server) {
    FlatBufferBuilder fbb;
    const auto texts = fbb.CreateVectorOfStrings(names);
    return Why(fbb, wire::CreatePlacement(fbb, 1, 1, 1, 1, fbb.CreateVector<uint64_t>({7}), texts, texts,
                                          Vector<wire::PlacedSlice>(fbb, {{0, {1, 1}, server}})));
  };
  EXPECT_EQ(placement({"ps-0"}, 1), "Placement: slices name a server that is not there");
  EXPECT_EQ(placement({"ps-0", "ps-1"}, 0), "Placement: servers do not have one name and one endpoint each");
}

TEST(HostileHeaderTest, AReportNamesNoMoreFilesThanAChiefKeepsAndNoLongerNames) {
  const auto report = [](size_t files, size_t name_bytes) {
    FlatBufferBuilder fbb;
    const auto names = fbb.CreateVectorOfStrings(std::vector<std::string>(files, std::string(name_bytes, 'x')));
    const auto numbers = fbb.CreateVector(std::vector<uint64_t>(files, 1));
    wire::DataReportBuilder builder(fbb);
    builder.add_file_names(names);
    builder.add_file_examples(numbers);
    builder.add_file_fingerprints(numbers);
    return Why(fbb, builder.Finish());
  };
  EXPECT_EQ(report(4097, 1), "DataReport: file_names has 4097 elements, of at most 4096");
  EXPECT_EQ(report(2, 257), "DataReport: file_names has 257 bytes, of at most 256");
}

TEST(HostileHeaderTest, FileNamesStayInTheirFolder) {
  for (const char* name : {"", "..", "../ps-0.shard", "/etc/passwd", "a b"}) {
    FlatBufferBuilder fbb;
    const wire::Round round(1, 1);
    EXPECT_EQ(Why(fbb, wire::CreateWriteShard(fbb, 1, &round, fbb.CreateString(name))),
              "WriteShard: file is no plain name");
  }
}

TEST(HostileHeaderTest, BlocksAreNotEmpty) {
  FlatBufferBuilder fbb;
  EXPECT_EQ(Why(fbb, wire::CreateRestoreSlice(fbb, 1, 1, nullptr, fbb.CreateVector<uint32_t>({0}))),
            "RestoreSlice: block_bytes names an empty block");
}

TEST(HostileHeaderTest, StringsAreTextWithinTheirLimit) {
  FlatBufferBuilder a, b, c;
  EXPECT_EQ(Why(a, wire::CreateLeave(a, 1, a.CreateString(std::string(kMaxStringBytes + 1, 'x')))),
            "Leave: why has 4097 bytes, of at most 4096");
  EXPECT_EQ(Why(b, wire::CreateLeave(b, 1, b.CreateString("\x1b[2J"))),
            "Leave: why is no text: it holds control characters or is not UTF-8");
  EXPECT_EQ(Why(c, wire::CreateStatusReply(c, c.CreateString("\xc0\x80"))),
            "StatusReply: json is no text: it holds control characters or is not UTF-8");
}

// 400 bytes each for 100,000 lines: 40 MB out of 400 KB.
TEST(HostileHeaderTest, ManyOffsetsToOneStringDoNotMultiplyIt) {
  FlatBufferBuilder fbb;
  const std::vector<Offset<flatbuffers::String>> lines(100000, fbb.CreateString(std::string(400, 'x')));
  const std::string why = Why(fbb, wire::CreateHeartbeat(fbb, 1, 1, 0, 0, fbb.CreateVector(lines)));
  EXPECT_TRUE(why.starts_with("Heartbeat: log_lines has 400 bytes, of at most ")) << why;
}

// Verifier and builder both leave the alignment of a vector's elements to chance.
TEST(HostileHeaderTest, NumbersOffTheirAlignmentAreRefused) {
  bool misaligned = false;
  for (int pad = 0; pad < 2; ++pad) {
    FlatBufferBuilder fbb;
    fbb.StartVector(4 + pad, sizeof(uint32_t));
    for (int i = 0; i < 4 + pad; ++i) fbb.PushElement<uint32_t>(0);
    const Offset<flatbuffers::Vector<uint64_t>> holding(fbb.EndVector(2));
    const auto received = Sent(fbb, wire::CreateWorkRequest(fbb, 1, holding), wire::Body::WorkRequest);
    misaligned |= received.status().message() == "WorkRequest: holding is misaligned";
  }
  EXPECT_TRUE(misaligned);
}

}  // namespace
}  // namespace downpour
