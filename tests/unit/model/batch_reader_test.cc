#include "model/batch_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "job/job_file.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Notes what is to be read ahead.
class NotingSet final : public Dataset {
 public:
  uint64_t size() const override { return 20; }
  const std::vector<Column>& columns() const override { return columns_; }
  uint64_t fingerprint() const override { return 1; }
  bool reads_ahead() const override { return reads_ahead_; }
  void ReadAhead(absl::Span<const uint64_t> ids) const override { ahead.emplace_back(ids.begin(), ids.end()); }
  absl::Status ReadBatch(absl::Span<const uint64_t>, absl::Span<const size_t>,
                         absl::Span<ColumnValues>) const override {
    return absl::OkStatus();
  }

  mutable std::vector<std::vector<uint64_t>> ahead;
  bool reads_ahead_ = true;

 private:
  std::vector<Column> columns_;
};

JobSpec JobOn(const std::string& file) {
  JobFileResult read =
      ParseJob(absl::StrCat("name: j\nmodel: {inputs: [{name: x, columns: all}], layers: [{dense: {units: 2}}]}\n"
                            "training: {batchSize: 2, leaseBatches: 3, pushEvery: 2}\n"
                            "data: {format: csv, columns: [x], label: y, train: ",
                            file, "}\n"),
               "j.yaml");
  for (const JobError& error : read.errors) ADD_FAILURE() << ToString(error);
  return read.job;
}

TEST(BatchReader, AllExamplesOfALeaseAreReadAheadOnce) {
  const Plan plan(JobOn("a.csv"), 20);
  NotingSet set;
  BatchReader reader;
  for (const uint64_t lease : {0, 1, 0, 1, 2, 1, 2}) reader.ReadAhead(set, plan, LeaseId{lease});
  ASSERT_EQ(set.ahead.size(), 3u);
  std::vector<uint64_t> first, second;
  plan.Examples(LeaseId{0}, 1, &first);
  plan.Examples(LeaseId{0}, 2, &second);
  ASSERT_EQ(second.size(), 2u);
  first.insert(first.end(), second.begin(), second.end());
  EXPECT_EQ(set.ahead[0], first) << "in the order in which they are needed";
  set.reads_ahead_ = false;
  reader.ReadAhead(set, plan, LeaseId{3});
  EXPECT_EQ(set.ahead.size(), 3u);
}

TEST(BatchReader, ABatchThatWasReadLastIsThere) {
  ScratchFolder scratch;
  scratch.Write("a.csv", "x,y\n1,0\n2,1\n3,0\n");
  const JobSpec job = JobOn(scratch.path() + "/a.csv");
  const absl::StatusOr<Examples> examples = Examples::Open(job.data, job.data.train, job.model);
  ASSERT_TRUE(examples.ok()) << examples.status();
  BatchReader reader;
  const std::vector<uint64_t> ids = {2, 1}, others = {0}, none_such = {3};
  EXPECT_FALSE(reader.Has(*examples, ids));
  ASSERT_TRUE(reader.ReadNow(*examples, ids).ok());
  EXPECT_TRUE(reader.Has(*examples, ids));
  EXPECT_FALSE(reader.Has(*examples, others));
  EXPECT_THAT(reader.Labels(), ElementsAre(0, 1));
  EXPECT_GT(reader.TakeReading().count(), 0);
  EXPECT_EQ(reader.TakeReading().count(), 0);
  ASSERT_TRUE(reader.Read(*examples, others).ok());
  EXPECT_EQ(reader.TakeReading().count(), 0) << "something else was done meanwhile";
  EXPECT_THAT(reader.ReadNow(*examples, none_such).message(), HasSubstr("example 3 of 3"));
  EXPECT_FALSE(reader.Has(*examples, others)) << "what was read is not whole";
}

}  // namespace
}  // namespace downpour
