// What a string may be when it crosses a border: it will stand in JSON, in logs and on terminals.
//
// Tests: tests/unit/schema/text_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace downpour {

// Valid UTF-8 without control characters (C0, DEL and C1, which terminals obey as well), but for newline and tab.
bool IsText(std::string_view text);

// `text` with whatever is not text replaced by '?', cut before the first character that would end beyond `limit` bytes.
std::string CleanText(std::string_view text, size_t limit);

// Likewise with spaces for newlines and tabs: no words of a peer's may begin a line of their own.
std::string OneLine(std::string_view text, size_t limit);

// A file name of ours: 1 to 128 of [A-Za-z0-9_.-], not beginning with a dot. It names a file in one folder and nothing
// outside it.
bool IsPlainName(std::string_view name);

// How a job that ended goes on, as a command to type and as a sentence. `checkpoint` is the last one, in words; empty:
// there is none. `command` begins it again.
std::string CommandToGoOn(const std::string& checkpoint, const std::string& command);
std::string HowToGoOn(const std::string& checkpoint, const std::string& command);

// "1 lease", "2 leases", "2 batches".
std::string Counted(uint64_t n, const std::string& one);

// "a, b, c, d and 12 more", cleaned: of many names, in a sentence.
std::string SomeOf(const std::vector<std::string>& names);

// As a shell takes it for one word, in commands that people are told to type.
std::string ShellWord(const std::string& word);
std::string ShellCommand(const std::vector<std::string>& words);

}  // namespace downpour
