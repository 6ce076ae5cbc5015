// Looks at a job: its data, what it needs, the addresses it will use, and, once it runs, how it goes.
//
// Cost: data are read whole, for their fingerprint; an address that does not answer costs a second.
// Tests: tests/unit/tools/cli/doctor_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/status_view.h"
#include "job/cluster_config.h"
#include "job/job.h"
#include "runtime/posix/listener.h"
#include "tools/cli/data_facts.h"
#include "tools/cli/doctor_host.h"
#include "tools/cli/findings.h"

namespace downpour {

// What of the job is worth a warning, and which of its files are not whole or do not fit. A role is told of the files
// that it reads: a worker of the data, the chief of model.initializeFrom; with no role all is told.
Findings JudgeJob(const JobFileResult& read, const DataFacts& facts, std::optional<TaskType> role);

// Whether the data are here, and which copy they are; nothing of data of which JudgeJob tells an error.
Findings LookAtJobData(const JobSpec& job, const DataFacts& facts);

// What one task needs, or with no role a whole cluster on one host; its workers compute on a GPU, or on the CPU.
HostNeeds NeedsOf(const JobSpec& job, const DataFacts& facts, std::optional<TaskType> role, bool on_gpu);

// About the largest file that a job writes, in bytes: a ps's part of a checkpoint, or the archive of its code.
uint64_t LargestFileOf(const JobSpec& job);

// Why so many more workers of a job have no room beside what runs on this host, and how many have; empty: all of them,
// or it is not known.
std::string WhyNoRoomFor(uint32_t more, const JobSpec& job, const DataFacts& facts, const HostFacts& host);

// Whether each address of the chief and the ps resolves and can be reached. Nobody need listen
// there yet, and a ps may do so at another port.
Findings LookAtAddresses(const std::vector<ClusterConfig>& sources);

// Whether the ps of a running job can be reached where they say, from here as from a worker's host.
Findings LookAtServers(const StatusReport& status);

// Whether a task could listen there, and may: without keys nothing that others reach is listened on. Of a task that is
// to listen on all addresses, which one others are told; `chief`: where its chief is, if that is known.
Finding LookAtOwnAddress(const std::string& endpoint, bool has_keys, const std::string& chief = "",
                         std::optional<TaskType> role = {});
// Whether it is the very task that this host is looked at for: of that role, and of that chief as far as both say so.
bool IsTask(const Listener& who, std::optional<TaskType> role, const std::string& chief);
// For a whole cluster on this host: whether its ps can have their sockets where `downpour run` puts them.
Finding LookAtSockets(int servers);

// A chief that gave no answer: `why`, and what mends it, which depends on how far one gets towards it.
Finding SilentChief(const std::string& endpoint, const std::string& why, bool has_keys);

Findings JudgeStatus(const StatusReport& status);
// A job that is over keeps nothing from running: how it goes on is told.
Findings JudgeEnd(const SummaryReport& summary);

}  // namespace downpour
