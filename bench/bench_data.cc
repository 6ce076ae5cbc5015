// How fast one thread turns CSV into columns, against a bare loop that tokenises and converts the same bytes.
//
//   bench_data [--runs N] [--mib N] [--python PYTHON]
//
// The bare loop has the bytes in memory, looks for separators and line ends, takes numbers by std::from_chars, and
// hashes words. It knows nothing of quotes, blanks, missing values or wrong records, and checks nothing.
//   index:  what a first start does: cut the file into records, with a checksum of each piece.
//   decode: what training does: a data set's batches in the order of the file, from the page cache, with checksums.
// With a Python that has them, pandas' C reader and pyarrow's CSV reader with one thread read the same file.
#include <glog/logging.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/bench_series.h"
#include "data/dataset.h"
#include "data/record_index.h"
#include "data/word_hash.h"
#include "runtime/prng.h"

namespace downpour {
namespace {

constexpr size_t kBatch = 1024;
constexpr int64_t kCategories = 1 << 20;

struct Case {
  const char* name;
  int integers, fractions, words;
  int fields() const { return integers + fractions + words; }
};
constexpr Case kCases[] = {
    {"13 integers, 26 words", 13, 0, 26}, {"40 fractions", 0, 40, 0}, {"6 integers, 8 words", 6, 0, 8}};

struct Text {
  std::string path;
  std::string bytes;
  uint64_t rows = 0;
};

Text Write(const Case& shape, uint64_t mib, const std::string& folder) {
  Text text{folder + "/data.csv", "label", 0};
  for (int i = 0; i < shape.fields(); ++i) absl::StrAppend(&text.bytes, ",f", i);
  text.bytes += "\n";
  Prng draw(1);
  for (; text.bytes.size() < mib << 20; ++text.rows) {
    absl::StrAppend(&text.bytes, draw.Below(2));
    for (int i = 0; i < shape.integers; ++i)
      absl::StrAppend(&text.bytes, ",", draw.Below(draw.Chance(0.7) ? 100 : 100'000));
    for (int i = 0; i < shape.fractions; ++i) absl::StrAppendFormat(&text.bytes, ",%.6f", draw.Uniform() * 20 - 10);
    for (int i = 0; i < shape.words; ++i) absl::StrAppendFormat(&text.bytes, ",%08x", draw.Below(uint64_t{1} << 32));
    text.bytes += "\n";
  }
  std::ofstream(text.path, std::ios::binary) << text.bytes;
  return text;
}

DataSpec SpecOf(const Case& shape) {
  DataSpec data;
  data.format = kCsvFormat;
  data.separator = ',';
  data.header = true;
  data.label.column = "label";
  for (int i = 0; i < shape.fields(); ++i) {
    ColumnSpec& column = data.columns.emplace_back();
    column.name = absl::StrCat("f", i);
    column.from = {column.name};
    if (i < shape.integers + shape.fractions) continue;
    column.kind = ColumnKind::kHash;
    column.hash = kCategories;
  }
  return data;
}

// Of processor time, since others may use the machine; all of it is one thread's.
template <class Run>
double Seconds(const Run& run) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  const double begin = now();
  run();
  return now() - begin;
}

// Columns of a batch, which is what the loop writes over and over.
double BareLoop(const Case& shape, const Text& text) {
  const int numbers = shape.integers + shape.fractions + 1;  // with the label
  std::vector<std::vector<float>> floats(numbers, std::vector<float>(kBatch));
  std::vector<std::vector<int64_t>> words(shape.words, std::vector<int64_t>(kBatch));
  return Seconds([&] {
    const char* at = text.bytes.data() + text.bytes.find('\n') + 1;
    const char* const end = text.bytes.data() + text.bytes.size();
    for (size_t row = 0; at < end; row = (row + 1) % kBatch) {
      const char* const line_end = static_cast<const char*>(std::memchr(at, '\n', static_cast<size_t>(end - at)));
      for (int field = 0; at <= line_end; ++field) {
        const char* stop = at;
        while (*stop != ',' && *stop != '\n') ++stop;
        if (field < numbers) {
          std::from_chars(at, stop, floats[field][row]);
        } else {
          words[field - numbers][row] = static_cast<int64_t>(HashWord({at, stop}) % kCategories);
        }
        at = stop + 1;
      }
    }
  });
}

double Decode(const Dataset& data) {
  std::vector<size_t> columns(data.columns().size());
  std::iota(columns.begin(), columns.end(), 0);
  std::vector<ColumnValues> values(columns.size());
  std::vector<uint64_t> ids;
  return Seconds([&] {
    for (uint64_t first = 0; first < data.size(); first += kBatch) {
      ids.resize(std::min<uint64_t>(kBatch, data.size() - first));
      std::iota(ids.begin(), ids.end(), first);
      CHECK(data.ReadBatch(ids, columns, absl::MakeSpan(values)).ok());
    }
  });
}

double Index(const DataSpec& data, const std::string& path) {
  const auto source = OpenFile(path).value();
  const auto file = OpenRecordFile(data, *source).value();
  return Seconds([&] { CHECK(ScanRecords(data.format, *source, *file).ok()); });
}

void Say(const char* what, const Text& text, const Series& seconds, const Series& bare) {
  const double median = seconds.Median();
  std::printf("  %-8s %8.0f MB/s %9.3f million rows/s   %.2f of the bare loop\n", what,
              static_cast<double>(text.bytes.size()) / median / 1e6, static_cast<double>(text.rows) / median / 1e6,
              bare.Median() / median);
  std::fflush(stdout);
}

void AskPython(const std::string& python, const Text& text) {
  const char* const code =
      "import sys, time\n"
      "def say(name, read):\n"
      "    begin = time.process_time(); rows = read(); spent = time.process_time() - begin\n"
      "    print(f'  {name:8} {BYTES / spent / 1e6:8.0f} MB/s {rows / spent / 1e6:9.3f} million rows/s')\n"
      "import os; BYTES = os.path.getsize(sys.argv[1])\n"
      "try:\n"
      "    import pandas; say('pandas', lambda: len(pandas.read_csv(sys.argv[1], engine='c')))\n"
      "except ImportError: print('  pandas is not there')\n"
      "try:\n"
      "    import pyarrow.csv as c\n"
      "    say('pyarrow', lambda: c.read_csv(sys.argv[1], read_options=c.ReadOptions(use_threads=False)).num_rows)\n"
      "except ImportError: print('  pyarrow is not there')\n";
  const std::string script = text.path + ".py";
  std::ofstream(script) << code;
  CHECK_EQ(std::system(absl::StrCat(python, " ", script, " ", text.path).c_str()), 0);
}

void Measure(const Case& shape, int runs, uint64_t mib, const std::string& python, const std::string& folder) {
  const Text text = Write(shape, mib, folder);
  const DataSpec data = SpecOf(shape);
  CHECK_EQ(OpenDataset(data, {"", "", {text.path}}).value()->size(), text.rows);
  Series bare, index, decode;
  for (int run = 0; run < runs; ++run) {
    bare.values.push_back(BareLoop(shape, text));
    index.values.push_back(Index(data, text.path));
    // Another one each time, since a data set keeps what it decoded last.
    decode.values.push_back(Decode(*OpenDataset(data, {"", "", {text.path}}).value()));
  }
  std::printf("%s, %.0f MB\n", shape.name, static_cast<double>(text.bytes.size()) / 1e6);
  Say("bare", text, bare, bare);
  Say("index", text, index, bare);
  Say("decode", text, decode, bare);
  if (!python.empty()) AskPython(python, text);
}

}  // namespace
}  // namespace downpour

int main(int argc, char** argv) {
  CLI::App app("How fast one thread turns CSV into columns, against a bare loop over the same bytes");
  int runs = 5;
  uint64_t mib = 200;
  std::string python;
  app.add_option("--runs", runs, "Measurements of each")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--mib", mib, "Size of the file")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--python", python, "Also what its pandas and pyarrow take");
  CLI11_PARSE(app, argc, argv);
  std::string folder = (std::filesystem::temp_directory_path() / "downpour_bench.XXXXXX").string();
  CHECK(mkdtemp(folder.data()) != nullptr);
  for (const downpour::Case& shape : downpour::kCases) {
    const std::string of_case = folder + "/" + std::to_string(shape.fields());
    std::filesystem::create_directory(of_case);
    downpour::Measure(shape, runs, mib, python, of_case);
  }
  std::filesystem::remove_all(folder);
}
