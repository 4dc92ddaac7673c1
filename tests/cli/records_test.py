"""data inspect of files of tuning records."""
import gzip
import json
import unittest

from program import SAMPLES, SOURCE, ProgramTest

RECORDS = SOURCE / "samples" / "ansor" / "records.jsonl.gz"


class RecordsTest(ProgramTest):
    def damaged(self):
        """Three of the sample's records; then one cut short, one that failed, and a comment."""
        with gzip.open(RECORDS, "rt") as file:
            lines = [next(file) for _ in range(5)]
        failed = json.loads(lines[4])
        failed["r"][0], failed["r"][1] = [1e10], 7
        path = self.folder / "log.json"
        path.write_text("".join(lines[:3]) + lines[3][:200] + "\n" + json.dumps(failed) + "\n# the end\n")
        return path

    def test_the_samples(self):
        out = self.run_foretime("data", "inspect", RECORDS).stdout
        self.assertIn("4836 tuning records of 50 workloads", out)
        self.assertIn("spread of the repeats", out)

    def test_what_is_left_out_is_counted(self):
        path = self.damaged()
        out = self.run_foretime("data", "inspect", path).stdout
        self.assertIn("3 tuning records", out)
        self.assertIn("1 failed measurements, 1 malformed lines, 1 empty lines and comments", out)
        self.assertIn("line 4: no JSON", out)
        self.assertIn("run timeout: 1", out)
        report, = json.loads(self.run_foretime("data", "inspect", "--json", path).stdout)
        self.assertEqual([report["records"], report["failed"], report["malformed"], report["skipped"]], [3, 1, 1, 1])
        self.assertEqual(report["first_malformed"][0]["line"], 4)

    def test_records_and_groups_do_not_mix(self):
        done = self.run_foretime("data", "inspect", RECORDS, SAMPLES / "C1.npz", code=3)
        self.assertIn("expected files of one kind", done.stderr)

    def test_a_damaged_file(self):
        path = self.folder / "cut.jsonl.gz"
        path.write_bytes(RECORDS.read_bytes()[:5000])
        done = self.run_foretime("data", "inspect", path, code=3)
        self.assertIn("cut.jsonl.gz: gzip data end", done.stderr)


if __name__ == "__main__":
    unittest.main()
