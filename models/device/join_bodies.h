#pragma once

/// What GPU threads do to put arrays together that are there already: a body like those of bodies.h, whose text NVRTC
/// finds before this one.
#ifndef __CUDACC_RTC__
#include "models/device/bodies.h"
#endif

namespace foretime::device {

/// Words that come from one place.
template <class Word>
struct Stretch {
  const Word* from;  // null: `counts` ? 0, 1, 2, … : zeros
  Word* to;
  long long first;   // of all words of all stretches
  Word plus;         // is added to each
  long long counts;  // 0 or 1
};

/// Item = word: each stretch's words to their place.
template <class Word>
struct JoinWords {
  const Stretch<Word>* stretches = nullptr;  // ascending
  int count = 0;

  FORETIME_BODY void operator()(int item) const {
    int low = 0, high = count;  // the last stretch that begins at or before the item
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
