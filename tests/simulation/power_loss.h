#pragma once

#include <functional>
#include <random>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/simulation/simulated_files.h"

namespace foretime::simulation {

/// Thrown in the middle of a file operation: nothing in the product may catch it.
struct PowerLoss {};

/// Plays through every moment at which power may fail in `act`, each with several fates of what was not synced: all
/// kept, all lost, torn, and random mixtures. Then `verify` opens what is left, with a name of the case for messages.
/// `prepare` runs before, and all of it is on disk.
inline void at_every_power_loss(const std::function<void()>& prepare, const std::function<void()>& act,
                                const std::function<void(const std::string&)>& verify, int mixtures = 12) {
  using Fate = SimulatedFiles::Fate;
  const auto play = [&](int64_t stop, SimulatedFiles& files) {
    const FilesScope scope(files);
    prepare();
    for (int i = 0; i < 2; ++i) files.lose_power([] { return Fate::kept; });
    const auto before = files.operations();
    bool lost = false;
    files.fail_by([&](const char*, const auto&, size_t) -> int {
      if (lost) return SimulatedFiles::kDead;  // a destructor on the way out
      lost = files.operations() - before > stop;
      if (lost) throw PowerLoss();
      return 0;
    });
    bool finished = false;
    try {
      act();
      finished = true;
    } catch (const PowerLoss&) {
    }
    files.fail_by(nullptr);
    return finished;
  };
  bool finished = false;
  for (int64_t stop = 0; !finished; ++stop) {
    for (int variant = 0; variant < 3 + mixtures; ++variant) {
      SimulatedFiles files;
      finished = play(stop, files);
      std::mt19937_64 random(static_cast<uint64_t>(stop * 1000 + variant));
      files.lose_power([&] {
        if (variant < 3) return static_cast<Fate>(variant);
        return static_cast<Fate>(random() % 3);
      });
      const FilesScope scope(files);
      verify(fmt::format("power lost at operation {}, case {}", stop, variant));
      if (::testing::Test::HasFailure()) return;
    }
    ASSERT_LT(stop, 100000) << "it never ends";
  }
}

}  // namespace foretime::simulation
