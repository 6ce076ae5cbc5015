#include "predict/json_place.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/text.h"

namespace downpour {
namespace {

using Json = nlohmann::json;

constexpr size_t kShown = 40;  // bytes of a name
constexpr size_t kSaid = 160;  // bytes of what the parser says

// Walks through the text and keeps where it is.
class Walker final : public nlohmann::json_sax<Json> {
 public:
  explicit Walker(size_t most_levels) : most_levels_(most_levels) {}

  bool null() override { return Value(); }
  bool boolean(bool) override { return Value(); }
  bool number_integer(number_integer_t) override { return Value(); }
  bool number_unsigned(number_unsigned_t) override { return Value(); }
  bool number_float(number_float_t, const string_t& text) override {
    if (text.find_first_of(".eE") != string_t::npos) return Value();
    said_ = absl::StrCat(Place(), ": a whole number beyond 64 bits");
    return false;
  }
  bool string(string_t&) override { return Value(); }
  bool binary(binary_t&) override { return Value(); }
  bool start_object(std::size_t) override { return Enter(false); }
  bool start_array(std::size_t) override { return Enter(true); }
  bool key(string_t& name) override {
    levels_.back().name = OneLine(name, kShown);
    return true;
  }
  bool end_object() override { return Leave(); }
  bool end_array() override { return Leave(); }
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception& error) override {
    std::string why = error.what();  // [json.exception.parse_error.101] parse error at ...: what is wrong
    if (const size_t begin = why.find("] "); begin != std::string::npos) why.erase(0, begin + 2);
    said_ = absl::StrCat(Place(), " (byte ", byte, "): ", OneLine(why, kSaid));
    return false;
  }

  const std::string& said() const { return said_; }

 private:
  struct Level {
    bool is_array = false;
    size_t index = 0;
    std::string name = {};
  };

  bool Value() {
    if (!levels_.empty()) ++levels_.back().index;
    return true;
  }
  bool Enter(bool is_array) {
    if (levels_.size() == most_levels_) {
      said_ = absl::StrCat(Place(), ": more than ", most_levels_, " levels of lists and objects in each other");
      return false;
    }
    levels_.push_back({is_array});
    return true;
  }
  bool Leave() {
    levels_.pop_back();
    return Value();
  }
  std::string Place() const {
    std::string place;
    for (const Level& level : levels_) {
      if (level.is_array) {
        absl::StrAppend(&place, "[", level.index, "]");
      } else if (!level.name.empty()) {
        absl::StrAppend(&place, place.empty() ? "" : ".", level.name);
      }
    }
    return place.empty() ? "the text" : place;
  }

  const size_t most_levels_;
  std::vector<Level> levels_;
  std::string said_;
};

}  // namespace

std::string WhereJsonFails(std::string_view text, size_t most_levels) {
  Walker walker(most_levels);
  Json::sax_parse(text, &walker);
  return walker.said().empty() ? "a number or a text that JSON does not allow" : walker.said();
}

}  // namespace downpour
