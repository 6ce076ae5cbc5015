// A source of bytes in memory, called "source".
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "data/byte_source.h"

namespace downpour {

class TextSource final : public ByteSource {
 public:
  explicit TextSource(std::string text) : text_(std::move(text)) {}
  const std::string& name() const override { return name_; }
  uint64_t size() const override { return text_.size(); }
  absl::StatusOr<size_t> Read(uint64_t offset, absl::Span<uint8_t> to) const override {
    const size_t from = std::min<uint64_t>(offset, text_.size()), count = std::min(to.size(), text_.size() - from);
    std::copy_n(text_.begin() + static_cast<ptrdiff_t>(from), count, to.begin());
    return count;
  }

 private:
  const std::string text_, name_ = "source";
};

}  // namespace downpour
