#include "runtime/posix/package.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "job/job.h"
#include "schema/text.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

constexpr int kMostFolders = 32;  // in each other

// Adds `path` and what it lies in to `folders`. True: it was not there before.
bool AddFolders(const fs::path& path, std::set<fs::path>* folders) {
  if (path.empty() || !folders->insert(path).second) return false;
  AddFolders(path.parent_path(), folders);
  return true;
}

class Unpacker {
 public:
  Unpacker(const std::string& archive, const std::string& folder)
      : name_(fs::path(archive).filename()), folder_(folder), skipped_(absl::EndsWith(archive, ".tar.gz") ? 1 : 0) {
    archive_read_support_filter_gzip(archive_.get());
    archive_read_support_format_tar(archive_.get());
    archive_read_support_format_zip(archive_.get());
    constexpr size_t kBlock = 65536;
    opened_ = archive_read_open_filename(archive_.get(), archive.c_str(), kBlock) == ARCHIVE_OK;
  }

  absl::Status Run() {
    if (!opened_) return Wrong("is no .tar.gz, .whl or .zip");
    archive_entry* entry = nullptr;
    int result = ARCHIVE_OK;
    while ((result = archive_read_next_header(archive_.get(), &entry)) == ARCHIVE_OK) {
      if (++files_ > kMostPackageFiles) return Wrong(absl::StrCat("has more than ", kMostPackageFiles, " files"));
      if (const absl::Status status = Take(entry); !status.ok()) return status;
    }
    return result == ARCHIVE_EOF ? absl::OkStatus() : Wrong("is damaged, or no .tar.gz, .whl or .zip");
  }

 private:
  struct Free {
    void operator()(archive* it) const { archive_read_free(it); }
  };

  absl::Status Wrong(const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat("the package ", name_, " ", what));
  }

  absl::Status Take(archive_entry* entry) {
    const char* said = archive_entry_pathname(entry);
    const std::string path = said == nullptr ? "" : said;
    const auto type = archive_entry_filetype(entry);
    const std::string shown = OneLine(path, 200);
    if ((type != AE_IFREG && type != AE_IFDIR) || archive_entry_hardlink(entry) != nullptr) {
      return Wrong(absl::StrCat("holds ", shown, ", which is no plain file: pack it without links and devices"));
    }
    fs::path inside;
    int depth = 0;
    for (const fs::path& part : fs::path(path)) {
      if (part == "." || part.empty()) continue;
      if (part == ".." || part == "/" || ++depth > kMostFolders) {
        return Wrong(
            absl::StrCat("holds ", shown, ", which would lie outside its folder: pack it with relative names"));
      }
      if (depth > skipped_) inside /= part;
    }
    if (inside.empty()) return absl::OkStatus();
    if (type == AE_IFDIR) return MakeFolder(inside);
    // What an archive says of itself is believed if it is too much: a bomb is not unpacked first.
    if (archive_entry_size(entry) > kMostPackageBytes - bytes_) return TooLarge();
    return Write(inside);
  }

  absl::Status TooLarge() const { return Wrong(absl::StrCat("is larger than ", kMostPackageBytes, " bytes unpacked")); }

  absl::Status MakeFolder(const fs::path& inside) {
    if (!AddFolders(inside, &made_) && !inside.empty()) return absl::OkStatus();
    if (made_.size() > kMostPackageFolders)
      return Wrong(absl::StrCat("has more than ", kMostPackageFolders, " folders"));
    const fs::path path = folder_ / inside;
    std::error_code error;
    fs::create_directories(path, error);
    return error ? Wrong(absl::StrCat("cannot be unpacked: ", path.string(), ": ", error.message())) : absl::OkStatus();
  }

  absl::Status Write(const fs::path& inside) {
    if (const absl::Status status = MakeFolder(inside.parent_path()); !status.ok()) return status;
    const fs::path path = folder_ / inside;
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    char block[65536];
    la_ssize_t read = 0;
    while ((read = archive_read_data(archive_.get(), block, sizeof(block))) > 0) {
      bytes_ += read;
      if (bytes_ > kMostPackageBytes) return TooLarge();
      file.write(block, read);
    }
    file.close();
    if (read < 0) return Wrong("is damaged");
    return file.fail() ? Wrong(absl::StrCat("cannot be unpacked: the disk refuses ", path.string())) : absl::OkStatus();
  }

  std::unique_ptr<archive, Free> archive_{archive_read_new()};
  const std::string name_;
  const fs::path folder_;
  const int skipped_;
  bool opened_ = false;
  int files_ = 0;
  std::set<fs::path> made_;  // folders in folder_
  int64_t bytes_ = 0;
};

// Of an earlier run beside the code: what it learned, and its keys, are nothing for every worker.
bool IsJobFolder(const fs::path& folder) {
  std::error_code error;
  for (const char* sign : {"journal.a", "chief.json", kCodeFile}) {
    if (fs::exists(folder / sign, error)) return true;
  }
  return false;
}

// A secret belongs only where its role runs (docs/SECURITY.md).
bool IsLeftOut(const fs::path& path) {
  const std::string name = path.filename();
  return name == "__pycache__" || name.starts_with(".") || path.extension() == ".pyc" || path.extension() == ".secret";
}

// In the order of their names, and never the same folder twice.
absl::Status ListFiles(const fs::path& folder, int depth, std::vector<fs::path>* files) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) entries.push_back(*it);
  if (error || depth > kMostFolders) {
    return absl::InvalidArgumentError(absl::StrCat("cannot pack ", folder.string(), ": ",
                                                   error ? error.message() : "its folders lie too deep in each other"));
  }
  std::sort(entries.begin(), entries.end());
  for (const fs::directory_entry& entry : entries) {
    if (IsLeftOut(entry.path())) continue;
    if (entry.is_directory(error) && !entry.is_symlink(error)) {
      if (IsJobFolder(entry.path())) continue;
      if (const absl::Status status = ListFiles(entry.path(), depth + 1, files); !status.ok()) return status;
    } else if (entry.is_regular_file(error)) {
      files->push_back(entry.path());
    }
    if (files->size() > static_cast<size_t>(kMostPackageFiles)) {
      return absl::InvalidArgumentError(absl::StrCat("the package's folder ", folder.string(), " has more than ",
                                                     kMostPackageFiles, " files: name a folder with code alone"));
    }
  }
  return absl::OkStatus();
}

struct FileToPack {
  fs::path from;
  fs::path to;
  uintmax_t bytes = 0;
};

absl::StatusOr<std::vector<FileToPack>> ListParts(const std::vector<PackedPart>& parts) {
  std::vector<FileToPack> files;
  std::set<fs::path> folders;
  for (const auto& [from, to] : parts) {
    std::error_code error;
    std::vector<fs::path> found;
    if (fs::is_regular_file(from, error)) {
      files.push_back({from, to});
    } else if (const absl::Status status = ListFiles(from, 0, &found); !status.ok()) {
      return status;
    }
    for (const fs::path& file : found) files.push_back({file, fs::path(to) / file.lexically_relative(from)});
  }
  for (FileToPack& file : files) {
    std::error_code error;
    file.bytes = fs::file_size(file.from, error);
    if (error) {
      return absl::InvalidArgumentError(absl::StrCat("cannot read ", file.from.string(), ": ", error.message()));
    }
    AddFolders(file.to.parent_path(), &folders);
  }
  if (folders.size() > kMostPackageFolders) {  // else each host would refuse it
    return absl::InvalidArgumentError(absl::StrCat("the package's folder ", parts[0].from, " has more than ",
                                                   kMostPackageFolders, " folders: name a folder with code alone"));
  }
  return files;
}

// Names the files that are most to blame.
absl::Status TooLarge(const std::string& folder, std::vector<FileToPack> files) {
  constexpr size_t kNamed = 3;
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  std::vector<std::string> largest;
  for (size_t i = 0; i < std::min(kNamed, files.size()); ++i) {
    largest.push_back(
        absl::StrFormat("%s (%.1f MiB)", files[i].from.string(), static_cast<double>(files[i].bytes) / (1 << 20)));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the package's folder ", folder, " holds more than ", kMostUnpackedCode >> 20, " MiB, or than ",
      kMostCodeBytes >> 20, " MiB packed: name a folder with code alone, and keep data outside it. The largest files: ",
      absl::StrJoin(largest, ", ")));
}

}  // namespace

absl::Status UnpackPackage(const std::string& archive, const std::string& folder) {
  const absl::Status unpacked = Unpacker(archive, folder).Run();
  std::error_code ignored;
  if (!unpacked.ok()) fs::remove_all(folder, ignored);  // what is refused takes no room
  return unpacked;
}

absl::StatusOr<std::string> PackFolder(const std::string& folder, const std::string& prefix) {
  return PackParts({{folder, prefix}});
}

absl::StatusOr<std::string> PackParts(const std::vector<PackedPart>& parts) {
  const absl::StatusOr<std::vector<FileToPack>> files = ListParts(parts);
  if (!files.ok()) return files.status();
  const std::string folder = parts.empty() ? "" : parts[0].from;
  uintmax_t bytes = 0;
  for (const FileToPack& file : *files) bytes += std::min<uintmax_t>(file.bytes, UINTMAX_MAX - bytes);
  if (bytes > kMostUnpackedCode) return TooLarge(folder, *files);  // before any of it is read
  std::string packed(static_cast<size_t>(kMostCodeBytes), '\0');
  size_t used = 0;
  const std::unique_ptr<archive, int (*)(archive*)> out(archive_write_new(), archive_write_free);
  archive_write_add_filter_gzip(out.get());
  archive_write_set_format_pax_restricted(out.get());
  bool is_good = archive_write_set_options(out.get(), "!timestamp") == ARCHIVE_OK &&
                 archive_write_open_memory(out.get(), packed.data(), packed.size(), &used) == ARCHIVE_OK;
  for (size_t i = 0; is_good && i < files->size(); ++i) {
    const FileToPack& next = (*files)[i];
    std::ifstream file(next.from, std::ios::binary);
    if (!file) return absl::InvalidArgumentError(absl::StrCat("cannot read ", next.from.string()));
    const std::string content{std::istreambuf_iterator<char>(file), {}};
    const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(archive_entry_new(), archive_entry_free);
    archive_entry_set_pathname(entry.get(), next.to.c_str());
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), 0644);
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(content.size()));
    is_good = archive_write_header(out.get(), entry.get()) == ARCHIVE_OK &&
              archive_write_data(out.get(), content.data(), content.size()) >= 0;
  }
  if (!is_good || archive_write_close(out.get()) != ARCHIVE_OK) return TooLarge(folder, *files);
  packed.resize(used);
  return packed;
}

}  // namespace downpour
