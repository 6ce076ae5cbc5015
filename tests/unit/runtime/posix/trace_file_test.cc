#include "runtime/posix/trace_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "tests/unit/runtime/zmq/test_peer.h"

namespace downpour {
namespace {

std::string FileText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TraceRecord Applied(Step step) {
  TraceRecord record;
  record.kind = TraceRecord::Kind::kApplied;
  record.actor = Incarnation{4294967299};
  record.lease = LeaseId{12};
  record.step = step;
  record.slice = SliceId{7};
  record.epoch = {1, 2};
  record.count = 99;
  record.peer = Incarnation{4294967301};
  return record;
}

TEST(TraceFileTest, AFlushWritesWhatWasGatheredAsLines) {
  TempDir dir;
  TraceFile trace = TraceFile::Open(dir / "trace").value();
  trace.Append(Applied(3));
  trace.Append(Applied(4));
  EXPECT_EQ(FileText(dir / "trace"), "");
  trace.Flush();
  const std::string lines =
      "applied 4294967299 12 3 7 1.2 99 4294967301\napplied 4294967299 12 4 7 1.2 99 4294967301\n";
  EXPECT_EQ(FileText(dir / "trace"), lines);
  TraceFile again = TraceFile::Open(dir / "trace").value();
  again.Append(Applied(5));
  again.Flush();
  EXPECT_EQ(FileText(dir / "trace"), lines + "applied 4294967299 12 5 7 1.2 99 4294967301\n");
}

TEST(TraceFileTest, AFileThatCannotBeIsNamed) {
  EXPECT_THAT(std::string(TraceFile::Open("/no/such/folder/trace").status().message()),
              testing::HasSubstr("/no/such/folder/trace"));
}

TEST(TraceFileTest, AFullDiskEndsTheTraceAndNothingElse) {
  TraceFile trace = TraceFile::Open("/dev/full").value();
  for (Step step = 1; step <= 3; ++step) {
    trace.Append(Applied(step));
    trace.Flush();
  }
}

}  // namespace
}  // namespace downpour
