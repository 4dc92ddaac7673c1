#pragma once

#include <string>
#include <vector>

namespace foretime {

/// Optimal string alignment distance (Damerau–Levenshtein without repeated edits): insertions, deletions, substitutions
/// and swaps of neighbours that turn `a` into `b`.
int edit_distance(const std::string& a, const std::string& b);

/// The dotted name most like `key`, the first of equals. A right last part in the wrong section (`learning_rate` for
/// `optimizer.learning_rate`) is near, too. Empty where `names` is empty or nothing is alike: more than a third of the
/// letters differ.
std::string nearest_name(const std::string& key, const std::vector<std::string>& names);

}  // namespace foretime
