#pragma once

/// A kernel functor that joins arrays on the device. NVRTC compiles the text of sparse_kernels.h before this file.
#ifndef __CUDACC_RTC__
#include "models/gpu/sparse_kernels.h"
#endif

namespace foretime::gpu {

/// Describes a run of words (4 or 8 bytes each) that is copied or filled.
template <class Word>
struct WordRun {
  const Word* from;  // null: fill with 0, 1, 2, … if `counts`, else with zeros
  Word* to;          // first word that is written
  long long first;   // number of words of all runs before this one
  Word plus;         // number added to each word
  long long counts;  // 1: a null `from` means 0, 1, 2, …; 0: it means zeros
};

/// Writes one word. Item = number of the word among the words of all runs.
template <class Word>
struct JoinWords {
  const WordRun<Word>* runs = nullptr;  // ascending by `first`
  int count = 0;                        // number of runs

  FORETIME_KERNEL void operator()(int item) const {
    int low = 0, high = count;  // [low, high) contains the last run that begins at or before the item
    while (high - low > 1) {
      const int middle = low + (high - low) / 2;
      if (runs[middle].first <= item) low = middle;
      else high = middle;
    }
    const WordRun<Word>& run = runs[low];
    const long long at = item - run.first;
    const Word word = run.from ? run.from[at] : run.counts ? Word(at) : Word(0);
    run.to[at] = word + run.plus;
  }
};

}  // namespace foretime::gpu
