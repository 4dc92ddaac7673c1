#include "base/nearest.h"

#include <algorithm>

namespace foretime {

int edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<int>> d(a.size() + 1, std::vector<int>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = static_cast<int>(i);
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

std::string nearest_name(const std::string& key, const std::vector<std::string>& names) {
  const auto last_part = [](const std::string& name) { return name.substr(name.rfind('.') + 1); };
  std::string best;
  int best_distance = static_cast<int>(std::max<size_t>(2, key.size() / 3)) + 1;
  for (const std::string& name : names) {
    int distance = edit_distance(key, name);
    // One more than the distance of the last parts alone, so that a slip within the same section comes first.
    const std::string part = last_part(key);
    const int part_distance = edit_distance(part, last_part(name));
    if (part_distance * 3 <= static_cast<int>(part.size())) distance = std::min(distance, part_distance + 1);
    if (distance < best_distance) {
      best_distance = distance;
      best = name;
    }
  }
  return best;
}

}  // namespace foretime
