#include "data/files/file_form.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "data/files/byte_source.h"

namespace foretime::data {
namespace {

using namespace std::string_view_literals;

constexpr size_t kStartBytes = size_t{16} << 10;
constexpr size_t kZipName = 30;  // place of a name in the header of a zip's entry

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }
bool contains_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return contains(text, part); });
}
bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> starts) {
  return std::ranges::any_of(starts, [&](std::string_view start) { return text.starts_with(start); });
}

std::string_view take_line(std::string_view& text) {
  const auto line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
}

std::string outside_quotes(std::string_view line) {
  std::string outside;
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') quoted = !quoted;
    if (!quoted) outside += c;
  }
  return outside;
}

/// The start of a file.
struct Start {
  std::string_view bytes;     // decompressed bytes of gzip
  bool gzip = false;          // the file is gzip
  std::string_view text;      // first text after byte-order mark, blank lines and comments (#); empty: no text
  std::string_view key;       // the first key of a JSON object
  std::string_view zip_name;  // the first entry of a zip archive

  Start(std::string_view first_bytes, bool is_gzip) : bytes(first_bytes), gzip(is_gzip) {
    if (starts_with_any(bytes, {"PK\3\4", "PK\5\6"}) && bytes.size() > kZipName)
      zip_name = bytes.substr(kZipName, static_cast<uint8_t>(bytes[26]) | size_t{static_cast<uint8_t>(bytes[27])} << 8);
    if (contains(bytes, "\0"sv)) return;
    text = bytes;
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
    for (auto rest = text; !rest.empty(); text = rest) {
      const auto line = take_line(rest);
      if (line.find_first_not_of(" \t\r\n") != std::string_view::npos && !line.starts_with('#')) break;
    }
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(" \t")));
    if (text.starts_with('{')) {
      key = text.substr(std::min(text.size(), text.find_first_not_of(" \t\r\n", 1)));
      key = key.starts_with('"') ? key.substr(1, key.find('"', 1) - 1) : "";
    }
  }

  /// A JSON list that begins with a number, as "[0, [[…".
  bool is_numbered_list() const {
    std::string packed;
    for (const char c : text.substr(0, 64))
      if (c != ' ' && (c < '\t' || c > '\r')) packed += c;
    const auto end = packed.find_first_not_of("0123456789", 1);
    return packed.starts_with('[') && end > 1 && end != std::string::npos && packed.substr(end).starts_with(",[[");
  }
  /// A JSON list of two texts, the first of which is a number: "["123", "eyJ…".
  bool is_hashed_list() const {
    const auto end = text.find_first_not_of("0123456789", 2);
    return text.starts_with("[\"") && end > 2 && end != std::string_view::npos && text.substr(end).starts_with("\",");
  }
  /// Two lines with as many delimiters.
  bool is_table() const {
    auto rest = text;
    const auto header = take_line(rest), row = take_line(rest);
    const char delimiter = delimiter_of(header);
    const auto columns = std::ranges::count(outside_quotes(header), delimiter);
    return columns > 0 && columns == std::ranges::count(outside_quotes(row), delimiter) &&
           !starts_with_any(header, {"{", "["});
  }
};

struct KnownForm {
  FileForm form;
  const char* name;
  const char* way;  // advice for such a file
  bool (*recognises)(const Start& start);
};

constexpr const char* kUnpack = "unpack it first";
constexpr const char* kAsProto = "have XLA dump binary protobuf: XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_as_proto'";
constexpr const char* kAsTable =
    "write a CSV with a row a configuration, which foretime data pack-table packs (docs/how-to/rank-a-table.md)";
constexpr const char* kTakenAsIs = "foretime train, rank, evaluate and data pack take it as it is";

/// The first that recognises a file says what it is.
constexpr KnownForm kForms[] = {
    {FileForm::foreign, "an empty file", "was it copied completely?", [](const Start& s) { return s.bytes.empty(); }},
    {FileForm::foreign, "gzip of an archive or of a packed data set", kUnpack,
     [](const Start& s) {
       return s.gzip && (starts_with_any(s.bytes, {"PK\3\4", "PK\5\6",
                                                   "\x89"
                                                   "FTPACK\n"}) ||
                         s.bytes.substr(std::min<size_t>(s.bytes.size(), 257)).starts_with("ustar"));
     }},
    {FileForm::packed, "a packed data set", kTakenAsIs,
     [](const Start& s) {
       return s.bytes.starts_with(
           "\x89"
           "FTPACK\n");
     }},
    {FileForm::npz, "a .npz archive", kTakenAsIs, [](const Start& s) { return s.zip_name.ends_with(".npy"); }},
    {FileForm::foreign, "an Excel workbook", "save it as CSV, which foretime data pack-table packs",
     [](const Start& s) { return s.zip_name == "[Content_Types].xml"; }},
    {FileForm::foreign, "a zip archive without NumPy's arrays (.npz)",
     "unpack it; if it is a model (torch.save, TorchScript), give a data file instead",
     [](const Start& s) {
       return starts_with_any(s.bytes, {"PK\3\4", "PK\5\6"});
     }},
    {FileForm::bundle, "a bundle (a model)", "give a data file here, and the model where the command asks for one",
     [](const Start& s) {
       return s.bytes.size() > 9 && s.bytes[8] == '{' && contains(s.bytes, "\"foretime-bundle\"");
     }},
    {FileForm::foreign, "a tar archive", kUnpack,
     [](const Start& s) { return s.bytes.substr(std::min<size_t>(s.bytes.size(), 257)).starts_with("ustar"); }},
    {FileForm::foreign, "a Parquet file", "save it as CSV (pandas: read_parquet, to_csv)",
     [](const Start& s) { return s.bytes.starts_with("PAR1"); }},
    {FileForm::foreign, "a .npy array", "numpy.savez writes archives (.npz) of named arrays",
     [](const Start& s) { return s.bytes.starts_with("\x93NUMPY"); }},
    {FileForm::foreign, "UTF-16 text", "save it as UTF-8",
     [](const Start& s) {
       return starts_with_any(s.bytes, {"\xff\xfe", "\xfe\xff"});
     }},
    {FileForm::foreign, "MLIR bytecode", kAsProto, [](const Start& s) { return s.bytes.starts_with("ML\xefR"); }},
    // Field 1 is there in all messages; the other tag is that of an opcode or of an entry computation's name.
    {FileForm::hlo, "HLO text", "foretime data inspect and pack read it",
     [](const Start& s) { return s.text.starts_with("HloModule ") || contains(s.text, "\nHloModule "); }},
    {FileForm::hlo, "protobuf, as HLO modules are", "foretime data inspect and pack read it",
     [](const Start& s) { return s.bytes.starts_with("\x0a") && contains(s.bytes, "\x12"); }},

    {FileForm::foreign, "a Git LFS pointer", "git lfs pull fetches the file itself",
     [](const Start& s) { return s.text.starts_with("version https://git-lfs"); }},
    {FileForm::foreign, "an HTML page",
     "download the file itself: the server sent a page, perhaps a login, in its place",
     [](const Start& s) {
       return starts_with_any(s.text, {"<!DOCTYPE", "<!doctype", "<html", "<HTML"});
     }},
    {FileForm::foreign, "HLO as protobuf text", kAsProto,
     [](const Start& s) {
       return starts_with_any(s.text, {"name: \"", "hlo_module {"}) &&
              contains_any(s.text, {"computations {", "opcode: \""});
     }},
    {FileForm::foreign, "autotuning results of XLA",
     "they hold times of single library calls and no programs; "
     "of modules, XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_as_proto' gives what Foretime reads",
     [](const Start& s) {
       return starts_with_any(s.text, {"version: ", "results {"}) && contains(s.text, "results {");
     }},
    {FileForm::foreign, "StableHLO or other MLIR text", kAsProto,
     [](const Start& s) {
       return starts_with_any(s.text, {"module @", "module {", "module attributes"}) || contains(s.text, "func.func ");
     }},
    {FileForm::foreign, "TVMScript",
     "tvm.ir.save_json(module) of TVM 0.8 to 0.20 writes what foretime data pack-tir packs",
     [](const Start& s) {
       return contains_any(s.text, {"@T.prim_func", "@I.ir_module", "from tvm.script import"});
     }},

    {FileForm::records, "tuning records", "foretime data pack-records packs them",
     [](const Start& s) { return s.key == "i" || s.key == "r" || s.key == "v" || contains(s.text, "\n{\"i\":"); }},
    {FileForm::foreign, "an AutoTVM log (input, config, result)",
     "Foretime reads tuning records of auto_scheduler, "
     "and templates of AutoTVM only as tables (foretime data pack-table)",
     [](const Start& s) {
       return !s.key.empty() && contains(s.text, "\"input\"") && contains(s.text, "\"config\"") &&
              contains(s.text, "\"result\"");
     }},
    {FileForm::foreign, "Triton's autotuning cache", kAsTable,
     [](const Start& s) { return contains(s.text, "\"configs_timings\""); }},
    {FileForm::foreign, "a cache or results of Kernel Tuner", kAsTable,
     [](const Start& s) {
       return !s.key.empty() && contains_any(s.text, {"\"tune_params_keys\"", "\"invalidity\""});
     }},
    {FileForm::save_json, "text of tvm.ir.save_json", "foretime data pack-tir packs it",
     [](const Start& s) {  // inside a record's string the quotes are escaped
       return s.text.starts_with('{') &&
              contains_any(s.text, {"\"root\"", "\\\"root\\\"", "\"root_index\"", "\\\"root_index\\\""}) &&
              contains_any(s.text, {"\"nodes\"", "\\\"nodes\\\""});
     }},
    {FileForm::dag_table, "a table of compute DAGs", "give this file with --dags, and tuning records as input",
     [](const Start& s) {
       return !s.key.empty() && contains(s.text, "\"workload_key\"") && contains(s.text, "\"stages\"");
     }},
    {FileForm::foreign, "a database of MetaSchedule",
     "tools/data/export_metaschedule.py writes programs that data pack-tir packs",
     [](const Start& s) { return s.is_numbered_list() || s.is_hashed_list(); }},
    {FileForm::foreign, "a JSON array", "write a line for each of its items: jq -c '.[]' IN > OUT",
     [](const Start& s) {
       const auto next = s.text.find_first_not_of(" \t\r\n", 1);
       return s.text.starts_with('[') && next != std::string_view::npos && (s.text[next] == '{' || s.text[next] == ']');
     }},
    {FileForm::foreign, "compute DAGs as TVM prints them",
     "tools/data/export_dags.py or python3 -m foretime.task_files writes them as JSON",
     [](const Start& s) { return contains(s.text, " = PLACEHOLDER ["); }},
    {FileForm::table, "a table", "foretime data pack-table packs it", [](const Start& s) { return s.is_table(); }},
};

/// Null: unknown.
const KnownForm* known_form_of(const std::filesystem::path& file) {
  if (!is_file(file)) return nullptr;
  ByteSource source(file);
  const auto bytes = source.read_text(kStartBytes);
  const Start start(bytes, source.gzip());
  const auto* const found = std::ranges::find_if(kForms, [&](const KnownForm& form) { return form.recognises(start); });
  return found == std::end(kForms) ? nullptr : found;
}

}  // namespace

FileForm form_of(const std::filesystem::path& file) {
  const auto* const known = known_form_of(file);
  return known == nullptr ? FileForm::unknown : known->form;
}

FileForm expect_form(const std::filesystem::path& file, std::initializer_list<FileForm> forms,
                     std::string_view expected) {
  const auto* const known = known_form_of(file);
  if (known == nullptr) return FileForm::unknown;
  if (std::ranges::find(forms, known->form) != forms.end()) return known->form;
  throw DataError("{}: found {}, expected {}; {}", file.string(), known->name, expected, known->way);
}

char delimiter_of(std::string_view header) {
  const auto outside = outside_quotes(header);
  const auto fewer = [&](char a, char b) { return std::ranges::count(outside, a) < std::ranges::count(outside, b); };
  return std::max({',', ';', '\t'}, fewer);
}

}  // namespace foretime::data
