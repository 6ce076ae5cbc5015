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

void TryDataset(const FilePair& files) {
  const absl::StatusOr<std::unique_ptr<Dataset>> data = OpenIdxDataset(files);
  if (!data.ok() || (*data)->size() == 0) return;
  std::vector<uint8_t> inputs(static_cast<size_t>((*data)->input_width()));
  int32_t label = 0;
  CHECK((*data)->ReadBatch({(*data)->size() - 1}, inputs.data(), &label).ok());
  CHECK(label < (*data)->classes());
  CHECK(absl::IsOutOfRange((*data)->ReadBatch({(*data)->size()}, inputs.data(), &label)));
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
