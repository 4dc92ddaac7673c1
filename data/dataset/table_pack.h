#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/graphs/group_header.h"

/// Tables of measurements (CSV: a row a candidate, named columns, a run time) as groups. A group is one problem: rows
/// that agree in the group columns, which become the node features of a graph with a single node. The other columns
/// describe candidates, as tile features do. What the columns are is kept with each group, and a model scores tables of
/// its own columns only.
namespace foretime::data {

struct TablePackRequest {
  std::filesystem::path out;
  std::vector<std::filesystem::path> in;
  std::string runtime = "runtime";  // column of run times; any unit, the same in all files
  std::vector<std::string> group;   // columns that tell problems apart
  std::vector<std::string> leave_out;
  std::vector<std::string> failed;  // run times that say that a measurement failed, besides known words
  std::string like;                 // columns as the model or collection has them (columns_text); empty: of the table
};

struct TablePackReport {
  int64_t groups = 0, rows = 0;
  int64_t failed = 0;           // rows without a run time, which were left out
  bool labelled = true;         // false: the table has no column of run times, which `like` allows
  bool index_left_out = false;  // a first column without a name, which counts rows
  std::vector<std::string> group_columns, candidate_columns;  // as the model sees them: words are columns of 0 and 1
};

/// Writes a collection of `data.format: tile`. Numbers stay as they are, true and false are 1 and 0, and a column of
/// words becomes one column a word (at most 64). Throws DataError with file, line and column: no such column, a row of
/// another length, an empty value, a number that is not finite or not a run time, a run time a million times the next
/// faster one, more than kTileFeatures columns that describe candidates; with `like` a column or a word that it lacks.
TablePackReport pack_table(const TablePackRequest& request);

/// What the columns of these groups are, as JSON; empty where they are no tables. Throws DataError where they differ.
std::string columns_text(const std::vector<GroupHeader>& headers);
/// Throws DataError where groups are not tables of these columns (`expected`, a columns_text), which `whose` has: "the
/// model".
void check_columns(const std::vector<GroupHeader>& headers, const std::string& expected, const std::string& whose);

}  // namespace foretime::data
