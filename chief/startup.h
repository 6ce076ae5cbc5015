// What a chief does before it answers anybody: finds out whether this job folder is its to use, and takes a new term.
//
//   1. reads term.a and term.b, the journal, summary.json, every checkpoint's manifest, and that of the values to begin
//      with, if the job has model.initializeFrom. A chief writes the summary before it journals the end. So a summary
//      of the last chief that led the job tells of its end, even if that chief was killed between the two;
//   2. goes on with a job that the journal does not call over. Else it refuses a folder that holds checkpoints unless
//      told to resume. In both cases it refuses another plan. Where there was a checkpoint and none is whole any more,
//      it begins again only if told to give up the newest one by its name; a job that is not over may go on with what
//      its ps still hold;
//   3. syncs the newest checkpoint's name; writes term.a, then term.b, each with the term after the highest found, or
//      what the clock reads in quarters of a second since 2026, if that is more. No later chief uses this term again
//      (protocol rule A11, schema/PROTOCOL.md), not even where the folder is put back to an earlier state;
//   4. writes chief.json, by which tools find this process, and last the journal, by which it leads the job.
//
// A chief that answered anybody has all of that on disk. Where there is nothing but a term that cannot be read, nobody
// was led: terms begin by the clock there.
//
// Errors: Outcome::why; nothing in the folder was changed but, where writing failed, its term, chief.json and journal,
//   and the journal where only the summary told of the end.
// Tests: tests/unit/chief/startup_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "chief/folder/checkpoint_store.h"
#include "chief/folder/journal.h"
#include "chief/folder/storage.h"
#include "chief/known/options.h"
#include "runtime/role.h"

namespace downpour {

class Startup {
 public:
  struct Outcome {
    int exit_code = 0;
    std::string why;    // not empty: there is nothing to lead, and the chief is to end
    bool over = false;  // since the job has succeeded: who is still a member may be told
    uint32_t term = 0;
    bool goes_on = false;                  // with a job that another chief began
    std::vector<EarlierEpochs> earlier{};  // epochs that keep the data which the job was begun with: data_plan.h
    int64_t servers_before = 0;            // that it had then
    std::vector<Manifest> sources{};       // valid checkpoints of this plan, newest first
    std::optional<Manifest> initial{};     // values that the user gave the job to begin with
    std::vector<std::string> findings{};   // that do not keep it from leading
    std::vector<std::string> changes{};    // settings that differ from those of the chief before
    std::string lost{};  // why there is none, though there was: no slice may begin from initial values
  };

  // The options outlive it.
  Startup(Storage& storage, CheckpointStore& checkpoints, Journal& journal, const ChiefOptions& options)
      : storage_(storage), checkpoints_(checkpoints), journal_(journal), options_(options), job_(options.job) {}

  void Run(const Started& started, std::function<void(const Outcome&)> then);

  // The user's Python code, in blocks of kCodeBlockBytes, once it has run.
  const std::vector<Payload>& code() const { return code_; }

 private:
  void ReadJob();
  void ReadEnd();
  void ReadCheckpoints();
  void TakeEnd(nlohmann::json summary);
  void JudgeLostTerm();
  void ReadCode();
  void CheckCode(const absl::Status& read);
  void ReadInitialValues();
  void Decide();
  std::string WhyNothingIsKnown(bool has_checkpoint) const;
  bool AcceptPlan(const std::string& before, const std::string& whose);
  bool AcceptSlices(const Manifest& newest);
  void TakeData(const Manifest* newest);
  void BeginTerm();
  void Announce();
  void BeginJournal();
  void CompareSettings(bool is_known);
  void Refuse(int exit_code, std::string why, bool over = false);
  void RefuseToWrite(const absl::Status& status);

  Storage& storage_;
  CheckpointStore& checkpoints_;
  Journal& journal_;
  const ChiefOptions& options_;
  JobSpec job_;  // that of the options, with what is known of its earlier epochs
  // What it was trained on so far, or is to be; nothing: nobody knows. The journal has both when this chief leads.
  std::optional<DataShape> data_;
  bool data_grow_ = false;
  Started started_;
  std::function<void(const Outcome&)> then_;
  Outcome outcome_;
  uint32_t highest_ = 0;
  std::string term_damage_;
  bool has_summary_ = false;  // whether or not it can be read
  std::vector<Payload> code_;
  std::string code_damage_;
  std::string initial_damage_;  // of the copy of what the job file names; empty: it is whole, or none is named
};

// To a person whose checkpoints are lost.
std::string RemedyOfLoss(Round newest);

}  // namespace downpour
