#include "predict/predict_file.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "data/idx.h"
#include "data/open_source.h"
#include "data/record_format.h"
#include "data/record_scan.h"
#include "data/record_stream.h"
#include "data/unpacked.h"
#include "job/data_formats.h"
#include "predict/predict_json.h"
#include "predict/row_store.h"

namespace downpour {
namespace {

constexpr size_t kBlock = 256;  // rows
constexpr char kStdin[] = "-";

absl::StatusOr<std::unique_ptr<ByteSource>> OpenInput(const std::string& input) {
  return input == kStdin ? Spooled("stdin", STDIN_FILENO) : OpenSource(input);
}

std::string CsvWord(std::string_view word) {
  if (word.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(word);
  return absl::StrCat("\"", absl::StrReplaceAll(std::string(word), {{"\"", "\"\""}}), "\"");
}

std::string CsvNames(const Signature& signature) {
  std::string names;
  for (const SignatureOutput& output : signature.outputs) {
    for (int64_t i = 0; i < output.width; ++i) {
      absl::StrAppend(&names, names.empty() ? "" : ",", output.name, output.width > 1 ? absl::StrCat("_", i) : "");
    }
  }
  return names + "\n";
}

void AppendCsv(float number, std::string* text) {
  char digits[32];
  text->append(digits, std::to_chars(std::begin(digits), std::end(digits), number).ptr);
}
void AppendCsv(int64_t number, std::string* text) { absl::StrAppend(text, number); }
void AppendCsv(std::string_view word, std::string* text) { text->append(CsvWord(word)); }

void AppendCsvRow(const OutputBatch& answer, size_t row, std::string* text) {
  bool is_first = true;
  for (const OutputColumn& column : answer.columns) {
    const auto width = static_cast<size_t>(column.width);
    for (size_t i = row * width; i < (row + 1) * width; ++i) {
      if (!std::exchange(is_first, false)) text->push_back(',');
      std::visit([&](const auto& values) { AppendCsv(values[i], text); }, column.values);
    }
  }
}

// Of a batch of one row, which has a better place.
absl::Status WithoutRow(const absl::Status& status) {
  return absl::Status(status.code(), absl::StripPrefix(status.message(), "row 0: "));
}

// What is written of answers.
class Writer {
 public:
  Writer(const Predictor& predictor, bool as_csv, const std::function<absl::Status(std::string_view)>& take)
      : as_csv_(as_csv), take_(take), text_(as_csv ? CsvNames(predictor.signature()) : "") {}

  // Of one instance.
  absl::StatusOr<std::string> TextFor(const Predictor& predictor, std::string_view instance) const {
    if (!as_csv_) return PredictJsonLine(predictor, instance);
    const absl::StatusOr<OutputBatch> answer = PredictJsonInstance(predictor, instance);
    if (!answer.ok()) return answer.status();
    std::string text;
    AppendCsvRow(*answer, 0, &text);
    return text;
  }
  absl::Status WriteLine(std::string_view prediction) {
    text_.append(prediction).push_back('\n');
    ++rows_;
    return Flush();
  }

  absl::Status Write(const OutputBatch& answer) {
    for (size_t row = 0; row < answer.rows; ++row) {
      as_csv_ ? AppendCsvRow(answer, row, &text_) : AppendJsonRow(answer, row, &text_);
      text_.push_back('\n');
    }
    rows_ += answer.rows;
    return Flush();
  }
  absl::Status Flush() {
    absl::Status status = text_.empty() ? absl::OkStatus() : take_(text_);
    text_.clear();
    return status;
  }
  uint64_t rows() const { return rows_; }

 private:
  const bool as_csv_;
  const std::function<absl::Status(std::string_view)>& take_;
  std::string text_;
  uint64_t rows_ = 0;
};

// The block's answers. Of one that does not fit, the error of its first row, at that row's place.
absl::Status PredictBlock(const Predictor& predictor, const RowStore& store, absl::Span<const std::string> places,
                          Writer* writer) {
  const absl::StatusOr<OutputBatch> answer = predictor.Predict(store.batch());
  if (answer.ok()) return writer->Write(*answer);
  for (size_t row = 0; row < store.rows(); ++row) {
    const absl::Status one = predictor.Predict(store.row(row)).status();
    if (one.ok()) continue;
    return AtPlace(places[row], WithoutRow(one));
  }
  return answer.status();
}

// With the fields of files that lack the label, and maybe the weight, if these are.
absl::StatusOr<std::unique_ptr<RecordStream>> OpenRecords(const DataSpec& data, const ByteSource& source,
                                                          const std::vector<std::string>& wanted) {
  absl::StatusOr<std::unique_ptr<RecordStream>> stream = OpenRecordStream(data, source, wanted);
  DataSpec without = data;
  const auto try_without = [&](const std::vector<std::string>& fields) {
    const size_t before = without.fields.size();
    for (const std::string& field : fields) std::erase(without.fields, field);
    if (stream.ok() || without.fields.size() == before) return;
    absl::StatusOr<std::unique_ptr<RecordStream>> other = OpenRecordStream(without, source, wanted);
    if (other.ok()) stream = std::move(other);
  };
  try_without(data.label.fields());
  if (data.is_weighted()) try_without({data.weight});
  return stream;
}

absl::Status PredictRecords(const Predictor& predictor, const DataSpec& data, const std::string& input,
                            Writer* writer) {
  for (const SignatureInput& one : predictor.signature().inputs) {
    if (HasLists(data) || !one.is_list) continue;
    return absl::InvalidArgumentError(absl::StrCat("column '", one.name, "' has lists, and a field of ", data.format,
                                                   " has one value: give JSON lines, with --format jsonl"));
  }
  const absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenInput(input);
  if (!source.ok()) return source.status();
  std::vector<std::string> names;
  for (const SignatureInput& one : predictor.signature().inputs) names.push_back(one.name);
  const absl::StatusOr<std::unique_ptr<RecordStream>> stream = OpenRecords(data, **source, names);
  if (!stream.ok()) return stream.status();
  RowStore store(predictor.signature());
  std::vector<std::string> places;
  std::vector<FieldValue> values(names.size());
  for (;;) {
    absl::Status read;
    const absl::StatusOr<bool> more = (*stream)->Next(absl::MakeSpan(values), &read);
    if (!more.ok()) return more.status();
    if (store.rows() == kBlock || (!*more && store.rows() > 0)) {
      if (absl::Status status = PredictBlock(predictor, store, places, writer); !status.ok()) return status;
      store.Clear();
      places.clear();
    }
    if (!*more) return absl::OkStatus();
    places.push_back((*stream)->place());
    if (!read.ok()) return AtPlace(places.back(), read);
    store.AddRow();
    for (size_t i = 0; i < values.size(); ++i) store.at(i) = store.Kept(values[i]);
  }
}

absl::Status PredictInstances(const Predictor& predictor, const std::string& input, Writer* writer) {
  const absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenInput(input);
  if (!source.ok()) return source.status();
  const DataSpec lines{.format = kJsonFormat};
  const absl::StatusOr<std::unique_ptr<RecordFile>> file = OpenRecordFile(lines, **source);
  if (!file.ok()) return file.status();
  RecordScanner scanner(**source, **file);
  for (;;) {
    std::string_view line;
    const absl::StatusOr<bool> more = scanner.Next(&line);
    if (!more.ok()) return more.status();
    if (!*more) return absl::OkStatus();
    const absl::StatusOr<std::string> text = writer->TextFor(predictor, line);
    if (!text.ok()) {
      return AtPlace(RecordPlace((*source)->name(), scanner.offset(), scanner.line()), WithoutRow(text.status()));
    }
    if (absl::Status status = writer->WriteLine(*text); !status.ok()) return status;
  }
}

absl::Status PredictImages(const Predictor& predictor, const std::string& input, Writer* writer) {
  if (input == kStdin) return absl::InvalidArgumentError("a file of IDX cannot be stdin: name it by --input FILE");
  const absl::StatusOr<IdxArray> images = ReadIdx(input, 3);
  if (!images.ok()) return images.status();
  const size_t width = size_t{images->sizes[1]} * images->sizes[2];
  const Signature& signature = predictor.signature();
  if (signature.inputs.size() != 1 || static_cast<size_t>(signature.inputs.front().width) != width) {
    return absl::InvalidArgumentError(absl::StrCat(input, ": its images have ", width,
                                                   " numbers, which is not what the model takes: see --signature"));
  }
  std::vector<float> numbers;
  for (size_t first = 0; first < images->sizes[0]; first += kBlock) {
    const size_t rows = std::min<size_t>(kBlock, images->sizes[0] - first);
    const auto begin = images->elements.begin() + static_cast<ptrdiff_t>(first * width);
    numbers.assign(begin, begin + static_cast<ptrdiff_t>(rows * width));
    const absl::StatusOr<OutputBatch> answer = predictor.Predict(
        {rows, {{signature.inputs.front().name, static_cast<int64_t>(width), absl::MakeConstSpan(numbers)}}});
    absl::Status status = answer.ok() ? writer->Write(*answer) : answer.status();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint64_t> PredictFile(const Predictor& predictor, const PredictFileOptions& options,
                                     const std::function<absl::Status(std::string_view)>& take) {
  DataSpec data;
  const bool takes_any = predictor.instances() != nullptr;
  if (takes_any && (options.as_csv || (!options.format.empty() && options.format != kJsonFormat))) {
    return absl::InvalidArgumentError(
        "a model of Python code takes JSON lines, an instance each, and answers with JSON lines: leave out what names "
        "another format");
  }
  if (predictor.data() != nullptr) data = *predictor.data();
  if (predictor.data() == nullptr) data.format = kJsonFormat;
  const bool was_idx = data.format == kIdxFormat;
  if (!options.format.empty()) data.format = options.format;
  Writer writer(predictor, options.as_csv, take);
  absl::Status status;
  if (options.is_instances || takes_any) {
    status = PredictInstances(predictor, options.input, &writer);
  } else if (data.format == kIdxFormat) {
    status = PredictImages(predictor, options.input, &writer);
  } else if (was_idx) {
    status =
        absl::InvalidArgumentError("the model takes images: name a file of IDX, or --instances with their numbers");
  } else {
    status = PredictRecords(predictor, data, options.input, &writer);
  }
  if (status.ok()) status = writer.Flush();
  if (!status.ok()) return status;
  return writer.rows();
}

}  // namespace downpour
