#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cluster/human_units.h"
#include "cluster/output_options.h"
#include "cluster/text_table.h"
#include "data/byte_source.h"
#include "data/open_indexed_file.h"
#include "data/open_source.h"
#include "data/record_format.h"
#include "data/set_files.h"
#include "job/data_formats.h"
#include "job/job_names.h"
#include "schema/text.h"
#include "tools/cli/data_convert.h"
#include "tools/cli/data_job.h"
#include "tools/cli/data_rows.h"
#include "tools/cli/data_split.h"
#include "tools/cli/data_stats.h"
#include "tools/cli/record_stats.h"
#include "tools/cli/verbs.h"
#include "tools/digits.h"

namespace downpour {
namespace {

using nlohmann::ordered_json;

constexpr size_t kWidestCell = 32;  // characters

struct DigitsOptions {
  std::string out;
  uint64_t seed = 1;
  bool hard = false;
};

struct FileOptions {
  std::string file;
  std::vector<std::string> files;  // of index
  std::string format = kAuto;
  std::string separator = kAuto;
  std::string header = kAuto;
  int64_t records = 10;
  std::string label, eval, out;
  std::vector<double> shares = {80, 20};
  uint64_t seed = 1;
  bool as_json = false;
  std::string to;  // of convert
  uint64_t records_per_file = 0, skip = 0;
};

int WriteDigits(const DigitsOptions& options, Streams streams) {
  const absl::Status status =
      WriteDigits(options.out, options.seed, options.hard ? Difficulty::kHard : Difficulty::kUsual);
  if (!status.ok()) return Complain(streams, "data digits", std::string(status.message()), kExitFailed);
  streams.out << options.out << "\n";
  return kExitDone;
}

char SeparatorOf(const FileOptions& options) { return options.separator == "tab" ? '\t' : options.separator.front(); }

// Which format a file has: what is said, or what it looks like.
absl::StatusOr<std::string> FormatOf(const FileOptions& options, const ByteSource& source) {
  const bool is_as_csv = options.separator != kAuto || options.header != kAuto;
  if (is_as_csv && options.format != kAuto && options.format != kCsvFormat) {
    return absl::InvalidArgumentError("--separator and --header are for files of CSV, not of " + options.format);
  }
  if (options.format != kAuto) return options.format;
  return is_as_csv ? std::string(kCsvFormat) : GuessRecordFormat(source);
}

absl::StatusOr<DataSpec> SpecOf(const FileOptions& options, const ByteSource& source) {
  const absl::StatusOr<std::string> format = FormatOf(options, source);
  if (!format.ok()) return format.status();
  DataSpec data;
  data.format = *format;
  if (options.separator != kAuto) data.separator = SeparatorOf(options);
  if (options.header != kAuto) data.header = options.header == "yes";
  return data;
}

absl::StatusOr<DataSpec> SpecOf(const FileOptions& options, const std::string& path) {
  const absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenFile(path);
  return source.ok() ? SpecOf(options, **source) : source.status();
}

int IndexFiles(const FileOptions& options, Streams streams) {
  const absl::StatusOr<std::vector<std::string>> paths = ExpandFiles(options.files);
  if (!paths.ok()) return Complain(streams, "data index", std::string(paths.status().message()), kExitFailed);
  for (const std::string& path : *paths) {
    const absl::StatusOr<DataSpec> data = SpecOf(options, path);
    const auto file = data.ok() ? OpenIndexedFile(*data, path, true) : data.status();
    const absl::Status written = file.ok() ? (*file)->WriteIndex() : file.status();
    if (!written.ok()) return Complain(streams, "data index", std::string(written.message()), kExitFailed);
    streams.out << path << kIndexSuffix << ": " << Counted((*file)->records(), "record") << "\n";
  }
  return kExitDone;
}

int SplitFile(const FileOptions& options, Streams streams) {
  const absl::StatusOr<DataSpec> data = SpecOf(options, options.file);
  const auto sets =
      data.ok() ? SplitRecords(*data, options.file, options.out, options.shares, options.seed) : data.status();
  if (!sets.ok()) return Complain(streams, "data split", std::string(sets.status().message()), kExitFailed);
  for (const SplitSet& set : *sets) {
    streams.out << set.path << ": " << Counted(set.records, "record") << "\n";
  }
  return kExitDone;
}

void NoteLeftOut(const char* verb, const BadRecords& bad, bool has_more_fields, Streams streams) {
  if (has_more_fields) {
    streams.err << "downpour " << verb << ": more than " << kMostShownFields << " fields; the first are shown\n";
  }
  if (bad.count == 0) return;
  streams.err << "downpour " << verb << ": " << Counted(bad.count, "record") << " left out, the first at "
              << Printable(bad.first) << "\n";
}

// What convert writes: a format, and how it is packed.
std::map<std::string, std::pair<std::string, Packing>> WrittenFormats() {
  std::map<std::string, std::pair<std::string, Packing>> all;
  for (const std::string format : {kCsvFormat, kJsonFormat, kTfRecordFormat}) {
    all[format] = {format, Packing::kNone};
    all[format + ".gz"] = {format, Packing::kGzip};
    all[format + ".zst"] = {format, Packing::kZstd};
  }
  return all;
}

int ConvertFiles(const FileOptions& options, Streams streams) {
  const auto [format, packing] = WrittenFormats().at(options.to);
  const absl::StatusOr<Converted> converted =
      ConvertRecords({.sources = options.files,
                      .folder = options.out,
                      .format = format,
                      .packing = packing,
                      .records_per_file = options.records_per_file,
                      .skip = options.skip,
                      .spec_of = [&](const ByteSource& source) { return SpecOf(options, source); }});
  if (!converted.ok()) return Complain(streams, "data convert", std::string(converted.status().message()), kExitFailed);
  for (const std::string& note : converted->notes) streams.err << "downpour data convert: " << note << "\n";
  NoteLeftOut("data convert", converted->bad, false, streams);
  for (const ConvertedPart& part : converted->parts) {
    streams.out << part.path << ": " << Counted(part.records, "record") << "\n";
  }
  return kExitDone;
}

struct OpenedFile {
  std::unique_ptr<ByteSource> source;
  std::string format;
  CsvDialect dialect;  // of csv
};

absl::StatusOr<OpenedFile> Open(const FileOptions& options) {
  absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenSource(options.file);
  if (!source.ok()) return source.status();
  const absl::StatusOr<std::string> format = FormatOf(options, **source);
  if (!format.ok()) return format.status();
  if (*format != kCsvFormat) return OpenedFile{*std::move(source), *format, {}};
  const std::optional<char> separator = options.separator == kAuto ? std::nullopt : std::optional(SeparatorOf(options));
  absl::StatusOr<CsvDialect> dialect = GuessCsvDialect(**source, separator);
  if (!dialect.ok()) return dialect.status();
  if (dialect->fields == 0) return absl::InvalidArgumentError(options.file + " has no records");
  if (options.header != kAuto) dialect->has_header = options.header == "yes";
  return OpenedFile{*std::move(source), *format, *dialect};
}

std::string Cell(const std::string& text) {
  std::string cell = Printable(text, kWidestCell);
  return cell.empty() ? "-" : cell;
}

std::string FormatWords(const OpenedFile& file) {
  if (file.format != kCsvFormat) return file.format;
  const CsvDialect& dialect = file.dialect;
  static const std::map<char, std::string> kWords = {
      {',', "commas"}, {';', "semicolons"}, {'\t', "tabs"}, {'|', "bars"}};
  const auto word = kWords.find(dialect.separator);
  return absl::StrCat("fields between ", word == kWords.end() ? std::string(1, dialect.separator) : word->second,
                      dialect.has_header ? ", names in the first record" : ", no names");
}

// A file's bytes may be no UTF-8.
void SayJson(const ordered_json& said, Streams streams) {
  streams.out << said.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << "\n";
}

absl::Status ShowHead(const FileOptions& options, const OpenedFile& file, Streams streams) {
  const auto records = static_cast<uint64_t>(options.records);
  absl::StatusOr<TableHead> head = file.format == kCsvFormat ? HeadOf(*file.source, file.dialect, records)
                                                             : RecordHeadOf(file.format, *file.source, records);
  if (!head.ok()) return head.status();
  NoteLeftOut("data head", head->bad, head->has_more_fields, streams);
  if (options.as_json) {
    SayJson({{"columns", head->names}, {"rows", head->rows}}, streams);
    return absl::OkStatus();
  }
  std::vector<std::vector<std::string>> table = std::move(head->rows);
  table.insert(table.begin(), std::move(head->names));
  for (std::vector<std::string>& row : table) std::transform(row.begin(), row.end(), row.begin(), Cell);
  streams.out << TextTable(table, table.front().size(), table.front().size());
  return absl::OkStatus();
}

// The value that is there most often; of equals the first in the order of text.
const std::pair<const std::string, uint64_t>* MostFrequent(const ColumnStats& column) {
  const auto most = std::max_element(column.distinct().begin(), column.distinct().end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == column.distinct().end() ? nullptr : &*most;
}

ordered_json JsonOf(const std::string& name, const ColumnStats& column) {
  ordered_json json = {{"name", name}, {"type", column.type()}, {"missing", column.missing()}};
  json["distinct"] = column.distinct().size();
  json["moreDistinct"] = column.has_more();
  if (column.has_numbers()) json["min"] = column.least(), json["max"] = column.most(), json["mean"] = column.mean();
  const auto* most = MostFrequent(column);
  if (most != nullptr && !column.has_more()) json["mostFrequent"] = most->first, json["frequency"] = most->second;
  return json;
}

std::vector<std::string> RowOf(const std::string& name, const ColumnStats& column) {
  const auto number = [&](double value) { return column.has_numbers() ? absl::StrFormat("%.6g", value) : "-"; };
  const auto* most = MostFrequent(column);
  const bool is_known = most != nullptr && !column.has_more();
  return {Cell(name),
          Cell(column.type()),
          is_known ? Cell(most->first) : "-",
          is_known ? HumanCount(static_cast<double>(most->second)) : "-",
          HumanCount(static_cast<double>(column.missing())),
          absl::StrCat(column.has_more() ? "> " : "", HumanCount(static_cast<double>(column.distinct().size()))),
          number(column.least()),
          number(column.most()),
          number(column.mean())};
}

absl::Status ShowStats(const FileOptions& options, const OpenedFile& file, Streams streams) {
  const absl::StatusOr<TableStats> stats =
      file.format == kCsvFormat ? StatsOf(*file.source, file.dialect) : RecordStatsOf(file.format, *file.source);
  if (!stats.ok()) return stats.status();
  NoteLeftOut("data stats", stats->bad, stats->has_more_fields, streams);
  if (options.as_json) {
    ordered_json columns = ordered_json::array();
    for (size_t i = 0; i < stats->names.size(); ++i) columns.push_back(JsonOf(stats->names[i], stats->columns[i]));
    ordered_json said = {{"format", file.format}, {"rows", stats->rows}, {"badRecords", stats->bad.count}};
    if (file.format == kCsvFormat) {
      said["separator"] = std::string(1, file.dialect.separator);
      said["header"] = file.dialect.has_header;
    }
    said["columns"] = columns;
    SayJson(said, streams);
    return absl::OkStatus();
  }
  std::vector<std::vector<std::string>> rows = {
      {"column", "type", "most frequent", "count", "missing", "distinct", "min", "max", "mean"}};
  for (size_t i = 0; i < stats->names.size(); ++i) rows.push_back(RowOf(stats->names[i], stats->columns[i]));
  streams.out << HumanCount(static_cast<double>(stats->rows)) << " rows; " << FormatWords(file) << "\n\n"
              << TextTable(rows, 3, 8);
  return absl::OkStatus();
}

absl::Status ShowJob(const FileOptions& options, const OpenedFile& file, Streams streams) {
  if (file.format != kCsvFormat) {
    return absl::InvalidArgumentError(absl::StrCat(options.file, " is ", file.format,
                                                   ", and a job file is written for CSV only: docs/DATA.md says what "
                                                   "stands in one"));
  }
  const absl::StatusOr<TableStats> stats = StatsOf(*file.source, file.dialect);
  if (!stats.ok()) return stats.status();
  NoteLeftOut("data job", stats->bad, stats->has_more_fields, streams);
  const absl::StatusOr<std::string> job =
      JobOn(*stats, file.dialect, {.train = options.file, .eval = options.eval, .label = options.label});
  if (job.ok()) streams.out << *job;
  return job.status();
}

using ShowData = absl::Status (*)(const FileOptions& options, const OpenedFile& file, Streams streams);

int ShowFile(const FileOptions& options, const std::string& verb, ShowData show, Streams streams) {
  const absl::StatusOr<OpenedFile> file = Open(options);
  const absl::Status shown = file.ok() ? show(options, *file, streams) : file.status();
  return shown.ok() ? kExitDone : Complain(streams, verb, std::string(shown.message()), kExitFailed);
}

void AddDialectOptions(CLI::App& app, FileOptions* options) {
  app.add_option("--format", options->format, "By default what the file looks like")
      ->check(CLI::IsMember({std::string(kAuto), std::string(kCsvFormat), std::string(kJsonFormat),
                             std::string(kLibsvmFormat), std::string(kTfRecordFormat), std::string(kParquetFormat),
                             std::string(kCriteoFormat), std::string(kCifar10Format), std::string(kCifar100Format)}))
      ->capture_default_str();
  app.add_option("--separator", options->separator, "Of CSV: auto, tab, or one character")
      ->check([](const std::string& text) {
        const bool is_good = text == kAuto || text == "tab" || (text.size() == 1 && text != "\"" && text != " ");
        return is_good ? "" : "must be auto, tab, or one character that is neither a quote nor a blank";
      })
      ->capture_default_str();
  app.add_option("--header", options->header, "Of CSV: whether the first record has the columns' names")
      ->check(CLI::IsMember({kAuto, "yes", "no"}))
      ->capture_default_str();
}

void AddFileOptions(CLI::App& app, FileOptions* options) {
  app.add_option("FILE", options->file, "CSV, JSON lines, libsvm or TFRecord, gzipped or not; or Parquet")->required();
  AddDialectOptions(app, options);
}

std::function<int()> SetUpData(CLI::App& app, Streams streams) {
  auto digits = std::make_shared<DigitsOptions>();
  auto file = std::make_shared<FileOptions>();
  CLI::App* draw = app.add_subcommand("digits", "Draw 60,000 + 10,000 images of digits as IDX files");
  draw->add_option("--out", digits->out, "Folder for four files and the job.yaml that trains on them; made if need be")
      ->required();
  draw->add_option("--seed", digits->seed, "Another seed draws another set; the same one the same bytes")
      ->capture_default_str();
  draw->add_flag("--hard", digits->hard, "Faint and bent, on strong noise: the sample model stays below 90 %");
  CLI::App* head = app.add_subcommand("head", "Show the first records of a file");
  AddFileOptions(*head, file.get());
  head->add_option("-n,--records", file->records, "How many")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
  CLI::App* stats = app.add_subcommand("stats", "Show types, counts, missing values and ranges of a file's columns");
  AddFileOptions(*stats, file.get());
  for (CLI::App* shown : {head, stats}) AddFormatOption(*shown, "How to show it", &file->as_json);
  CLI::App* job = app.add_subcommand("job", "Write a job file that trains on a CSV file, to begin with");
  AddFileOptions(*job, file.get());
  job->add_option("--label", file->label, "The column that is learned")->required();
  job->add_option("--eval", file->eval, "Another file of the same columns, by which the training is judged");
  CLI::App* index = app.add_subcommand("index", "Write beside files where their records lie, for quick starts");
  index->add_option("FILE", file->files, "As others take it; patterns may be in quotes")->required();
  AddDialectOptions(*index, file.get());
  CLI::App* split = app.add_subcommand("split", "Cut a file into sets by a hash of each record");
  AddFileOptions(*split, file.get());
  split->add_option("--out", file->out, "Folder for train, eval and test; made if need be")->required();
  split->add_option("--shares", file->shares, "Of train, eval and, if there are three, test")
      ->delimiter(',')
      ->expected(2, kMostSets)
      ->capture_default_str();
  split->add_option("--seed", file->seed, "Another seed cuts otherwise; the same one the same")->capture_default_str();
  CLI::App* convert = app.add_subcommand("convert", "Write the records of files in another format");
  convert->add_option("FILE", file->files, "As others take it; patterns and manifests are lists of files")->required();
  AddDialectOptions(*convert, file.get());
  std::vector<std::string> written;
  for (const auto& [name, format] : WrittenFormats()) written.push_back(name);
  convert->add_option("--to", file->to, "The format that is written, and .gz or .zst to pack it")
      ->required()
      ->check(CLI::IsMember(written));
  convert->add_option("--out", file->out, "Folder for part-00000 and so on; made if need be")->required();
  convert->add_option("--records-per-file", file->records_per_file, "At most; by default all are in one file")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 62));
  convert->add_option("--skip", file->skip, "How many records that cannot be read may be left out")
      ->capture_default_str();
  CLI::App* rows = app.add_subcommand("rows", "Answer another program with rows by their numbers (data_rows.h)");
  app.require_subcommand(1);
  return [=]() -> int {
    if (rows->parsed()) return AnswerRows(std::cin, streams.out);
    if (draw->parsed()) return WriteDigits(*digits, streams);
    if (index->parsed()) return IndexFiles(*file, streams);
    if (split->parsed()) return SplitFile(*file, streams);
    if (convert->parsed()) return ConvertFiles(*file, streams);
    if (job->parsed()) return ShowFile(*file, "data job", &ShowJob, streams);
    return head->parsed() ? ShowFile(*file, "data head", &ShowHead, streams)
                          : ShowFile(*file, "data stats", &ShowStats, streams);
  };
}

}  // namespace

const Verb kDataVerb = {"data", "Look at data files, or draw a data set, so that nothing need be downloaded",
                        "  downpour data digits --out digits\n"
                        "  downpour data stats adult.data\n"
                        "  downpour data job adult.data --label c14 > job.yaml\n"
                        "  downpour data index 'train/*.csv'\n"
                        "  downpour data split people.csv --out sets --shares 80,20\n"
                        "  downpour data convert 'day-*.csv' --to tfrecord.gz --out records --records-per-file 100000\n"
                        "  downpour data head train.csv.gz -n 5 -o json\n",
                        "0 done, 1 it cannot be read or written", SetUpData};

}  // namespace downpour
