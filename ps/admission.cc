#include "ps/admission.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ps/guarded_state.h"
#include "schema/codec.h"

namespace downpour {
namespace {

absl::Status UnknownSlice(SliceId slice, const SliceGrid& grid) {
  return absl::InvalidArgumentError(absl::StrCat("names slice ", ToNumber(slice), ", but the model has ", grid.size()));
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
    if (absl::Status gradient = CheckGradient(item, grid); !gradient.ok()) return gradient;
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
    const absl::StatusOr<size_t> answer = CheckPull(item, grid);
    if (!answer.ok()) return answer.status();
    bytes += *answer;
  }
  if (bytes <= kMaxMessagePayload) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("pulls ", bytes, " bytes in one message, of at most ", kMaxMessagePayload));
}

}  // namespace downpour
