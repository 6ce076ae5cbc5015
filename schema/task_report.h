// TaskReport: what a chief says of one task, and the kinds of values that its reports are made of (status_report.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace downpour {

// Nothing: unknown, and absent in JSON.
using MaybeCount = std::optional<uint64_t>;
using MaybeNumber = std::optional<double>;
using MetricValueList = std::vector<std::pair<std::string, double>>;  // by name

struct StalenessReport {
  MaybeNumber mean;
  MaybeCount p99, max, unknown;

  static void List(auto& fields, auto& self) {
    fields("mean", self.mean);
    fields("p99", self.p99);
    fields("max", self.max);
    fields("unknown", self.unknown);
  }
};

struct GpuReport {
  std::string address, name;  // an empty name is unknown
  MaybeNumber utilisation;
  MaybeCount celsius, memory_used, memory_total, workers;

  static void List(auto& fields, auto& self) {
    fields.UnlessEmpty("address", self.address);
    fields.UnlessEmpty("name", self.name);
    fields("utilisation", self.utilisation);
    fields("celsius", self.celsius);
    fields("memoryUsedBytes", self.memory_used);
    fields("memoryTotalBytes", self.memory_total);
    fields("workers", self.workers);
  }
};

// The tables of a ps, or those of all ps that live.
struct TablesReport {
  MaybeCount rows, bytes, keys_unborn;

  static void List(auto& fields, auto& self) {
    fields("rows", self.rows);
    fields("bytes", self.bytes);
    fields("keysUnborn", self.keys_unborn);
  }
};

struct TaskReport {
  std::string name, role, state;
  MaybeCount rejected;
  // Of the process that fills the task; without an incarnation none has joined yet, and none of this is written.
  MaybeCount incarnation;
  std::string host, device, endpoint, waiting_for, leaving, warning, refused_from;
  MaybeCount pid, attempt, step, resident_bytes, bytes_in, bytes_out, refused;
  MaybeNumber steps_per_second, examples_per_second, cpu_seconds, cpu_share, heartbeat_age, warning_age;
  StalenessReport staleness;
  GpuReport gpu;  // without an address: none
  TablesReport tables;
  std::vector<uint64_t> leases;
  bool is_spare = false;
  bool is_master = false;

  static void List(auto& fields, auto& self) {
    fields("name", self.name);
    fields("role", self.role);
    fields("state", self.state);
    fields("rejected", self.rejected);
    if (fields.kWrites && !self.incarnation) return;
    fields("incarnation", self.incarnation);
    fields("host", self.host);
    fields("device", self.device);
    fields("endpoint", self.endpoint);
    fields("waitingFor", self.waiting_for);
    fields("leaving", self.leaving);
    fields("warning", self.warning);
    fields("warningAgeSeconds", self.warning_age);
    fields("refused", self.refused);
    fields("refusedFrom", self.refused_from);
    fields("pid", self.pid);
    fields("attempt", self.attempt);
    fields("step", self.step);
    fields("stepsPerSecond", self.steps_per_second);
    fields("examplesPerSecond", self.examples_per_second);
    fields("cpuSeconds", self.cpu_seconds);
    fields("cpuShare", self.cpu_share);
    fields("residentBytes", self.resident_bytes);
    fields("bytesIn", self.bytes_in);
    fields("bytesOut", self.bytes_out);
    fields("lastHeartbeatSeconds", self.heartbeat_age);
    fields("staleness", self.staleness);
    fields.UnlessEmpty("gpu", self.gpu);
    fields.UnlessEmpty("tables", self.tables);
    fields("leases", self.leases);
    fields("spare", self.is_spare);
    fields("master", self.is_master);
  }
};

}  // namespace downpour
