#include "service/package.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schema/text.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

constexpr int kMostFolders = 32;

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
    return type == AE_IFDIR ? MakeFolder(folder_ / inside) : Write(folder_ / inside);
  }

  absl::Status MakeFolder(const fs::path& path) const {
    std::error_code error;
    fs::create_directories(path, error);
    return error ? Wrong(absl::StrCat("cannot be unpacked: ", path.string(), ": ", error.message())) : absl::OkStatus();
  }

  absl::Status Write(const fs::path& path) {
    if (const absl::Status status = MakeFolder(path.parent_path()); !status.ok()) return status;
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    char block[65536];
    la_ssize_t read = 0;
    while ((read = archive_read_data(archive_.get(), block, sizeof(block))) > 0) {
      bytes_ += read;
      if (bytes_ > kMostPackageBytes)
        return Wrong(absl::StrCat("is larger than ", kMostPackageBytes, " bytes unpacked"));
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
  int64_t bytes_ = 0;
};

}  // namespace

absl::Status UnpackPackage(const std::string& archive, const std::string& folder) {
  return Unpacker(archive, folder).Run();
}

absl::StatusOr<std::string> PackFolder(const std::string& folder, const std::string& prefix) {
  constexpr size_t kMostPacked = size_t{64} << 20;
  std::string packed(kMostPacked, '\0');
  size_t used = 0;
  const std::unique_ptr<archive, int (*)(archive*)> out(archive_write_new(), archive_write_free);
  archive_write_add_filter_gzip(out.get());
  archive_write_set_format_pax_restricted(out.get());
  bool is_good = archive_write_open_memory(out.get(), packed.data(), packed.size(), &used) == ARCHIVE_OK;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; is_good && !error && it != end; it.increment(error)) {
    if (it->is_symlink() || !it->is_regular_file() || it->path().extension() == ".pyc") continue;
    std::ifstream file(it->path(), std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(file), {}};
    const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(archive_entry_new(), archive_entry_free);
    archive_entry_set_pathname(entry.get(), (fs::path(prefix) / it->path().lexically_relative(folder)).c_str());
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), 0644);
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(content.size()));
    is_good = archive_write_header(out.get(), entry.get()) == ARCHIVE_OK &&
              archive_write_data(out.get(), content.data(), content.size()) >= 0;
  }
  is_good = is_good && !error && archive_write_close(out.get()) == ARCHIVE_OK;
  if (!is_good)
    return absl::InvalidArgumentError(absl::StrCat("cannot pack ", folder, ": is it a folder of at most 64 MiB?"));
  packed.resize(used);
  return packed;
}

}  // namespace downpour
