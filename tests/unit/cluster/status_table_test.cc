#include "cluster/status_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cluster/sample_status.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

StatusReport Sample() { return ParseStatus(SampleStatus()).value(); }

TEST(StatusTableTest, TheDocumentedSample) {
  EXPECT_EQ(StatusTable(Sample(), /*color=*/false),
            "Health:     degraded\n"
            "Pending:    worker-3 has not joined yet\n"
            "Failures:   worker-2: no heartbeat for 5.0 s; 2 leases handed on, 9.5 s ago\n"
            "Waiting:    chief for ps-1: has not reported slice 4, for 1.5 s\n"
            "Spare:      a worker on h7 (process 815) asks to join: the job asks for 2 of kind worker, and all of them "
            "are there; downpour scale --workers changes their number\n"
            "\n"
            "Job:        mnist-mlp RUNNING, epoch 3.2 of 10 (32.4 %), loss 0.0912, 48,211 examples/s, 13 s elapsed, "
            "40 s left, 59 min 48 s until scheduling.maxRunningTime ends it\n"
            "Evaluation: accuracy 96.90 %, loss 0.1000, calibrationError 0.0123, top5 0.9991, after epoch 2\n"
            "Scaled:     to 6 workers; the job file says 4\n"
            "Changed:    training.optimizer.learningRate 0.1 -> 0.05\n"
            "Recovered:  1 worker lost, 2 leases reassigned\n"
            "Pushes:     0 consumed, 0 acknowledged, 0 retried, 0 refused for now, 0 duplicate, 0 skipped\n"
            "Staleness:  mean/p99/max 2.9/7/11\n"
            "Tables:     1,234,567 rows, 180.0 MiB on 1 ps\n"
            "\n"
            "TASK      STATE    HOST   PID  STEP  EXAMPLES/S  STALENESS  CPU    MEMORY   IN  OUT  HEARTBEAT  "
            "WAITING FOR\n"
            "worker-0  RUNNING  h1    4715   812      12,011   2.9/7/11  93%  84.0 MiB  1 B  1 B  0.2 s ago\n"
            "ps-0      RUNNING  h1    4712     -           -          -    -         -    -    -          -\n"
            "\n"
            "GPUs:       worker-0: NVIDIA H200, 87 % busy, 4.0 GiB of 140.4 GiB, 61 °C, shared by 2 workers\n"
            "Checkpoint: 1-4, 3.2 s ago, 1.8 MiB, 180 of 590 leases (checkpoints/1-4)\n"
            "            the best: checkpoints/1-3, loss 0.071 after 8 epochs, "
            "measured at versions 1500 to 1503, kept at 1504 to 1511\n"
            "            every 1.1 s (auto: a round costs 0.01 s of work; the loss of a ps is expected every 64 s)\n"
            "Next:       downpour logs worker-2 --job-dir /jobs/mnist\n");
}

TEST(StatusTableTest, AStandstillIsToldBeforeAllElse) {
  StatusReport status = Sample();
  status.stalled = "nothing has moved for 28 s";
  EXPECT_THAT(StatusTable(status, false),
              HasSubstr("Health:     degraded\nStalled:    nothing has moved for 28 s\nPending:"));
}

TEST(StatusTableTest, AJobThatSucceededAndLearnedNothingIsCalledSo) {
  StatusReport status = Sample();
  status.state = "SUCCEEDED";
  status.diverging = "the loss stays at that of a guess";
  EXPECT_THAT(StatusTable(status, false),
              HasSubstr("Health:     degraded\nDIVERGING:  the loss stays at that of a guess\nPending:"));
}

TEST(StatusTableTest, FailuresOfLongAgoAreOnlyCounted) {
  StatusReport status = Sample();
  status.failures.clear();
  for (const double age : {600.0, 300.0, 5.0}) status.failures.push_back({"ps-0", "it left", age, {}});
  EXPECT_THAT(
      StatusTable(status, false),
      HasSubstr("Failures:   ps-0: it left, 5.0 s ago\n            2 before that, the last 5 min 00 s ago: ps-0: "
                "it left\n"));
}

TEST(StatusTableTest, WhatATaskWarnedOfLatelyIsShown) {
  StatusReport status = Sample();
  EXPECT_THAT(StatusTable(status, false), Not(HasSubstr("Warnings:"))) << "long ago";
  status.tasks[0].warning_age = 3;
  EXPECT_THAT(StatusTable(status, false),
              HasSubstr("Warnings:   worker-0: the ps at 10.0.0.2:40123 cannot be reached: connection refused, 3.0 s "
                        "ago\n"));
}

TEST(StatusTableTest, ASpareWorkerIsCalledSo) {
  StatusReport status = Sample();
  status.tasks[0].waiting_for = "work";
  status.tasks[0].is_spare = true;
  EXPECT_THAT(StatusTable(status, false), HasSubstr("work (spare: others hold all leases)"));
}

TEST(StatusTableTest, TheTaskThatRunsTheRestOfTheProgramIsMarked) {
  StatusReport status = Sample();
  EXPECT_THAT(StatusTable(status, false), Not(HasSubstr("(master)")));
  status.tasks[0].is_master = true;
  EXPECT_THAT(StatusTable(status, false), HasSubstr("\nworker-0 (master)  "));
}

TEST(StatusTableTest, WhoeverReadsElsewhereIsToldWhereTheFoldersAre) {
  StatusReport status = Sample();
  status.chief.host = "h0";
  status.next = {"downpour-ps --keys='my keys' --chief=10.0.0.1:7000",
                 "downpour-worker --keys=DIR --chief=10.0.0.1:7000", "downpour logs ps-0 --job-dir /jobs/mnist"};
  EXPECT_THAT(StatusTable(status, false, /*is_elsewhere=*/true),
              HasSubstr("Next:       on h0: downpour-ps --keys='my keys' --chief=10.0.0.1:7000\n"
                        "            downpour-worker --keys=DIR --chief=10.0.0.1:7000\n"
                        "            on h0: downpour logs ps-0 --job-dir /jobs/mnist\n"));
}

TEST(StatusTableTest, AnEmptyStatusSaysWhatIsUnknownAndThatNothingIsWrong) {
  StatusReport status;
  status.job = "j";
  status.state = "QUEUED";
  status.tasks.resize(1);
  const std::string table = StatusTable(status, false);
  EXPECT_THAT(table, HasSubstr("Health:     healthy\nPending:    none\nFailures:   none lately\n"));
  EXPECT_THAT(table, HasSubstr("Job:        j QUEUED\n"));
  EXPECT_THAT(table, HasSubstr("Checkpoint: none yet\n"));
  EXPECT_THAT(table, Not(HasSubstr("Waiting:")));
  EXPECT_THAT(table, HasSubstr("\n-     -"));
}

TEST(StatusTableTest, OfAGpuOnlyWhatIsKnownIsTold) {
  StatusReport status = Sample();
  status.tasks[0].gpu = {};
  status.tasks[0].gpu.address = "0000:3B:00.0";
  status.tasks[0].gpu.workers = 1;
  EXPECT_THAT(StatusTable(status, false), HasSubstr("GPUs:       worker-0: 0000:3B:00.0\n"));
  status.tasks[0].gpu = {};
  EXPECT_THAT(StatusTable(status, false), Not(HasSubstr("GPUs:")));
}

TEST(StatusTableTest, AFailedJobNamesItsErrorAtTheTop) {
  StatusReport status = Sample();
  status.state = "FAILED";
  status.error = "ps-1 died";
  EXPECT_THAT(StatusTable(status, false), HasSubstr("Health:     FAILED\nError:      ps-1 died\n"));
}

TEST(StatusTableTest, ColorsOnlyWhenAsked) {
  EXPECT_THAT(StatusTable(Sample(), true), HasSubstr("\x1b[31mdegraded\x1b[0m"));
  EXPECT_THAT(StatusTable(Sample(), false), Not(HasSubstr("\x1b")));
}

TEST(StatusTableTest, SaysHowManyTasksAreNotShown) {
  StatusReport status = Sample();
  EXPECT_THAT(StatusTable(status, false), Not(HasSubstr("more tasks")));
  status.tasks_omitted = 2002;
  EXPECT_THAT(StatusTable(status, false), HasSubstr("\nand 2002 more tasks\n"));
}

TEST(StatusTableTest, AStepIsAWorkersMatter) {
  StatusReport status = Sample();
  EXPECT_THAT(StatusTable(status, false), HasSubstr("  812  "));
  status.tasks[0].role = "ps";
  EXPECT_THAT(StatusTable(status, false), Not(HasSubstr("812")));
}

TEST(StatusTableTest, WhoWaitsForTheSameIsOneLine) {
  StatusReport status = Sample();
  for (const char* name : {"worker-0", "worker-1"}) status.waits.push_back({name, "parameters from ps-1", "", 2.0});
  EXPECT_THAT(StatusTable(status, false),
              HasSubstr("            worker-0, worker-1 for parameters from ps-1, for 2.0 s\n"));
}

TEST(StatusTableTest, MessagesRejectedAreCountedOverAllTasks) {
  StatusReport status = Sample();
  status.tasks.resize(2);
  status.tasks[0].rejected = 2;
  status.tasks[1].rejected = 3;
  status.chief.rejected = 4;
  EXPECT_THAT(StatusTable(status, false), HasSubstr("9 messages ignored"));
}

TEST(StatusTableTest, WhoHasNoKeyIsShown) {
  StatusReport status = Sample();
  EXPECT_THAT(StatusTable(status, false), Not(HasSubstr("Refused:")));
  status.chief.refused = 3;
  status.chief.refused_from = "10.0.0.7";
  status.tasks[0].name = "ps-0";
  status.tasks[0].refused = 1;
  EXPECT_THAT(
      StatusTable(status, false),
      HasSubstr("Refused:    3 handshakes at the chief without a key of this cluster, the last from "
                "10.0.0.7\n            1 handshake at ps-0 without a key of this cluster\n            if it is to "
                "take part: downpour doctor --keys DIR --role ROLE --chief 127.0.0.1:40123 on that host"));
}

TEST(SummaryTableTest, TheDocumentedSample) {
  EXPECT_EQ(SummaryTable(ParseSummary(SampleSummary()).value(), false),
            "Job:        mnist-mlp SUCCEEDED\n"
            "Accuracy:   98.10 % on the eval data, loss 0.0700\n"
            "Metrics:    calibrationError 0.0098, top5 0.9995\n"
            "Trained:    10 epochs, 600,000 examples, in 13 s, 48,000 examples/s\n"
            "Staleness:  mean/p99/max 3.0/6/9\n"
            "Checkpoint: checkpoints/1-5\n"
            "            the best: checkpoints/1-4, loss 0.068 after 9 epochs, "
            "measured at versions 8442 to 8445, kept at 8446 to 8450\n");
}

TEST(SummaryTableTest, OfAModelWithoutAnAccuracyTheLossIsTold) {
  SummaryReport summary = ParseSummary(SampleSummary()).value();
  summary.eval_accuracy.reset();
  EXPECT_THAT(SummaryTable(summary, false), HasSubstr("SUCCEEDED\nLoss:       0.0700 on the eval data\nMetrics: "));
  summary.eval_loss.reset();
  EXPECT_THAT(SummaryTable(summary, false), Not(HasSubstr("Loss:")));
}

TEST(SummaryTableTest, WhatTheJobDidNotLearnIsTold) {
  SummaryReport summary = ParseSummary(SampleSummary()).value();
  summary.diverging = "the loss is not finite";
  EXPECT_THAT(SummaryTable(summary, false), HasSubstr("SUCCEEDED\nDIVERGING:  the loss is not finite\n"));
}

TEST(SummaryTableTest, WhatTheJobHasOutlivedIsTold) {
  SummaryReport summary = ParseSummary(SampleSummary()).value();
  summary.recovery = {2, 3, 1, 5, 1200};
  summary.pushes.Of(&TaskStats::pushes_skipped) = 1200;
  summary.elapsed = 600;
  EXPECT_THAT(SummaryTable(summary, false),
              HasSubstr("Trained:    10 epochs, 600,000 examples, over 10 min 00 s\n"
                        "            under its last chief: 13 s, 48,000 examples/s\n"
                        "Staleness:  mean/p99/max 3.0/6/9\n"
                        "Recovered:  2 chief restarts, 3 workers lost, 1 ps lost, 5 leases reassigned, "
                        "1,200 batches recomputed\n"
                        "Skipped:    1,200 pushes, which changed nothing\n"));
}

}  // namespace
}  // namespace downpour
