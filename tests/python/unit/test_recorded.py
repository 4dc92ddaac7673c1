"""Schedules that real TVM made and measured (recorded.json.gz): with libforetime and a bundle, each has a score."""
import gzip
import json
import sys
import unittest

import numpy as np

from support import HERE, ROOT, TVM, real_bundle

import foretime

sys.path.insert(0, str(ROOT / "tools" / "tuner"))


def recorded():
    with gzip.open(HERE / "recorded.json.gz", "rt", encoding="utf-8") as file:
        return json.load(file)["tasks"]


class RecordedTest(unittest.TestCase):
    def test_records_belong_to_their_tables(self):
        for task in recorded():
            for line in task["records"]:
                record = json.loads(line)
                self.assertEqual(record["i"][0][0], task["stage_table"]["workload_key"])
                self.assertEqual(record["r"][1], 0)

    def test_the_library_scores_them(self):
        with foretime.Model.open(real_bundle(), threads=2) as model:
            for task in recorded():
                table = json.dumps(task["stage_table"])
                scores = model.score_records(table, task["records"])
                self.assertTrue(np.isfinite(scores).all(), task["name"])
                self.assertGreater(len(set(scores.tolist())), 1, task["name"])
                without_results = [json.dumps({"i": json.loads(line)["i"]}) for line in task["records"]]
                np.testing.assert_array_equal(model.score_records(table, without_results), scores)
                best = model.rank(scores, top=3)
                self.assertEqual(best.tolist(), np.argsort(scores, kind="stable")[:3].tolist())
                spoilt = task["records"][0].replace('"SP"', '"SA"')
                self.assertTrue(np.isinf(model.score_records(table, [spoilt, "{", task["records"][1]])[:2]).all())

    @unittest.skipUnless(TVM, "needs a Python with TVM: import tvm failed")
    def test_tvm_makes_the_same_tables(self):
        from foretime.compute_dag import compute_dag
        from tuner_tasks import make_task

        for task in recorded():
            search = make_task(task["name"], "llvm")
            table = json.loads(json.dumps(compute_dag(search.compute_dag, search.workload_key)))
            self.assertEqual(table["stages"], task["stage_table"]["stages"])
