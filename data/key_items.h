// KeyItems: the keys that one field has in one record, of formats that have lists.
//
//   const KeyWidths widths = KeyWidthsOf(job.data);
//   std::vector<KeyItems> items = KeyItemsFor(widths, wanted);   // of each wanted field
//   if (items[0].has_keys()) items[0].Add(std::string_view("a"));
//   values[0] = items[0].value();
//
// Cost: at most one item more than the field's columns take is kept, however long a list is.
// Tests: tests/unit/data/key_columns_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "data/record_format.h"
#include "job/data_spec.h"

namespace downpour {

inline constexpr size_t kMostClassesOfExample = size_t{1} << 16;  // in a label's list, where some may stand twice

// ColumnSpec::numbers of a column that no job has: it is copied, not learned from. A list then comes whole as
// FieldItems, of one item too, each with the type that it has; what is missing in it is a std::monostate.
inline constexpr int64_t kWholeLists = INT64_MAX;

struct KeyWidth {
  size_t most = 0;               // keys
  bool keeps_all_words = false;  // of a label: NA and the like may be words of its classes
  bool is_copied = false;        // kWholeLists
};

// Of the fields that columns of keys read, crosses aside: how many keys the widest of these takes. So it is of a label
// whose lists are the classes of an example.
using KeyWidths = std::map<std::string, KeyWidth>;
KeyWidths KeyWidthsOf(const DataSpec& data);

class KeyItems {
 public:
  explicit KeyItems(KeyWidth width = {}) : width_(width) {}

  bool has_keys() const { return width_.most > 0; }  // whether some column reads keys from the field
  bool is_copied() const { return width_.is_copied; }
  void Clear() { items_.clear(); }
  // What stands for nothing is no key, unless all words are kept. One more than the most shows that there are too many.
  void Add(const FieldItem& item);
  FieldValue value() const;  // nothing, one, or FieldItems until the next Clear
  // Of a format that tells a list of one from that one.
  FieldValue list() const { return is_copied() && !items_.empty() ? FieldValue(FieldItems(items_)) : value(); }

 private:
  const KeyWidth width_;
  std::vector<FieldItem> items_;
};

// `value`, which is no list, as an item.
FieldItem ItemOf(const FieldValue& value);

std::vector<KeyItems> KeyItemsFor(const KeyWidths& widths, absl::Span<const std::string> wanted);

}  // namespace downpour
