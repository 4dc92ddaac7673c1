"""What searches get for scores."""
import unittest

import numpy as np

import support  # noqa: F401

from foretime.scores import Scale, Speeds, UnknownMachines, Unscored


class FakeModel:
    def __init__(self, **manifest):
        self._manifest = manifest

    def describe(self):
        return self._manifest


class ScaleTest(unittest.TestCase):
    def test_speeds_are_positive_and_fall_with_scores(self):
        scores = np.array([3.0, -2.0, np.inf, 0.5, np.nan], np.float32)
        speeds = Scale(True)(scores)
        self.assertEqual(speeds.dtype, np.float32)
        self.assertEqual(speeds[1], 1.0)
        self.assertTrue(speeds[1] > speeds[3] > speeds[0] > 0)
        self.assertEqual(speeds[[2, 4]].tolist(), [speeds[3], speeds[3]])  # unknown: the median of the others

    def test_candidates_without_a_score_are_as_good_as_chance(self):
        scale = Scale(True)
        drawn = scale(np.array([0.0, 1.0, 2.0, np.inf]))
        self.assertEqual(drawn[3], drawn[1])
        later = scale(np.array([-3.0, -2.0, np.inf, -1.0]))  # what a search has found since
        self.assertEqual(later[2], drawn[3])
        self.assertTrue((later[[0, 1, 3]] > later[2]).all())

    def test_calls_share_one_scale(self):
        scale = Scale(False)
        first = scale([1.0, 2.0, 3.0])
        again = scale([2.0, 0.0, 3.0])
        self.assertEqual(first[1], again[0])
        self.assertEqual(first[2], again[2])
        self.assertGreater(again[1], 1.0)

    def test_without_a_score_no_scale_is_fixed(self):
        scale = Scale(True)
        self.assertEqual(scale([np.inf]).tolist(), [1.0])
        self.assertEqual(scale([5.0]).tolist(), [1.0])

    def test_far_scores_keep_sums_finite(self):
        scale = Scale(True)
        scale([0.0])
        speeds = scale(np.array([-1e30, 1e30, -5.0]))
        self.assertTrue(np.isfinite(speeds.astype(np.float32).sum()))
        self.assertTrue(speeds[0] > speeds[2] > speeds[1] > 0)

    def test_logarithms_of_run_times_give_speeds_in_proportion(self):
        for kind in ("log_runtime", "log_runtime_per_flop"):
            speeds = Speeds(FakeModel(predicts_runtimes=True, targets={"kind": kind, "deviation": 2.0, "mean": -7.0}))
            scores = (np.log([1.0, 2.0, 4.0, 0.5]) + 7.0) / 2.0  # as the model was trained
            np.testing.assert_allclose(speeds("a", scores[:3]), [1, 0.5, 0.25], rtol=1e-6)
            np.testing.assert_allclose(speeds("a", scores[3:]), [2], rtol=1e-6)
            np.testing.assert_allclose(speeds("b", scores[3:]), [1], rtol=1e-6)

    def test_a_chance_of_failure_makes_a_speed_less_likely(self):
        speeds = Speeds(FakeModel(predicts_runtimes=True, targets={"kind": "log_runtime"}))
        scores, failures = np.array([0.0, 0.0, 0.0, np.inf]), np.array([0.0, 0.75, 1.0, np.nan], np.float32)
        np.testing.assert_allclose(speeds("a", scores, failures), [1, 0.25, 0, 1], rtol=1e-6)

    def test_other_scores_need_no_logarithm(self):
        for manifest in (
            {"predicts_runtimes": True, "targets": {"kind": "runtime", "deviation": 0.5, "mean": 1.0}},
            {"predicts_runtimes": False, "targets": {"kind": "log_runtime", "deviation": 0.5}},
            {},
        ):
            # A negative run time is the fastest.
            speeds = Speeds(FakeModel(**manifest))("a", np.array([1.0, -3.0, 0.0]))
            self.assertTrue(speeds[1] > speeds[2] > speeds[0] > 0)


class UnknownMachinesTest(unittest.TestCase):
    class Bundle:
        def describe(self):
            return {"machines": [{"name": "here"}]}

        def unknown_machine(self, target):
            return {"llvm -model=there": "there", "llvm -model=elsewhere": "elsewhere"}.get(target, "")

    def test_of_each_once(self):
        machines, model = UnknownMachines(), self.Bundle()
        with self.assertLogs("foretime", "WARNING") as said:
            for name in ("there", "there", "elsewhere"):
                machines.note(model, f"llvm -model={name}")
        self.assertEqual(len(said.output), 2)
        self.assertRegex(said.output[0], "does not know machine there .it knows here.: .*foretime bundle add-machine")

    def test_of_known_ones_nothing(self):
        machines, model = UnknownMachines(), self.Bundle()
        with self.assertNoLogs("foretime"):
            machines.note(model, "llvm -model=here")


class UnscoredTest(unittest.TestCase):
    def test_a_warning_says_how_many_and_why(self):
        unscored = Unscored()
        with self.assertLogs("foretime", "WARNING") as told:
            self.assertEqual(
                unscored.note("w", np.array([np.inf, 1.0, 2.0, np.nan]), lambda: "step 3 (RF of stage 1)"), 0
            )
        self.assertIn("2 of 4 candidates of w have no score, 50 %", told.output[0])
        self.assertIn("step 3 (RF of stage 1)", told.output[0])

    def test_it_comes_again_when_there_are_twice_as_many(self):
        unscored = Unscored()
        with self.assertLogs("foretime", "WARNING") as told:
            for _ in range(16):
                unscored.note("w", np.array([np.inf, 1.0]), lambda: "no")
        self.assertEqual([line.split(" of ")[0].split(":")[-1] for line in told.output], ["1", "2", "4", "8", "16"])

    def test_nothing_is_told_where_all_have_one(self):
        unscored = Unscored()
        with self.assertNoLogs("foretime", "WARNING") if hasattr(self, "assertNoLogs") else self.subTest():
            unscored.note("w", np.array([1.0, 2.0]), self.fail)

    def test_it_counts_workloads_that_never_had_one(self):
        unscored = Unscored()
        with self.assertLogs("foretime", "WARNING"):
            self.assertEqual(unscored.note("w", np.array([np.inf] * 3), lambda: "no"), 3)
            self.assertEqual(unscored.note("w", np.array([np.inf] * 4), lambda: "no"), 7)
            self.assertEqual(unscored.note("w", np.array([np.inf, 1.0]), lambda: "no"), 0)
