#include "ps/admission.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/row_frames.h"
#include "schema/codec.h"

namespace downpour {
namespace {

absl::Status UnknownSlice(SliceId slice, const SliceGrid& grid) {
  return absl::InvalidArgumentError(absl::StrCat("names slice ", ToNumber(slice), ", but the model has ", grid.size()));
}

absl::Status OfBucket(const char* does, SliceId slice, const absl::Status& why) {
  return absl::InvalidArgumentError(
      absl::StrCat(does, " rows of slice ", ToNumber(slice), " in a frame that ", why.message()));
}

// A row in another bucket than its own would be in a record that nobody can install.
absl::Status CheckBucket(const Payload& frame, SliceId slice, const SliceGrid& grid) {
  const auto bucket = static_cast<uint32_t>(grid.at(slice).offset);
  if (AreInBucket(frame, grid.row_widths.size(), bucket, grid.buckets)) return absl::OkStatus();
  return absl::InvalidArgumentError("has keys of another bucket");
}

absl::Status AdmitLease(LeaseId lease, const Plan& plan) {
  if (plan.Contains(lease)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("names lease ", ToNumber(lease), ", but the job has ", plan.total_leases()));
}

// The answer has as many items as the question, and a frame for each that carries values.
absl::Status AdmitCount(size_t slices) {
  if (slices < kMaxFrames) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("names ", slices, " slices in one message, of at most ", kMaxFrames - 1));
}

}  // namespace

absl::Status Admit(const Push& push, const SliceGrid& grid, const Plan& plan) {
  if (absl::Status count = AdmitCount(push.slices.size()); !count.ok()) return count;
  if (absl::Status lease = AdmitLease(push.lease, plan); !lease.ok()) return lease;
  const Step steps = plan.StepsOf(push.lease);
  if (push.step < 1 || push.step > steps) {
    return absl::InvalidArgumentError(
        absl::StrCat("pushes step ", push.step, " of lease ", ToNumber(push.lease), ", which has ", steps));
  }
  for (const Push::Item& item : push.slices) {
    if (!grid.Contains(item.slice)) return UnknownSlice(item.slice, grid);
    if (grid.IsBucket(item.slice)) {
      if (item.gradient.empty()) continue;
      absl::Status rows = CheckGradients(item.gradient, grid.row_widths);
      if (rows.ok()) rows = CheckBucket(item.gradient, item.slice, grid);
      if (!rows.ok()) return OfBucket("pushes", item.slice, rows);
      continue;
    }
    const size_t bytes = grid.WireBytes(item.slice);
    if (!item.gradient.empty() && item.gradient.size() != bytes) {
      return absl::InvalidArgumentError(absl::StrCat("pushes ", item.gradient.size(), " bytes for slice ",
                                                     ToNumber(item.slice), ", which has ", bytes));
    }
  }
  return absl::OkStatus();
}

absl::Status Admit(const Probe& probe, const SliceGrid& grid, const Plan& plan) {
  std::vector<bool> named(grid.size());  // Limits: an answer has each slice once
  for (const Probe::Item& item : probe.slices) {
    if (!grid.Contains(item.slice)) return UnknownSlice(item.slice, grid);
    if (named[ToNumber(item.slice)]) {
      return absl::InvalidArgumentError(absl::StrCat("probes slice ", ToNumber(item.slice), " twice in one message"));
    }
    named[ToNumber(item.slice)] = true;
  }
  return AdmitLease(probe.lease, plan);
}

absl::Status Admit(const Pull& pull, const SliceGrid& grid, const Plan&) {
  if (absl::Status count = AdmitCount(pull.slices.size()); !count.ok()) return count;
  uint64_t bytes = 0;
  for (const Pull::Item& item : pull.slices) {
    if (!grid.Contains(item.slice)) return UnknownSlice(item.slice, grid);
    if (grid.IsBucket(item.slice)) {
      if (absl::Status keys = CheckKeys(item.keys, grid.row_widths); !keys.ok()) {
        return OfBucket("pulls", item.slice, keys);
      }
      bytes += AnswerBytes(item.keys, grid.row_widths);
    } else if (!item.keys.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("pulls rows of slice ", ToNumber(item.slice), ", which is no bucket"));
    }
    bytes += grid.WireBytes(item.slice);
  }
  if (bytes <= kMaxMessagePayload) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("pulls ", bytes, " bytes in one message, of at most ", kMaxMessagePayload));
}

}  // namespace downpour
