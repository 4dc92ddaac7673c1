"""Files that can be read, and are hardly what their author meant."""
import gzip
import unittest

try:
    import numpy as np
except ImportError:
    np = None

from program import SAMPLES, SOURCE, ProgramTest


@unittest.skipIf(np is None, "needs python3-numpy")
class OddProgramsTest(ProgramTest):
    def variant(self, **changes):
        """C1 of the samples with some arrays made by functions of them."""
        with np.load(SAMPLES / "C1.npz") as file:
            arrays = dict(file)
        for name, change in changes.items():
            arrays[name] = change(arrays[name])
        np.savez(self.folder / "odd.npz", **arrays)

    def named(self, old, new):
        self.variant(type_names=lambda names: np.array([new if name == old else name for name in names]))

    def inspected(self):
        """What data inspect says looks odd; the text and the JSON agree."""
        lines = self.json_of("data", "inspect", "odd.npz", "--json")[0]["odd"]
        text = self.run_foretime("data", "inspect", "odd.npz").stdout
        self.assertEqual([line.split("  looks odd   ")[1] for line in text.splitlines() if "looks odd" in line], lines)
        return lines

    def refused(self, *parts):
        for arguments in (
            ("data", "inspect", "odd.npz"),
            ("data", "pack", "-o", "odd.foretime", "odd.npz", "--format", "programs"),
            self.training(
                data__root=self.folder, data__train="odd.npz", data__test="[]", run__directory=self.folder / "refused"
            ),
        ):
            error = self.run_foretime(*arguments, code=3).stderr
            for part in ("odd.npz", *parts):
                self.assertIn(part, error)

    def warned(self, *parts):
        """By inspect, pack and train."""
        packed = self.run_foretime("data", "pack", "-o", "odd.foretime", "odd.npz", "--format", "programs").stdout
        trained = self.run_foretime(
            *self.training(data__root=self.folder, data__train="odd.npz", data__test="[]", trainer__steps=1)
        ).stderr
        for said in ("\n".join(self.inspected()), packed, trained):
            for part in parts:
                self.assertIn(part, said)

    def test_a_sound_file_has_nothing_odd(self):
        self.variant()
        self.assertEqual(self.inspected(), [])

    def test_names_of_node_types_that_are_not_known(self):
        self.named("For", "Loop")
        self.refused("type_names", "all loops have types that are not known: Loop (", "did you mean For?")
        self.named("BufferLoad", "bufferload")
        self.warned("node types that are not known", "bufferload (", "% of the nodes; did you mean BufferLoad?)")

    def test_run_times_that_are_no_seconds(self):
        self.variant(runtime=lambda times: times * 1e9)
        self.warned("are they nanoseconds")
        self.variant(runtime=lambda times: np.where(np.arange(len(times)) == 3, 1e20, times))
        self.refused("run time 1e+20 of candidate 3, expected seconds of at most 1e+09")
        self.variant(runtime=lambda times: np.where(np.arange(len(times)) == 3, 1e8, times))
        self.assertRegex(
            "\n".join(self.inspected()), "the longest run time, 1e\\+08 s, is .* times the one in the middle"
        )
        self.variant(runtime=np.ones_like)
        self.assertRegex("\n".join(self.inspected()), "all [0-9]+ run times are 1: nothing can be learned")

    def test_ids_that_occur_twice(self):
        self.variant(id=lambda ids: np.full_like(ids, ids[0]))
        self.assertRegex("\n".join(self.inspected()), "[0-9]+ programs have 1 different ids")


class CopiedRecordsTest(ProgramTest):
    def test_a_log_appended_to_itself_has_each_measurement_once(self):
        with gzip.open(SOURCE / "samples/ansor/records.jsonl.gz", "rt") as file:
            lines = [next(file) for _ in range(40)]
        self.write("once.json", "".join(lines))
        self.write("twice.json", "".join(lines + lines))
        once, twice = (self.json_of("data", "inspect", name, "--json")[0] for name in ("once.json", "twice.json"))
        self.assertEqual(twice["copies"], once["copies"] + once["records"])
        for name in (
            "distinct_schedules",
            "measured_again",
            "noise_ceiling_tau",
            "cost_seconds",
            "records_per_workload",
        ):
            self.assertEqual(once[name], twice[name], name)
        self.assertIn("copies of other lines", self.run_foretime("data", "inspect", "twice.json").stdout)
        dags = SOURCE / "samples/ansor/dags.jsonl.gz"
        packed = [
            self.run_foretime(
                "data", "pack-records", "-o", f"{name}.foretime", f"{name}.json", "--dags", dags, "--least", 1
            ).stdout
            for name in ("once", "twice")
        ]
        self.assertEqual(*((self.folder / f"{name}.foretime").read_bytes() for name in ("once", "twice")))
        self.assertRegex(packed[1], "[0-9]+ copies of other lines left out")


if __name__ == "__main__":
    unittest.main()
