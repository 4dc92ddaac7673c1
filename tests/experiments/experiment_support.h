#pragma once

#include <random>
#include <string>

#include "experiments/document.h"

namespace foretime::experiments::testing {

/// A YAML text with one to four places cut out or overwritten, mostly by characters that mean something there.
inline std::string damaged(std::string text, std::mt19937& random) {
  const std::string letters = "{}[]:,-'\"&*!|>%@ \n\tax09.~#";
  for (size_t edits = 1 + random() % 4; edits > 0; --edits) {
    const size_t at = random() % text.size();
    if (random() % 3 == 0) {
      text.erase(at, 1 + random() % 20);
    } else {
      text[at] = letters[random() % letters.size()];
    }
  }
  return text;
}

/// The one part of an experiment's text.
inline Experiment parse_experiment(const std::string& yaml, const ExperimentChoice& choice = {}) {
  return parse_experiments(yaml, "e.yaml", ".", choice).parts.at(0);
}

}  // namespace foretime::experiments::testing
