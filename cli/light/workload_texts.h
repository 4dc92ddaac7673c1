#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/frontends/loops/machines.h"

/// Reads tuning records and save_json texts of files, by workload, for `rank`.
namespace foretime::cli {

/// Counts warnings of one kind and keeps the first text.
struct Warnings {
  int64_t count = 0;
  std::string first;

  void add(std::string what) {
    if (count++ == 0) first = std::move(what);
  }
  /// Prints on standard error, unless there were none: `ORIGIN: 3 WHAT, the first: …`
  void print(const std::string& origin, const char* what) const;
};

/// Holds the place of a text: a file and a line of it, from 1; 0 if the file is one text.
struct SourceLine {
  std::string file;
  int64_t line = 0;
};
/// Returns FILE:LINE; the line is 1 if the file is one text.
std::string to_string(const SourceLine& place);

/// Holds the texts of one workload, in the order of the files.
struct Workload {
  std::string key, name = {};                     // name: the key for people
  std::set<std::string> targets = {};             // TVM targets of tuning records
  std::vector<std::string> texts = {}, ids = {};  // [texts] records or programs, and their ids
  std::vector<SourceLine> places = {};            // [texts] where each text was read
};

/// Holds workloads in the order of their first texts.
class Workloads {
 public:
  /// Returns the workload with this key; adds it if it is new. Valid until the next call.
  Workload& of(const std::string& key) {
    const auto [place, fresh] = places_.try_emplace(key, all_.size());
    if (fresh) all_.push_back({.key = key});
    return all_[place->second];
  }
  std::vector<Workload>& all() { return all_; }

 private:
  std::unordered_map<std::string, size_t> places_;
  std::vector<Workload> all_;
};

/// Collects the machines that records name and a model does not know, so that their caches and rates are guessed.
class UnknownMachines {
 public:
  /// Adds the machines that a workload's records name and `known` does not have.
  void add(const data::Machines& known, const Workload& workload);
  /// Prints the machines, if any, on standard error. `remedy` says how to give their descriptions to the model.
  void print(const std::string& origin, const char* remedy) const;

 private:
  std::set<std::string> names_;
};

/// Holds the machines of --targets, and finds out which of them records name.
class NamedMachines {
 public:
  /// Reads machine files. Throws the errors of data::read_machines.
  explicit NamedMachines(const std::vector<std::string>& files);
  /// Marks the machines that a workload's records name as found.
  void add(const Workload& workload);
  /// Prints on standard error the machines that no record names, if there are any.
  void print(const std::string& origin) const;

 private:
  data::Machines machines_;
  std::set<std::string> found_;
};

/// Returns the paths that each argument names: the argument itself if such a path exists, else the paths that match it
/// as a pattern, sorted by name. Throws DataError for an argument that names none.
std::vector<std::string> named_files(const std::vector<std::string>& files);

/// Throws SettingsError if `dags`, the file of compute DAGs, is "". Messages name `file`, a file of tuning records.
void expect_dags(const std::string& dags, const std::string& file);

/// Adds the records of a file to `workloads`. The id of a record is `name`, a colon and its 0-based line; the line
/// alone if `name` is empty. Ignores costs. Skips lines that are empty or begin with # or a blank. Skips other lines
/// that are not records, and counts them on standard error. Throws DataError for a file that cannot be read.
void read_records(const std::string& file, const std::string& name, Workloads& workloads);

/// Adds the programs of a file of save_json text to `workloads`, with the ids in the file. `member` is described at
/// data::read_tir_groups. Throws DataError for a file that cannot be read or has no programs.
void read_texts(const std::string& file, const std::string& member, Workloads& workloads);

std::vector<std::string_view> views(const std::vector<std::string>& texts);

}  // namespace foretime::cli
