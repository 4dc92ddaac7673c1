#!/usr/bin/env python3
"""What the noise ceiling of a layout file knows: Kendall's tau-b of an oracle that predicts each candidate's run time by
its configuration's measurements, with and without the candidate's own.

  bench/studies/noise_ceiling.py FILE.npz...      needs NumPy and SciPy
"""
import sys

import numpy
from scipy.stats import kendalltau


def main(files):
    print(f"{'file':32} {'candidates':>10} {'once':>6} {'ceiling':>8} {'repeated: with own':>19} {'others only':>12}")
    for path in files:
        with numpy.load(path) as group:
            times = group["config_runtime"].astype(float)
            layouts = group["node_config_feat"].astype(numpy.int8)
        rows = layouts.reshape(len(times), -1)
        _, configuration = numpy.unique(rows, axis=0, return_inverse=True)
        counts = numpy.bincount(configuration)[configuration]
        sums = numpy.bincount(configuration, times)[configuration]
        repeated = counts > 1
        mean, others = sums / counts, (sums - times) / numpy.maximum(counts - 1, 1)
        name = path.rsplit("/", 1)[-1].removesuffix(".npz")
        print(
            f"{name:32} {len(times):10} {(~repeated).mean():6.1%} {kendalltau(mean, times)[0]:8.3f} "
            f"{kendalltau(mean[repeated], times[repeated])[0]:19.3f} {kendalltau(others[repeated], times[repeated])[0]:12.3f}"
        )


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
