#include "worker/code_fetch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/codec.h"
#include "schema/sha256.h"

namespace downpour {

void CodeFetch::Begin(const PythonSpec& code) {
  Forget();
  sha256_ = code.sha256;
  bytes_ = static_cast<uint64_t>(code.bytes);
}

std::vector<Payload> CodeFetch::Take() {
  std::vector<Payload> blocks = std::move(blocks_);
  Forget();
  return blocks;
}

void CodeFetch::Advance(Time now, MemberSession& session, Effects& effects) {
  if (now < next_request_) return;
  effects.SendTo(MemberSession::kChief,
                 CodeRequest{.from = session.incarnation(), .sha256 = sha256_, .block = blocks_.size()});
  next_request_ = now + session.timing().control_retry;
}

absl::Status CodeFetch::Receive(const CodeBlock& block) {
  if (!wants() || block.sha256 != sha256_ || block.block > blocks_.size()) {
    return absl::InvalidArgumentError("a block of code that was not asked for");
  }
  if (block.block < blocks_.size()) return absl::OkStatus();  // doubled
  if (block.bytes.size() != std::min<uint64_t>(kCodeBlockBytes, bytes_ - have_)) {
    return absl::InvalidArgumentError(absl::StrCat("a block of code of ", block.bytes.size(), " bytes"));
  }
  blocks_.push_back(block.bytes);
  have_ += block.bytes.size();
  next_request_ = {};
  // Nobody computes with other code than the job names.
  if (complete() && Sha256Of(blocks_) != sha256_) {
    blocks_.clear();
    have_ = 0;
    return absl::DataLossError("blocks of code that together are not the job's");
  }
  return absl::OkStatus();
}

}  // namespace downpour
