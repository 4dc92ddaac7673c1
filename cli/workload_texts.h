#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/frontends/loops/machines.h"

/// Tuning records and save_json texts of files, by the workloads that they are of: what `rank` and `select` read.
namespace foretime::cli {

/// Things that went wrong, of which the first is told.
struct Complaints {
  int64_t count = 0;
  std::string first;

  void add(std::string what) {
    if (count++ == 0) first = std::move(what);
  }
  /// On standard error: `file: 3 lines left out, the first: …`
  void tell(const std::string& origin, const char* what) const;
};

/// A line of a file, from 1 on; 0 where the file is one text.
struct Place {
  std::string file;
  int64_t line = 0;
};
std::string to_string(const Place& place);  // FILE:LINE

/// Texts of one workload, in the order of the files.
struct Workload {
  std::string key, name = {};
  std::set<std::string> targets = {};  // TVM's, of tuning records
  std::vector<std::string> texts = {}, ids = {};
  std::vector<Place> places = {};  // of each
};

class Workloads {
 public:
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

/// Machines that records name and a model does not know: their caches and rates are guessed.
class UnknownMachines {
 public:
  void add(const data::Machines& known, const Workload& workload);
  /// On standard error, where there are any; `remedy`: how the model comes to know them.
  void tell(const std::string& origin, const char* remedy) const;

 private:
  std::set<std::string> names_;
};

/// Machines of the files of --targets, and whether any record names them.
class NamedMachines {
 public:
  /// Throws as data::read_machines.
  explicit NamedMachines(const std::vector<std::string>& files);
  void add(const Workload& workload);
  /// On standard error, which of them no record names.
  void tell(const std::string& origin) const;

 private:
  data::Machines machines_;
  std::set<std::string> found_;
};

/// Patterns as the files that fit them; all else as it stands. Throws DataError for what is not there.
std::vector<std::string> named_files(const std::vector<std::string>& files);

/// Throws SettingsError where records of `file` have no `dags`.
void expect_dags(const std::string& dags, const std::string& file);

/// The records of a file. `name`: of the file in ids, which are 0-based lines after it and a colon; empty where it is
/// the only one. Costs are not looked at. Lines that are no records are left out, and told on standard error.
void read_records(const std::string& file, const std::string& name, Workloads& workloads);

/// Programs of a file of save_json text; ids are those of the file. `member`: as in data::read_tir_groups. Throws
/// DataError for what cannot be read, and for a file without any.
void read_texts(const std::string& file, const std::string& member, Workloads& workloads);

std::vector<std::string_view> views(const std::vector<std::string>& texts);

}  // namespace foretime::cli
