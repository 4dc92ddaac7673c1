#pragma once

/// A kernel body that joins arrays on the device. NVRTC compiles the text of bodies.h before this file.
#ifndef __CUDACC_RTC__
#include "models/device/bodies.h"
#endif

namespace foretime::device {

/// Describes a run of words that is copied or filled.
template <class Word>
struct Stretch {
  const Word* from;  // null: fill with 0, 1, 2, … if `counts`, else with zeros
  Word* to;
  long long first;   // position among the words of all runs
  Word plus;         // number added to each word
  long long counts;  // 0 or 1
};

/// Copies one word. Item = word.
template <class Word>
struct JoinWords {
  const Stretch<Word>* stretches = nullptr;  // ascending by `first`
  int count = 0;

  FORETIME_BODY void operator()(int item) const {
    int low = 0, high = count;  // [low, high) contains the last run that begins at or before the item
    while (high - low > 1) {
      const int middle = low + (high - low) / 2;
      if (stretches[middle].first <= item)
        low = middle;
      else
        high = middle;
    }
    const Stretch<Word>& stretch = stretches[low];
    const long long at = item - stretch.first;
    const Word word = stretch.from ? stretch.from[at] : stretch.counts ? Word(at) : Word(0);
    stretch.to[at] = word + stretch.plus;
  }
};

}  // namespace foretime::device
