#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string_view>

namespace foretime::data {

/// What a data file is. One table (file_form.cpp) tells by first bytes, inside gzip by those of what it holds; names
/// are not looked at.
enum class FileForm : uint8_t {
  packed,        // packed groups
  npz,           // .npz of NumPy
  hlo,           // protobuf, as HLO modules and tuning data are
  records,       // tuning records of auto_scheduler
  dag_table,     // compute DAGs as JSON lines
  printed_dags,  // compute DAGs as TVM prints them
  save_json,     // text of tvm.ir.save_json, or JSON lines with it
  table,         // CSV
  bundle,        // a model (inference/bundle/bundle.h)
  foreign,       // known, and nothing that Foretime reads
  unknown,       // also what is no regular file
};

/// Reads the first 16 KiB. Throws StorageError where the storage fails, DataError where gzip data are damaged there.
FileForm form_of(const std::filesystem::path& file);

/// Returns which of `forms` a file is, or that its form is unknown: its reader says what is wrong with it then. Throws
/// DataError where it is known to be something else: what it is, that `expected` ("tuning records") were expected, and
/// the way forward.
FileForm expect_form(const std::filesystem::path& file, std::initializer_list<FileForm> forms,
                     std::string_view expected);

/// What separates the columns of a table whose first line this is: a comma, a semicolon or a tab.
char delimiter_of(std::string_view header);

}  // namespace foretime::data
