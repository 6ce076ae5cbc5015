#include "job/word_files.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "job/data_place.h"
#include "job/job_reader.h"
#include "job/yaml_tree.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr size_t kShown = 60;  // bytes of a word in a sentence

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

// Why a line is no word; empty: it is one.
std::string FaultOf(std::string_view word) {
  if (word.empty()) return "has no word; take the line away: a value that is missing is none";
  const std::string shown = absl::StrCat("'", OneLine(word, kShown), "'");
  if (!IsText(word)) {
    return absl::StrCat(shown,
                        " is not UTF-8, or has control characters; write the file as UTF-8 with LF behind a word");
  }
  if (IsBlank(word.front()) || IsBlank(word.back())) {
    return absl::StrCat(shown, " has blanks around it; take them away, or write the words into the job file");
  }
  return "";
}

// The words of `text`, as a list in the place of their file's path, which stands at `at`. The first line that is wrong
// is an error; then nothing.
YamlNode WordsIn(std::string_view text, const std::string& path, const YamlNode& at, const std::string& key,
                 JobErrors& errors) {
  YamlNode item = at, list = at;
  item.quoted = true;
  list.kind = YamlNode::Kind::kSequence;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::set<std::string_view> seen;
  for (size_t line = 1; !text.empty() || line == 1; ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.ends_with('\r')) word.remove_suffix(1);
    std::string fault = FaultOf(word);
    if (fault.empty() && !seen.insert(word).second) {
      fault = absl::StrCat("'", OneLine(word, kShown), "' stands there twice");
    }
    if (!fault.empty()) {
      errors.Add(at, key, absl::StrCat("line ", line, " of ", path, " ", fault));
      return {};
    }
    item.text = std::string(word);
    list.items.push_back(item);
  }
  return list;
}

// `words`: what may be a list or {file: PATH}, at `key`. `room`: bytes that the job's files may still have.
void PutWords(YamlNode* words, const std::string& key, const ReadNamedFile& read, size_t* room, JobErrors& errors) {
  if (words == nullptr || words->Is(YamlNode::Kind::kSequence)) return;
  if (!words->Is(YamlNode::Kind::kMap)) {
    errors.Add(*words, key, absl::StrCat("is ", Describe(*words), ", but must be a list of words, or {file: PATH}"));
    *words = YamlNode{};
    return;
  }
  MapReader reader(*words, key, errors);
  std::string path;
  const YamlNode* file = reader.Require("file");
  const bool named = file != nullptr && ReadText(*file, reader.PathOf("file"), errors, &path);
  reader.Finish();
  const YamlNode at = file == nullptr ? *words : *file;
  const std::string place = reader.PathOf("file");
  *words = YamlNode{};  // what is wrong is told, and is then as if it were absent
  if (!named) return;
  if (!SchemeOf(path).empty()) {
    return errors.Add(at, place,
                      absl::StrCat(path, " is an address; copy the file beside the job file, and name that"));
  }
  if (!read) {
    return errors.Add(at, place, absl::StrCat(path, " is a file, and none is read here"),
                      "send the job by downpour jobs submit, which reads it, or write the words in its place");
  }
  const absl::StatusOr<std::string> text = read(path, at.overridden);
  if (!text.ok()) return errors.Add(at, place, absl::StrCat(path, ": ", text.status().message()));
  if (text->size() > *room) {
    return errors.Add(at, place,
                      absl::StrCat(path, ": the words of a job have at most ", kMaxYamlTextBytes, " bytes together"),
                      "use hash: 100000 for some columns, or a key and a table");
  }
  *room -= text->size();
  *words = WordsIn(*text, path, at, place, errors);
}

}  // namespace

void PutWordsInPlaceOfFiles(YamlNode* data, const ReadNamedFile& read, JobErrors& errors) {
  if (data == nullptr || !data->Is(YamlNode::Kind::kMap)) return;
  size_t room = kMaxYamlTextBytes;
  if (YamlNode* columns = data->Find("columns"); columns != nullptr && columns->Is(YamlNode::Kind::kSequence)) {
    for (size_t i = 0; i < columns->items.size(); ++i) {
      if (!columns->items[i].Is(YamlNode::Kind::kMap)) continue;
      PutWords(columns->items[i].Find("vocabulary"), absl::StrCat("data.columns.", i, ".vocabulary"), read, &room,
               errors);
    }
  }
  if (YamlNode* label = data->Find("label"); label != nullptr && label->Is(YamlNode::Kind::kMap)) {
    PutWords(label->Find("classes"), "data.label.classes", read, &room, errors);
  }
}

}  // namespace downpour
