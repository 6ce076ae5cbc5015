#include "runtime/posix/package.h"

#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Packed {
  std::string path, content;
  std::string link = {};  // a symbolic one
  std::string hard = {};
};

class PackageTest : public testing::Test {
 protected:
  std::string Pack(const std::vector<Packed>& files, const std::string& name = "t-1.0.tar.gz") {
    const std::string path = folder_.path() + "/" + name;
    archive* out = archive_write_new();
    archive_write_add_filter_gzip(out);
    archive_write_set_format_ustar(out);
    archive_write_open_filename(out, path.c_str());
    for (const Packed& file : files) {
      archive_entry* entry = archive_entry_new();
      archive_entry_set_pathname(entry, file.path.c_str());
      archive_entry_set_filetype(entry, file.link.empty() ? AE_IFREG : AE_IFLNK);
      if (!file.link.empty()) archive_entry_set_symlink(entry, file.link.c_str());
      if (!file.hard.empty()) archive_entry_set_hardlink(entry, file.hard.c_str());
      archive_entry_set_perm(entry, 0644);
      archive_entry_set_size(entry, static_cast<la_int64_t>(file.content.size()));
      archive_write_header(out, entry);
      archive_write_data(out, file.content.data(), file.content.size());
      archive_entry_free(entry);
    }
    archive_write_free(out);
    return path;
  }
  std::string Refusal(const std::string& archive) {
    const absl::Status status = UnpackPackage(archive, Target());
    EXPECT_FALSE(!status.ok() && fs::exists(Target())) << "what is refused takes no room";
    return std::string(status.message());
  }
  std::string Target() const { return folder_.path() + "/deep/er/package"; }
  std::string Read(const std::string& name) const {
    std::ifstream file(Target() + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  ScratchFolder folder_;
};

TEST_F(PackageTest, IsLaidOutForImportWithoutItsFirstFolder) {
  ASSERT_TRUE(UnpackPackage(Pack({{"t-1.0/setup.py", "x"}, {"./t-1.0/t/task.py", "print(1)"}}), Target()).ok());
  EXPECT_EQ(Read("t/task.py"), "print(1)");
  EXPECT_EQ(Read("setup.py"), "x");
}

TEST_F(PackageTest, WhatWouldLeaveTheFolderIsRefused) {
  for (const char* path : {"t/../../x", "/etc/x", "../x", "t/a/../../../../x"}) {
    EXPECT_THAT(Refusal(Pack({{path, "x"}})), HasSubstr("outside its folder")) << path;
  }
  EXPECT_FALSE(fs::exists(folder_.path() + "/deep/x"));
  EXPECT_FALSE(fs::exists(folder_.path() + "/deep/er/x"));
}

// Few files may lie in very many folders, each of which every host would have to make.
TEST_F(PackageTest, TooManyFoldersAreRefusedWhereTheyArePackedAndUnpacked) {
  const auto chain = [](size_t number) {
    std::string path = "t";
    for (int depth = 0; depth < 25; ++depth) absl::StrAppend(&path, "/", number);
    return path;
  };
  std::vector<Packed> files;
  for (size_t i = 0; i < kMostPackageFolders / 25; ++i) files.push_back({chain(i) + "/f.py", "x"});
  EXPECT_EQ(Refusal(Pack(files)), "") << "as many as there may be";
  for (const Packed& file : files) ASSERT_TRUE(fs::exists(Target() + file.path.substr(1)));
  files.push_back({"t/one/more.py", "x"});
  EXPECT_THAT(Refusal(Pack(files)), HasSubstr("has more than 5000 folders"));

  const std::string named = folder_.path() + "/named";
  for (const Packed& file : files) {
    fs::create_directories(named + "/" + fs::path(file.path).parent_path().string());
    std::ofstream(named + "/" + file.path) << file.content;
  }
  EXPECT_THAT(PackFolder(named, "package-0").status().message(),
              HasSubstr("named has more than 5000 folders: name a folder with code alone"));
}

TEST_F(PackageTest, LinksAreRefused) {
  EXPECT_THAT(Refusal(Pack({{.path = "t/a", .content = "", .link = "/etc"}, {"t/a/x", "x"}})), HasSubstr("plain file"));
  EXPECT_THAT(Refusal(Pack({{"t/b", "x"}, {.path = "t/a", .content = "", .hard = "/etc/passwd"}})),
              HasSubstr("plain file"));
}

TEST_F(PackageTest, CountsAndDepthsHaveBounds) {
  std::vector<Packed> many;
  for (int i = 0; i <= kMostPackageFiles; ++i) many.push_back({absl::StrCat("t/", i), ""});
  EXPECT_THAT(Refusal(Pack(many)), HasSubstr("more than"));
  std::string deep = "t";
  for (int i = 0; i < 40; ++i) deep += "/a";
  EXPECT_THAT(Refusal(Pack({{deep, ""}})), HasSubstr("outside"));
}

// As `--package-path .` finds data beside the code. All of it is holes: to read it would take a day.
TEST_F(PackageTest, DataThatIsTooLargeIsNotReadAndNamed) {
  const std::string folder = folder_.path() + "/large";
  for (const auto& [name, bytes] : {std::pair("data/a.npy", uint64_t{1} << 40),
                                    {"data/b.npy", uint64_t{3} << 40},
                                    {"trainer/task.py", uint64_t{1} << 10},
                                    {"c.npy", uint64_t{2} << 40}}) {
    fs::resize_file(folder_.Write(std::string("large/") + name, "x"), bytes);
  }
  const std::string said(PackFolder(folder, "t").status().message());
  EXPECT_THAT(said, HasSubstr("more than 256 MiB, or than 64 MiB packed: name a folder with code alone"));
  EXPECT_THAT(said, HasSubstr(absl::StrCat("The largest files: ", folder, "/data/b.npy (3145728.0 MiB), ", folder,
                                           "/c.npy (2097152.0 MiB), ", folder, "/data/a.npy (1048576.0 MiB)")));
}

TEST_F(PackageTest, NorDoFilesOfAPackageThatIsEachSmallEnough) {
  for (int i = 0; i < 5; ++i) fs::resize_file(folder_.Write(absl::StrCat("many/", i), "x"), uint64_t{60} << 20);
  EXPECT_THAT(std::string(PackFolder(folder_.path() + "/many", "t").status().message()),
              HasSubstr("The largest files: "));
}

TEST_F(PackageTest, WhatIsNoArchiveIsRefused) {
  EXPECT_THAT(Refusal(folder_.Write("x.tar.gz", "no archive at all")), HasSubstr("x.tar.gz"));
  EXPECT_THAT(Refusal(folder_.path() + "/none.tar.gz"), HasSubstr("none.tar.gz"));
  std::mt19937 random(1);
  std::string noise(200'000, ' ');
  for (char& c : noise) c = static_cast<char>(random());
  const std::string whole = Pack({{"t/a", noise}});
  fs::resize_file(whole, fs::file_size(whole) / 2);
  EXPECT_THAT(Refusal(whole), HasSubstr("damaged"));
}

// As `--package-path .` finds them in a folder where jobs were run before.
TEST_F(PackageTest, JobFoldersAndKeysAreNotPacked) {
  const fs::path code = folder_.path() + "/project";
  for (const char* file : {"trainer/task.py", "runs/a/journal.a", "runs/a/keys/chief.secret", "runs/b/chief.json",
                           "runs/c/python/code.tar.gz", "keys/worker.secret", "keys/worker.public"}) {
    fs::create_directories((code / file).parent_path());
    std::ofstream(code / file) << "x";
  }
  const std::string archive = folder_.Write("code.tar.gz", PackFolder(code, "code").value());
  const fs::path unpacked = folder_.path() + "/unpacked";
  ASSERT_TRUE(UnpackPackage(archive, unpacked).ok());
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(unpacked)) {
    if (entry.is_regular_file()) found.push_back(entry.path().lexically_relative(unpacked));
  }
  EXPECT_THAT(found, testing::UnorderedElementsAre("trainer/task.py", "keys/worker.public"));
}

}  // namespace
}  // namespace downpour
