#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string_view>

namespace foretime::data {

/// Lists the forms of data files, recognised by their first (decompressed) bytes and never by the file's name.
enum class FileForm : uint8_t {
  packed,     // packed groups
  npz,        // .npz of NumPy
  hlo,        // HLO modules as protobuf or text, and tuning data
  records,    // tuning records of auto_scheduler
  dag_table,  // compute DAGs as JSON lines
  save_json,  // text of tvm.ir.save_json, or JSON lines that hold it
  table,      // CSV
  bundle,     // a model (inference/bundle/bundle.h)
  foreign,    // a known form that Foretime does not read
  unknown,    // unknown, or not a regular file
};

/// Recognises a file by its first 16 KiB. Throws DataError if it cannot be opened or decompressed, and StorageError.
FileForm form_of(const std::filesystem::path& file);

/// Returns the form of a file if it is one of `forms`, or FileForm::unknown, whose fault the reader of the file
/// reports. Throws DataError for any other form; the message says what the file is, that `expected` ("tuning records")
/// was expected, and what to do. Throws the errors of form_of.
FileForm expect_form(const std::filesystem::path& file, std::initializer_list<FileForm> forms,
                     std::string_view expected);

/// Returns the separator of a table with the first line `header`: the most frequent outside of quotes of comma,
/// semicolon and tab; the first of these if several are equally frequent, or none occurs.
char delimiter_of(std::string_view header);

}  // namespace foretime::data
