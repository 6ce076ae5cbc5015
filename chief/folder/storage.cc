#include "chief/folder/storage.h"

#include <glog/logging.h>

#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

using Kind = StorageOp::Kind;

StorageOp Op(Kind kind, std::string path) {
  StorageOp op;
  op.kind = kind;
  op.path = std::move(path);
  return op;
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

absl::Status WithPath(const absl::Status& status, const std::string& path) {
  const std::string message(status.message().data(), status.message().size());
  if (absl::StartsWith(message, path)) return status;
  return absl::Status(status.code(), absl::StrCat(path, ": ", message));
}

}  // namespace

void Storage::Run(std::vector<StorageOp> ops, Then then) {
  CHECK(!ops.empty());
  Issue({{std::make_move_iterator(ops.begin()), std::make_move_iterator(ops.end())}, std::move(then)});
}

void Storage::Issue(Sequence sequence) {
  const Ticket ticket{++last_ticket_};
  StorageOp op = sequence.rest.front();
  op.ticket = ticket;
  context_.out.Add(std::move(op));
  under_way_.emplace(ticket, std::move(sequence));
}

void Storage::Complete(const StorageDone& done) {
  auto node = under_way_.extract(done.ticket);
  if (node.empty()) return;
  Sequence sequence = std::move(node.mapped());
  const std::string path = sequence.rest.front().path;
  sequence.rest.pop_front();
  if (!done.status.ok()) {
    StorageDone failed = done;
    failed.status = WithPath(done.status, path);
    return sequence.then(failed);
  }
  if (sequence.rest.empty()) return sequence.then(done);
  Issue(std::move(sequence));
}

StorageOp MakeDir(std::string path) { return Op(Kind::kMakeDir, std::move(path)); }

StorageOp WriteFile(std::string path, const std::string& text) {
  StorageOp op = Op(Kind::kWrite, std::move(path));
  op.data.push_back(Payload::CopyOf(text.data(), text.size()));
  return op;
}

StorageOp AppendTo(std::string path, std::vector<Payload> data) {
  StorageOp op = Op(Kind::kAppend, std::move(path));
  op.data = std::move(data);
  return op;
}

StorageOp SyncFile(std::string path) { return Op(Kind::kSync, std::move(path)); }
StorageOp SyncDir(std::string path) { return Op(Kind::kSyncDir, std::move(path)); }

StorageOp Rename(std::string path, std::string target) {
  StorageOp op = Op(Kind::kRename, std::move(path));
  op.target = std::move(target);
  return op;
}

StorageOp Remove(std::string path) { return Op(Kind::kRemove, std::move(path)); }

StorageOp ReadFile(std::string path, uint64_t offset, uint64_t bytes) {
  StorageOp op = Op(Kind::kRead, std::move(path));
  op.offset = offset;
  op.bytes = bytes;
  return op;
}

StorageOp ListDir(std::string path) { return Op(Kind::kList, std::move(path)); }

std::vector<StorageOp> ReplaceFile(const std::string& path, const std::string& text, bool is_private) {
  const std::string beside = absl::StrCat(path, ".tmp");
  std::vector<StorageOp> ops;
  ops.push_back(Remove(beside));
  ops.push_back(WriteFile(beside, text));
  ops.back().is_private = is_private;
  ops.push_back(SyncFile(beside));
  ops.push_back(Rename(beside, path));
  ops.push_back(SyncDir(FolderOf(path)));
  return ops;
}

std::string ToString(const Payload& bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace downpour
