// FieldSurvey: what one field has in all records of a conversion, and what of that a format cannot hold.
//
//   FieldSurvey survey;
//   survey.Add(value, /*is_typed=*/true, place);   // of which a call gives FILE:LINE
//   const FieldType type = survey.type();
//
// Shapes: a file without types (CSV, libsvm, CIFAR) has a field of numbers where all of its words are plain ones, as
//   written by a program: no zero stands before another digit (00501 is no number), and a whole number fits 64 bits.
// Cost: of each kind of thing the place of the first is kept.
// Tests: tests/unit/tools/cli/data_convert_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "data/record_format.h"

namespace downpour {

// kMixed: no type holds all of its values as they are.
enum class FieldType { kNothing, kInteger, kUnsigned, kNumber, kTruth, kText, kMixed };

class FieldSurvey {
 public:
  // What may be seen of values, or of items of lists.
  enum Sight : uint32_t {
    kText = 1 << 0,
    kTruth = 1 << 1,
    kWhole = 1 << 2,     // from 0 to below 2^63, as the next two are by their size
    kNegative = 1 << 3,  // whole
    kHuge = 1 << 4,      // from 2^63 on, whole
    kFraction = 1 << 5,  // a number that is not said to be whole
    kWide = 1 << 6,      // whole, and a double does not hold it
    kList = 1 << 7,
    kMissingItem = 1 << 8,  // in a list
    kNoUtf8 = 1 << 9,
    kNull = 1 << 10,      // a text with a byte of 0
    kInfinite = 1 << 11,  // as the next two, a double
    kBeyondFloat = 1 << 12,
    kRounded = 1 << 13,  // of 2^24 or more, and a float does not hold it
  };
  using Place = absl::FunctionRef<std::string()>;

  void Add(const FieldValue& value, bool is_typed, Place place);

  FieldType type() const;
  bool has(Sight sight) const { return (typed_ | untyped_) & sight; }
  // Where the first one was; empty where there is none.
  std::string place(Sight sight) const;
  // What the value is in a field of type(). `is_typed`: as it was added.
  FieldValue Typed(const FieldValue& value, bool is_typed) const;

 private:
  void AddItem(const FieldItem& item, bool is_typed, Place place);
  void AddText(std::string_view text, bool is_typed, Place place);
  void AddNumber(double number, bool is_typed, Place place);
  void SeeFraction(double number, bool is_typed, Place place);
  void See(uint32_t sights, bool is_typed, Place place);

  uint32_t typed_ = 0, untyped_ = 0;
  std::map<uint32_t, std::string> places_;
};

}  // namespace downpour
