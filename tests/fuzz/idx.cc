// Two files, images and labels, as frames: a data set that opens holds what its headers claim.
#include "data/idx.h"

#include <glog/logging.h>
#include <sys/mman.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/posix/fd.h"
#include "tests/fuzz/frames.h"
#include "tests/fuzz/target.h"

namespace downpour {
namespace {

class MemoryFile {
 public:
  explicit MemoryFile(const Payload& bytes) : fd_(memfd_create("idx", MFD_CLOEXEC)) {
    CHECK(write(fd_.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  std::string path() const { return absl::StrCat("/proc/self/fd/", fd_.get()); }

 private:
  const UniqueFd fd_;
};

void TryArray(const std::string& path, size_t dimensions) {
  const absl::StatusOr<IdxArray> array = ReadIdx(path, dimensions);
  if (!array.ok()) return;
  const absl::StatusOr<std::vector<uint32_t>> sizes = ReadIdxSizes(path, dimensions);
  CHECK(sizes.ok() && *sizes == array->sizes);
  size_t elements = 1;
  for (const uint32_t size : array->sizes) elements *= size;
  CHECK_EQ(array->elements.size(), elements);
}

void TryDataset(const SetFiles& files) {
  const absl::StatusOr<std::unique_ptr<Dataset>> data = OpenIdxDataset(files);
  if (!data.ok() || (*data)->size() == 0) return;
  std::vector<ColumnValues> values((*data)->columns().size());
  const auto read = [&](uint64_t id) { return (*data)->ReadBatch({id}, {0, 1}, absl::MakeSpan(values)); };
  CHECK(read((*data)->size() - 1).ok());
  CHECK(std::get<std::vector<uint8_t>>(values[0]).size() == static_cast<size_t>((*data)->columns()[0].width));
  CHECK(std::get<std::vector<int64_t>>(values[1])[0] < static_cast<int64_t>(CountLabels(**data, 1)->size()));
  CHECK(absl::IsOutOfRange(read((*data)->size())));
}

}  // namespace
}  // namespace downpour

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace downpour;
  std::vector<Payload> frames = SplitFrames(data, size);
  frames.resize(2);
  const MemoryFile images(frames[0]), labels(frames[1]);
  TryArray(images.path(), 3);
  TryArray(labels.path(), 1);
  TryDataset({images.path(), labels.path()});
  return 0;
}
