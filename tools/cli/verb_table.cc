#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "checkpoint/table_reader.h"
#include "cluster/human_units.h"
#include "cluster/output_options.h"
#include "cluster/text_table.h"
#include "data/columns.h"
#include "schema/text.h"
#include "tools/cli/checkpoint_option.h"
#include "tools/cli/table_delta.h"
#include "tools/cli/table_export.h"
#include "tools/cli/table_stats.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

struct TableOptions {
  CheckpointOption checkpoint;
  bool json = false;
  std::string table;
  std::vector<std::string> keys;
  bool are_texts = false;
  std::string format;  // empty: as the file's name ends
  std::string out;
  std::string since;  // TERM-N
};

struct WantedRow {
  std::string word;  // as it was typed
  uint64_t key = 0;
  bool is_born = false;
  uint32_t pushes = 0;  // of a key that is counted, and has no row yet
  std::vector<float> values = {};
};

// The chosen checkpoint, if its job has tables.
std::optional<Checkpoint> OpenWithTables(const TableOptions& options, const std::string& verb, Streams streams) {
  std::optional<Checkpoint> checkpoint = OpenChosen(options.checkpoint, verb, streams);
  if (checkpoint && checkpoint->job.model.tables.empty()) {
    Complain(streams, verb, absl::StrCat("the job of ", checkpoint->path, " has no tables"), kExitFailed);
    return std::nullopt;
  }
  return checkpoint;
}

// The table's place in the job.
std::optional<uint64_t> FindTable(const JobSpec& job, const std::string& name, const std::string& verb,
                                  Streams streams) {
  const std::vector<ModelTable>& tables = job.model.tables;
  const auto found = std::find_if(tables.begin(), tables.end(), [&](const ModelTable& t) { return t.name == name; });
  if (found != tables.end()) return static_cast<uint64_t>(found - tables.begin());
  const std::string names =
      absl::StrJoin(tables, ", ", [](std::string* out, const ModelTable& t) { out->append(t.name); });
  Complain(streams, verb, absl::StrCat("there is no table ", name, "; the job has ", names), kExitFailed);
  return std::nullopt;
}

// As a column of keys takes the word.
absl::StatusOr<uint64_t> KeyOf(const std::string& word, bool is_text) {
  if (is_text) return static_cast<uint64_t>(KeyOfHash(HashWord(word)));
  int64_t key;
  uint64_t large;
  if (absl::SimpleAtoi(word, &key) && key != kNoKey) return static_cast<uint64_t>(key);
  if (absl::SimpleAtoi(word, &large) && static_cast<int64_t>(large) != kNoKey) return large;
  return absl::InvalidArgumentError(absl::StrCat(
      word, " is no key, which is a whole number of 64 bits; --text looks up words of a column with key: text"));
}

// Looks only into the buckets in which the keys fall.
absl::Status FindRows(const Checkpoint& checkpoint, uint64_t table, std::vector<WantedRow>* rows) {
  std::map<uint32_t, std::multimap<uint64_t, WantedRow*>> by_bucket;
  for (WantedRow& row : *rows) {
    by_bucket[BucketOf(table, row.key, checkpoint.grid.buckets)].emplace(row.key, &row);
  }
  for (const auto& [bucket, wanted] : by_bucket) {
    const auto for_each = [&wanted = wanted](uint64_t key, const auto& use) {
      const auto [begin, end] = wanted.equal_range(key);
      for (auto row = begin; row != end; ++row) use(*row->second);
    };
    const auto take = [&](const TableSpec& spec, const TablePart& part) {
      if (spec.id != table) return absl::OkStatus();
      for (uint32_t i = 0; i < part.header.rows; ++i) {
        for_each(part.Row(i).key, [&](WantedRow& row) {
          row.is_born = true;
          ReadValues(ShapeOf(spec), part.Content(i), row.values.data());
        });
      }
      for (uint32_t i = 0; i < part.header.counts; ++i) {
        for_each(part.Count(i).key, [&](WantedRow& row) { row.pushes = part.Count(i).count; });
      }
      return absl::OkStatus();
    };
    if (absl::Status status = ReadTableParts(checkpoint, bucket, take); !status.ok()) return status;
  }
  return absl::OkStatus();
}

std::string RowsJson(const Checkpoint& checkpoint, const std::string& table, const std::vector<WantedRow>& rows,
                     bool are_texts) {
  nlohmann::json list = nlohmann::json::array();
  for (const WantedRow& row : rows) {
    nlohmann::json json = {{"key", static_cast<int64_t>(row.key)}, {"born", row.is_born}, {"values", row.values}};
    if (are_texts) json["text"] = row.word;
    if (row.pushes > 0) json["pushesCounted"] = row.pushes;
    list.push_back(std::move(json));
  }
  const nlohmann::json all = {
      {"checkpoint", ToString(checkpoint.manifest.round)}, {"table", table}, {"rows", std::move(list)}};
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string RowsText(const std::vector<WantedRow>& rows, bool are_texts) {
  std::string text;
  for (const WantedRow& row : rows) {
    const auto key = static_cast<int64_t>(row.key);
    std::string head = are_texts ? absl::StrCat(Printable(row.word), " (key ", key, ")") : absl::StrCat(key);
    if (!row.is_born) {
      absl::StrAppend(&head, ", has no row and would begin with");
      if (row.pushes > 0)
        head = absl::StrCat(head, " this; ", row.pushes, row.pushes == 1 ? " push" : " pushes", " counted");
    }
    const auto shown = [](std::string* out, float value) { absl::StrAppendFormat(out, "%.6g", value); };
    absl::StrAppend(&text, head, ": ", absl::StrJoin(row.values, " ", shown), "\n");
  }
  return text;
}

bool IsCsv(const TableOptions& options) {
  return options.format.empty() ? options.out.ends_with(".csv") : options.format == "csv";
}

int ShowTables(const TableOptions& options, Streams streams) {
  const std::optional<Checkpoint> checkpoint = OpenWithTables(options, "table stats", streams);
  if (!checkpoint) return kExitFailed;
  const absl::StatusOr<std::vector<RowStats>> stats = StatsOfTables(*checkpoint);
  if (!stats.ok()) return Complain(streams, "table stats", std::string(stats.status().message()), kExitFailed);
  streams.out << (options.json ? StatsJson(*checkpoint, *stats) : StatsTable(*checkpoint, *stats));
  return kExitDone;
}

int GetRows(const TableOptions& options, Streams streams) {
  const std::optional<Checkpoint> checkpoint = OpenWithTables(options, "table get", streams);
  if (!checkpoint) return kExitFailed;
  const std::optional<uint64_t> table = FindTable(checkpoint->job, options.table, "table get", streams);
  if (!table) return kExitFailed;
  const TableSpec spec = TablesOf(checkpoint->job)[*table];
  std::vector<WantedRow> rows;
  for (const std::string& word : options.keys) {
    const absl::StatusOr<uint64_t> key = KeyOf(word, options.are_texts);
    if (!key.ok()) return Complain(streams, "table get", std::string(key.status().message()), kExitBadCommandLine);
    rows.push_back({.word = word, .key = *key, .values = std::vector<float>(spec.width)});
    InitialRow(spec, *key, rows.back().values.data());
  }
  if (const absl::Status status = FindRows(*checkpoint, *table, &rows); !status.ok()) {
    return Complain(streams, "table get", std::string(status.message()), kExitFailed);
  }
  streams.out << (options.json ? RowsJson(*checkpoint, options.table, rows, options.are_texts)
                               : RowsText(rows, options.are_texts));
  const bool any = std::any_of(rows.begin(), rows.end(), [](const WantedRow& row) { return row.is_born; });
  return any ? kExitDone : kExitFailed;
}

int ExportRows(const TableOptions& options, Streams streams) {
  const std::optional<Checkpoint> checkpoint = OpenWithTables(options, "table export", streams);
  if (!checkpoint) return kExitFailed;
  const std::optional<uint64_t> table = FindTable(checkpoint->job, options.table, "table export", streams);
  if (!table) return kExitFailed;
  const auto write = IsCsv(options) ? ExportTableAsCsv : ExportTableAsSafetensors;
  const absl::StatusOr<uint64_t> rows = write(*checkpoint, *table, options.out);
  if (!rows.ok()) return Complain(streams, "table export", std::string(rows.status().message()), kExitFailed);
  streams.err << "exported " << Counted(*rows, "row") << " of " << options.table << " from " << checkpoint->path
              << "\n";
  streams.out << options.out << "\n";
  return kExitDone;
}

// The checkpoint that --since names, in the same folder.
std::optional<Checkpoint> OpenEarlier(const TableOptions& options, Round before, const std::string& verb,
                                      Streams streams) {
  const absl::StatusOr<Round> round = ParseRound(options.since);
  absl::StatusOr<Checkpoint> checkpoint =
      round.ok() ? OpenCheckpoint(options.checkpoint.job_dir, *round) : absl::StatusOr<Checkpoint>(round.status());
  if (checkpoint.ok() && *round < before) return *std::move(checkpoint);
  if (checkpoint.ok()) {
    Complain(streams, verb, absl::StrCat("--since ", options.since, " is not before ", ToString(before)), kExitFailed);
    return std::nullopt;
  }
  const std::string remedy = absl::IsNotFound(checkpoint.status())
                                 ? "; a job keeps as many as checkpoint.keep says, and checkpoint list names them"
                                 : "";
  Complain(streams, verb, absl::StrCat("--since: ", std::string(checkpoint.status().message()), remedy), kExitFailed);
  return std::nullopt;
}

int ShowDelta(const TableOptions& options, Streams streams) {
  const std::optional<Checkpoint> after = OpenWithTables(options, "table diff", streams);
  const std::optional<Checkpoint> before =
      after ? OpenEarlier(options, after->manifest.round, "table diff", streams) : std::nullopt;
  if (!before) return kExitFailed;
  const auto deltas = CompareTables(*before, *after);
  if (!deltas.ok()) return Complain(streams, "table diff", std::string(deltas.status().message()), kExitFailed);
  streams.out << (options.json ? DeltasJson(*before, *after, *deltas) : DeltasTable(*after, *deltas));
  return kExitDone;
}

int ExportDelta(const TableOptions& options, Streams streams) {
  const std::optional<Checkpoint> after = OpenWithTables(options, "table delta", streams);
  const std::optional<Checkpoint> before =
      after ? OpenEarlier(options, after->manifest.round, "table delta", streams) : std::nullopt;
  if (!before) return kExitFailed;
  const std::optional<uint64_t> table = FindTable(after->job, options.table, "table delta", streams);
  if (!table) return kExitFailed;
  const DeltaFormat format = IsCsv(options) ? DeltaFormat::kCsv : DeltaFormat::kSafetensors;
  const absl::StatusOr<TableDelta> delta = WriteDelta(*before, *after, *table, format, options.out);
  if (!delta.ok()) return Complain(streams, "table delta", std::string(delta.status().message()), kExitFailed);
  streams.err << "wrote " << Counted(delta->born + delta->changed, "row") << " of " << options.table << ", "
              << delta->born << " of them new, and " << Counted(delta->gone, "key") << " whose row is gone, from "
              << before->path << " to " << after->path << "\n";
  streams.out << options.out << "\n";
  return kExitDone;
}

std::function<int()> SetUpTable(CLI::App& app, Streams streams) {
  auto options = std::make_shared<TableOptions>();
  const auto add = [&](const char* name, const char* summary, bool of_one) {
    CLI::App* verb = app.add_subcommand(name, summary);
    AddCheckpointOption(*verb, &options->checkpoint);
    if (of_one) verb->add_option("--table", options->table, "Its name in the job")->required()->type_name("NAME");
    return verb;
  };
  CLI::App* stats = add("stats", "Of each table its rows, their bytes and norms, and keys without a row", false);
  AddFormatOption(*stats, "table, or json as docs/TABLES.md has it", &options->json);
  CLI::App* get = add("get", "The values of some rows", true);
  get->add_option("keys", options->keys, "Their keys; behind -- if one is below 0")->required()->type_name("KEY...");
  get->add_flag("--text", options->are_texts, "They are words, as a column with key: text has them");
  AddFormatOption(*get, "table, or json as docs/TABLES.md has it", &options->json);
  const auto add_file = [&](CLI::App* verb) {
    verb->add_option("--format", options->format, "By default csv where --out ends with .csv, else safetensors")
        ->check(CLI::IsMember({"safetensors", "csv"}));
    verb->add_option("--out", options->out, "The file to write; replaced in one piece")->required()->type_name("FILE");
  };
  const auto add_since = [&](CLI::App* verb) {
    verb->add_option("--since", options->since, "An earlier checkpoint of the folder")->required()->type_name("TERM-N");
  };
  add_file(add("export", "Write all rows of a table for other programs", true));
  CLI::App* diff = add("diff", "Of each table how many rows came, changed and went since a checkpoint", false);
  add_since(diff);
  AddFormatOption(*diff, "table, or json as docs/TABLES.md has it", &options->json);
  CLI::App* delta =
      add("delta", "Write the rows of a table that changed since a checkpoint, and the keys that went", true);
  add_since(delta);
  add_file(delta);
  app.require_subcommand(1);
  return [=] {
    return stats->parsed()   ? ShowTables(*options, streams)
           : get->parsed()   ? GetRows(*options, streams)
           : diff->parsed()  ? ShowDelta(*options, streams)
           : delta->parsed() ? ExportDelta(*options, streams)
                             : ExportRows(*options, streams);
  };
}

}  // namespace

const Verb kTableVerb = {"table", "Look into the tables of a checkpoint, or write their rows for other programs",
                         "  downpour table stats --job-dir runs/first\n"
                         "  downpour table get --job-dir runs/first --table users 17 4711\n"
                         "  downpour table get --job-dir runs/first --table items --text \"blue shoes\" -o json\n"
                         "  downpour table export --job-dir runs/first --table users --out users.safetensors\n"
                         "  downpour table export --job-dir runs/first --table users --format csv --out users.csv\n"
                         "  downpour table diff --job-dir runs/first --since 1-4\n"
                         "  downpour table delta --job-dir runs/first --since 1-4 --table users --out changes.csv "
                         "--format csv\n",
                         "0 done, 1 there is no valid checkpoint, no such table, none of the rows, or the file cannot "
                         "be written",
                         SetUpTable};

}  // namespace downpour
