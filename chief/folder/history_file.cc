#include "chief/folder/history_file.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace downpour {

void HistoryFile::Add(const std::string& bytes) {
  if (pending_.size() + bytes.size() <= kMostPending) pending_ += bytes;
  if (!is_writing_) Write();
}

void HistoryFile::Write() {
  is_writing_ = true;
  std::string bytes = std::exchange(pending_, "");
  Payload data = Payload::CopyOf(bytes.data(), bytes.size());
  storage_.Run({AppendTo(path_, {std::move(data)})}, [this, bytes = std::move(bytes)](const StorageDone& done) {
    is_writing_ = false;
    if (done.status.ok()) {
      if (!pending_.empty()) Write();
      return;
    }
    pending_ = (bytes.starts_with(mend_) ? "" : mend_) + bytes + pending_;
    if (std::exchange(has_warned_, true)) return;
    context_.out.Warn(absl::StrCat(MessageOf(done.status), "; training continues, and this is tried again"));
  });
}

}  // namespace downpour
