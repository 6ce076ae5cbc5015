#include "tools/cli/python_packages.h"

#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "runtime/posix/package.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class PythonPackagesTest : public testing::Test {
 protected:
  // The files of what workers would get.
  std::set<std::string> Gathered(const PythonCode& code) {
    const absl::StatusOr<Payload> archive = GatherCode(code, scratch_.path());
    if (!archive.ok()) return {std::string(archive.status().message())};
    const std::string text(reinterpret_cast<const char*>(archive->data()), archive->size());
    fs::remove_all(scratch_.path() + "/unpacked");
    const std::string packed = scratch_.Write("gathered.tar.gz", text);
    EXPECT_TRUE(UnpackPackage(packed, scratch_.path() + "/unpacked").ok());
    std::set<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(scratch_.path() + "/unpacked")) {
      if (entry.is_regular_file()) files.insert(entry.path().lexically_relative(scratch_.path() + "/unpacked"));
    }
    return files;
  }
  std::string Refusal(const PythonCode& code) {
    return std::string(GatherCode(code, scratch_.path()).status().message());
  }

  // An sdist, or a .zip or a wheel by its name's ending.
  std::string Pack(const std::string& name, const std::map<std::string, std::string>& files) {
    const std::string path = folder_.path() + "/" + name;
    archive* out = archive_write_new();
    if (name.ends_with(".tar.gz")) {
      archive_write_add_filter_gzip(out);
      archive_write_set_format_ustar(out);
    } else {
      archive_write_set_format_zip(out);
    }
    archive_write_open_filename(out, path.c_str());
    for (const auto& [file, content] : files) {
      archive_entry* entry = archive_entry_new();
      archive_entry_set_pathname(entry, file.c_str());
      archive_entry_set_filetype(entry, AE_IFREG);
      archive_entry_set_perm(entry, 0644);
      archive_entry_set_size(entry, static_cast<la_int64_t>(content.size()));
      archive_write_header(out, entry);
      archive_write_data(out, content.data(), content.size());
      archive_entry_free(entry);
    }
    archive_write_free(out);
    return path;
  }

  ScratchFolder folder_, scratch_;
};

TEST_F(PythonPackagesTest, AFolderIsThePackageOrHoldsIt) {
  folder_.Write("trainer/task.py", "");
  folder_.Write("data.bin", "");
  EXPECT_THAT(Gathered({.package_path = folder_.path(), .module = "trainer.task"}),
              ElementsAre("data.bin", "trainer/task.py"));
  EXPECT_THAT(Gathered({.package_path = folder_.path() + "/trainer", .module = "trainer.task"}),
              ElementsAre("trainer/task.py"));
  EXPECT_THAT(Refusal({.package_path = folder_.path(), .module = "other.task"}), HasSubstr("needs other/ or other.py"));
  EXPECT_THAT(Refusal({.package_path = folder_.path() + "/none", .module = "trainer.task"}), HasSubstr("no folder"));
}

TEST_F(PythonPackagesTest, WhatAPackageNeedsMayStandBesideIt) {
  folder_.Write("trainer/task.py", "");
  folder_.Write("trainer/requirements.txt", "");
  folder_.Write("requirements.txt", "");
  folder_.Write("notes.txt", "");
  folder_.Write("common/__init__.py", "");
  folder_.Write("runs/one/log", "");
  const PythonCode code = {.package_path = folder_.path() + "/trainer", .module = "trainer.task"};
  EXPECT_THAT(Gathered(code), ElementsAre("requirements.txt", "trainer/requirements.txt", "trainer/task.py"));
  folder_.Write("setup.py", "");
  folder_.Write("README.md", "");
  EXPECT_THAT(Gathered(code), ElementsAre("README.md", "common/__init__.py", "requirements.txt", "setup.py",
                                          "trainer/requirements.txt", "trainer/task.py"));
}

TEST_F(PythonPackagesTest, AProjectMayHaveItsModuleElsewhere) {
  folder_.Write("src/trainer/task.py", "");
  folder_.Write("pyproject.toml", "");
  EXPECT_THAT(Gathered({.package_path = folder_.path(), .module = "trainer.task"}),
              ElementsAre("pyproject.toml", "src/trainer/task.py"));
}

TEST_F(PythonPackagesTest, TheSdistWithTheModuleIsImportedAndOthersAreInstalled) {
  const std::string common = Pack("common-1.0.tar.gz", {{"common-1.0/common.py", ""}, {"common-1.0/setup.py", ""}});
  const std::string trainer =
      Pack("trainer-1.0.tar.gz", {{"trainer-1.0/trainer/task.py", ""}, {"trainer-1.0/setup.py", ""}});
  const std::string wheel = Pack("deps-1.0-py3-none-any.whl", {{"deps.py", ""}});
  const PythonCode code = {.module = "trainer.task", .packages = {common, trainer, wheel}};
  EXPECT_THAT(
      Gathered(code),
      ElementsAre("downpour_packages/common-1.0.tar.gz/common.py", "downpour_packages/common-1.0.tar.gz/setup.py",
                  "downpour_packages/deps-1.0-py3-none-any.whl", "setup.py", "trainer/task.py"));
  EXPECT_FALSE(fs::exists(scratch_.path() + "/packages")) << "nothing is left of the way there";
  folder_.Write("own/trainer/task.py", "");
  PythonCode with_folder = code;
  with_folder.package_path = folder_.path() + "/own";
  EXPECT_THAT(Gathered(with_folder),
              testing::IsSupersetOf({"trainer/task.py", "downpour_packages/trainer-1.0.tar.gz/trainer/task.py"}));
}

TEST_F(PythonPackagesTest, AZippedSdistHasAFirstFolderToo) {
  const std::string zip = Pack("trainer-1.0.zip", {{"trainer-1.0/PKG-INFO", ""}, {"trainer-1.0/trainer/task.py", ""}});
  EXPECT_THAT(Gathered({.module = "trainer.task", .packages = {zip}}), ElementsAre("PKG-INFO", "trainer/task.py"));
}

TEST_F(PythonPackagesTest, TheSamePackagesMakeTheSameArchive) {
  const std::string one = Pack("trainer-1.0.tar.gz", {{"trainer-1.0/trainer/task.py", "x"}});
  const PythonCode code = {.module = "trainer.task", .packages = {one}};
  const auto text = [&] {
    const Payload archive = GatherCode(code, scratch_.path()).value();
    return std::string(reinterpret_cast<const char*>(archive.data()), archive.size());
  };
  const std::string before = text();
  Pack("trainer-1.0.tar.gz", {{"trainer-1.0/trainer/task.py", "x"}});  // at another time
  EXPECT_EQ(text(), before);
}

TEST_F(PythonPackagesTest, HostileArchivesAreRefusedAndLeaveNothing) {
  const PythonCode code = {.module = "trainer.task"};
  for (const char* name : {"bad-1.0.tar.gz", "bad-1.0-py3-none-any.whl"}) {
    PythonCode bad = code;
    bad.packages = {Pack(name, {{"bad-1.0/../../../stolen", "x"}})};
    EXPECT_THAT(Refusal(bad), HasSubstr("outside its folder")) << name;
    EXPECT_FALSE(fs::exists(scratch_.path() + "/packages"));
  }
  PythonCode twice = code;
  twice.packages = {Pack("a-1.0.tar.gz", {{"a-1.0/setup.py", ""}}), folder_.path() + "/./a-1.0.tar.gz"};
  EXPECT_THAT(Refusal(twice), HasSubstr("another package has the name a-1.0.tar.gz"));
  EXPECT_THAT(Refusal({.module = "t", .packages = {Pack("b-1.0.tar.gz", {{"b-1.0/b.py", ""}})}}),
              HasSubstr("it has no setup.py and no pyproject.toml"));
  EXPECT_THAT(Refusal({.module = "t", .packages = {folder_.path() + "/none.whl"}}), HasSubstr("there is no such file"));
  EXPECT_THAT(Refusal({.module = "t", .packages = {folder_.Write("x.whl", "no archive")}}), HasSubstr("x.whl"));
}

TEST_F(PythonPackagesTest, ACommaPartsNamesOrBelongsToOne) {
  const auto in = [](const std::string& given) { return PackagesIn(given); };
  EXPECT_THAT(in("a-1.0.tar.gz"), ElementsAre("a-1.0.tar.gz"));
  EXPECT_THAT(in("a.whl,gs://b/c.zip,d.tar.gz"), ElementsAre("a.whl", "gs://b/c.zip", "d.tar.gz"));
  EXPECT_THAT(in("gs://b/a,b-1.0.tar.gz,c.whl"), ElementsAre("gs://b/a,b-1.0.tar.gz", "c.whl"));
  EXPECT_THAT(in("a.whl,b.txt"), ElementsAre("a.whl", "b.txt")) << "which is refused by its name";
  EXPECT_THAT(in(""), ElementsAre(""));
  const std::string both = folder_.Write("a.whl,b.whl", "");
  EXPECT_THAT(in(both), ElementsAre(both)) << "there is a file of that name";
}

}  // namespace
}  // namespace downpour
