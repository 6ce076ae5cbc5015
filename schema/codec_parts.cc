#include "schema/codec_parts.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "schema/text.h"

namespace downpour {

flatbuffers::Offset<flatbuffers::String> Writer::Text(const std::string& text, size_t limit) {
  if (text.empty()) return 0;
  if (text.size() <= limit && IsText(text)) return fbb.CreateString(text);
  return fbb.CreateString(CleanText(text, limit));
}

flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>> Writer::Texts(
    const std::vector<std::string>& texts, size_t limit, size_t most) {
  CheckElements(texts.size(), most);
  std::vector<flatbuffers::Offset<flatbuffers::String>> offsets;
  offsets.reserve(texts.size());
  for (const std::string& text : texts) {
    offsets.push_back(fbb.CreateString(CleanText(text, limit)));
  }
  return fbb.CreateVector(offsets);
}

void Writer::CheckElements(size_t size, size_t most) {
  if (size > most) Exceed(absl::StrCat("a list has ", size, " elements, of at most ", most));
}

uint32_t Writer::Frame(const Payload& payload, size_t total) {
  payload_bytes_ += payload.size();
  if (payload.size() > kMaxFrameBytes) {
    Exceed(absl::StrCat("a payload has ", payload.size(), " bytes, of at most ", kMaxFrameBytes));
  }
  if (payload_bytes_ > total) Exceed(absl::StrCat("the payloads have more than ", total, " bytes together"));
  if (!payload.empty()) frames.push_back(payload);
  return static_cast<uint32_t>(payload.size());
}

flatbuffers::Offset<flatbuffers::Vector<uint32_t>> Writer::Frames(const std::vector<Payload>& payloads, size_t total) {
  std::vector<uint32_t> bytes;
  bytes.reserve(payloads.size());
  for (const Payload& payload : payloads) {
    if (!payload.empty()) bytes.push_back(Frame(payload, total));
  }
  return Vector(bytes);
}

void Reader::Fail(const std::string& field, const std::string& what) {
  if (error_.empty()) error_ = absl::StrCat(field, " ", what);
}

absl::Status Reader::Finish() {
  if (next_frame_ != frames_.size()) {
    Fail("the header", absl::StrCat("names ", next_frame_ - 1, " payloads, but ", frames_.size() - 1, " came"));
  }
  return error_.empty() ? absl::OkStatus() : absl::InvalidArgumentError(error_);
}

void Reader::CheckElements(size_t size, bool aligned, const char* field, size_t most) {
  if (size > most) Fail(field, absl::StrCat("has ", size, " elements, of at most ", most));
  if (!aligned) Fail(field, "is misaligned");
}

std::string Reader::Text(const flatbuffers::String* text, const char* field, size_t limit) {
  if (text == nullptr || !error_.empty()) return "";
  if (text->size() > std::min(limit, text_bytes_left_)) {
    Fail(field, absl::StrCat("has ", text->size(), " bytes, of at most ", std::min(limit, text_bytes_left_)));
    return "";
  }
  text_bytes_left_ -= text->size();
  if (!IsText({text->c_str(), text->size()})) Fail(field, "is no text: it holds control characters or is not UTF-8");
  return text->str();
}

std::vector<std::string> Reader::Texts(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* texts,
                                       const char* field, size_t limit, size_t most) {
  std::vector<std::string> copies;
  if (texts == nullptr) return copies;
  CheckElements(texts->size(), true, field, most);
  if (!error_.empty()) return copies;
  copies.reserve(texts->size());
  for (const flatbuffers::String* text : *texts) copies.push_back(Text(text, field, limit));
  return copies;
}

double Reader::Finite(double value, const char* field) {
  if (!std::isfinite(value)) Fail(field, "is not finite");
  return value;
}

Payload Reader::Frame(size_t bytes, size_t total) {
  if (bytes == 0 || !error_.empty()) return Payload();
  if (next_frame_ == frames_.size()) {
    Fail("the header", absl::StrCat("names more payloads than the ", frames_.size() - 1, " that came"));
    return Payload();
  }
  const Payload& frame = frames_[next_frame_];
  payload_bytes_ += frame.size();
  if (frame.size() != bytes) {
    Fail(absl::StrCat("payload ", next_frame_),
         absl::StrCat("has ", frame.size(), " bytes, not the ", bytes, " named"));
  } else if (frame.size() > kMaxFrameBytes) {
    Fail(absl::StrCat("payload ", next_frame_), absl::StrCat("has ", bytes, " bytes, of at most ", kMaxFrameBytes));
  } else if (payload_bytes_ > total) {
    Fail("the payloads", absl::StrCat("have more than ", total, " bytes together"));
  }
  ++next_frame_;
  return frame;
}

Payload Reader::NumberFrame(size_t bytes, size_t total) {
  if (bytes % sizeof(uint16_t) != 0) Fail(absl::StrCat("payload ", next_frame_), "is cut within a number");
  return Frame(bytes, total);
}

std::vector<Payload> Reader::Frames(const flatbuffers::Vector<uint32_t>* bytes, size_t total) {
  std::vector<Payload> payloads;
  for (const uint32_t n : Items(bytes, "block_bytes")) {
    if (n == 0) Fail("block_bytes", "names an empty block");
    payloads.push_back(Frame(n, total));
  }
  return payloads;
}

IntervalSet Reader::Intervals(absl::Span<const wire::Interval> intervals) {
  IntervalSet set;
  const wire::Interval* last = nullptr;
  for (const wire::Interval& i : intervals) {
    if (i.begin() >= i.end() || (last != nullptr && i.begin() <= last->end())) {
      Fail("finished", "is not a set of ascending, separate intervals");
      return set;
    }
    set.InsertRange(i.begin(), i.end());
    last = &i;
  }
  return set;
}

}  // namespace downpour
