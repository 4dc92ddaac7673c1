#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/graphs/group_header.h"

/// Packs tables of measurements (CSV: a row for each candidate, named columns, a run time) as groups. A group is one
/// problem: the rows that agree in the group columns, which become the node features of a graph with a single node. The
/// other columns describe candidates, like tile features. The columns are stored with each group, and a model scores
/// only tables whose columns are those of its training data.
namespace foretime::data {

/// Holds the arguments of pack_table.
struct TablePackRequest {
  std::filesystem::path out;
  std::vector<std::filesystem::path> in;
  std::string runtime = "runtime";  // column of run times; any unit, the same in all files
  std::vector<std::string> group;   // names of the columns that identify a problem; empty: all rows are one problem
  std::vector<std::string> skipped_columns;  // names of columns to leave out
  std::vector<std::string> failed;  // run times that mark a failed measurement, in addition to known words and inf, nan
  std::string like;  // required columns: the columns_text of a model or collection; empty: those of the table
};

/// Describes a packed table.
struct TablePackReport {
  int64_t groups = 0, rows = 0;       // numbers of packed groups and of packed rows
  int64_t failed = 0;                 // rows of failed measurements, which were skipped
  bool labelled = true;               // false: the table has no column of run times, which `like` allows
  bool skipped_index_column = false;  // skipped a first column without a name, which numbers rows
  // names of the features: a column of numbers is one feature, each word of a text column is a feature COLUMN=WORD
  std::vector<std::string> group_columns, candidate_columns;
};

/// Packs tables as a collection of `data.format: tile`. Numbers are unchanged, true and false are 1 and 0, and a column
/// of words becomes one feature, 0 or 1, for each word (at most 64). Throws DataError with file, line and column for a
/// missing column, a row of another length, an empty value, a number that is not finite or not a run time, a run time a
/// million times the next faster one, and more than kTileFeatures features of candidates; with `like` also for a column
/// or word that `like` lacks. Throws FileError if writing fails.
TablePackReport pack_table(const TablePackRequest& request);

/// Returns the columns of packed tables as JSON; "" for other or no groups. Throws DataError if the columns differ.
std::string columns_text(const std::vector<GroupHeader>& headers);
/// Throws DataError unless each group is a packed table with the columns `expected` (a columns_text), or, if `expected`
/// is empty, no group is a packed table. `whose`, such as "the model", names the owner of `expected` in messages.
void check_columns(const std::vector<GroupHeader>& headers, const std::string& expected, const std::string& whose);

}  // namespace foretime::data
