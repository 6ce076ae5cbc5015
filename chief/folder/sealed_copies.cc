#include "chief/folder/sealed_copies.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schema/checkpoint_format.h"

namespace downpour {
namespace {

std::string Seal(const std::string& text) {
  return absl::StrFormat(" crc32c %08x\n", Crc32c({reinterpret_cast<const std::byte*>(text.data()), text.size()}));
}

// Empty if the copy is whole, or not there.
std::string DamageOf(const std::string& file, const StorageDone& read,
                     const std::function<absl::Status(const std::string&)>& take) {
  if (absl::IsNotFound(read.status)) return "";
  if (!read.status.ok()) return MessageOf(read.status);  // which begin with the path
  const absl::StatusOr<std::string> text = Unsealed(ToString(read.data));
  const absl::Status status = text.ok() ? take(*text) : text.status();
  return status.ok() ? "" : absl::StrCat(file, ": ", MessageOf(status));
}

}  // namespace

std::string Sealed(const std::string& text) { return text + Seal(text); }

absl::StatusOr<std::string> Unsealed(const std::string& line) {
  const std::string text = line.substr(0, line.size() - std::min(line.size(), Seal("").size()));
  if (text.empty() || !absl::EndsWith(line, Seal(text))) return absl::DataLossError("its checksum does not match");
  return text;
}

std::vector<StorageOp> WriteCopies(const std::string& name, const std::string& text) {
  std::vector<StorageOp> ops = ReplaceFile(name + ".a", Sealed(text));
  for (StorageOp& op : ReplaceFile(name + ".b", Sealed(text))) ops.push_back(std::move(op));
  return ops;
}

void ReadCopies(Storage& storage, const std::string& name, uint64_t max_bytes,
                std::function<absl::Status(const std::string&)> take, std::function<void(const std::string&)> then) {
  const std::string a = name + ".a";
  const std::string b = name + ".b";
  storage.Run({ReadFile(a, 0, max_bytes)}, [=, &storage](const StorageDone& read_a) {
    const std::string damage = DamageOf(a, read_a, take);
    storage.Run({ReadFile(b, 0, max_bytes)}, [=](const StorageDone& read_b) {
      const std::string other = DamageOf(b, read_b, take);
      then(absl::StrCat(damage, damage.empty() || other.empty() ? "" : "; ", other));
    });
  });
}

}  // namespace downpour
