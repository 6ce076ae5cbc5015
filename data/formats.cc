#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "data/dataset.h"
#include "data/idx.h"

namespace downpour {
namespace {

// The formats of data files: each is one file of code, and one row here.
struct Format {
  const char* name;  // as data.format has it
  absl::StatusOr<std::unique_ptr<Dataset>> (*open)(const DataSpec& data, const SetFiles& files);
};
constexpr Format kFormats[] = {
    {kIdxFormat, [](const DataSpec&, const SetFiles& files) { return OpenIdxDataset(files); }}};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(const DataSpec& data, const SetFiles& files) {
  const auto found = std::find_if(std::begin(kFormats), std::end(kFormats),
                                  [&](const Format& one) { return data.format == one.name; });
  if (found != std::end(kFormats)) return found->open(data, files);
  const auto name = [](std::string* out, const Format& one) { out->append(one.name); };
  return absl::InvalidArgumentError(
      absl::StrCat("data.format: unknown format '", data.format, "'; known: ", absl::StrJoin(kFormats, ", ", name)));
}

}  // namespace downpour
