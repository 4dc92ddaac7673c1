"""tools/tuner/measure/tasks.py: what is measured for training, what searches are compared on, and that these never meet."""
import collections
import os
import pathlib
import sys
import unittest

SOURCE = pathlib.Path(os.environ.get("FORETIME_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
sys.path[:0] = [str(SOURCE / "tools" / "tuner"), str(SOURCE / "tools" / "tuner" / "measure")]

import pretrain  # noqa: E402
import tasks  # noqa: E402


class TasksTest(unittest.TestCase):
    def setUp(self):
        self.training = tasks.training_tasks()
        self.held_out = tasks.layers_of(tasks.HELD_OUT)
        self.searched = tasks.searched_tasks()

    def test_training_tasks_are_distinct_and_the_same_each_time(self):
        keys = [tasks.key(task) for task in self.training]
        self.assertGreaterEqual(len(keys), 400)
        self.assertEqual(len(set(keys)), len(keys))
        self.assertEqual(keys, [tasks.key(task) for task in tasks.training_tasks()])
        counts = collections.Counter(task["operator"] for task in self.training)
        self.assertEqual(counts.keys(), tasks.SHARES.keys())
        for task in self.training:
            self.assertLessEqual(tasks.operations(task["operator"], task["arguments"]), tasks.MOST_OPERATIONS, task)

    def test_what_searches_are_compared_on_is_never_trained_on(self):
        self.assertEqual(len(self.searched), 18)
        self.assertEqual(
            collections.Counter(map(tasks.kind, self.searched.values())), collections.Counter(tasks.SEARCHED)
        )
        searched = {tasks.key(task) for task in self.searched.values()}
        self.assertEqual(len(searched), 18)
        self.assertLessEqual(searched, self.held_out.keys())
        self.assertFalse(self.held_out.keys() & {tasks.key(task) for task in self.training})
        sampled = tasks.sampled_inputs()
        self.assertIn(((1, 224, 224, 3), (3, 3, 3, 32)), sampled)
        for name, task in self.searched.items():
            self.assertNotIn(tasks.inputs_of(task), sampled)
            self.assertTrue(any(name.startswith(network) for network in task["networks"]), name)

    def test_each_kind_of_operator_is_of_one_family(self):
        families = collections.Counter(name for family in pretrain.FAMILIES.values() for name in family)
        self.assertEqual(set(families.values()), {1})
        kinds = {tasks.kind(task) for task in self.training}
        self.assertEqual(kinds - set(families), {"conv2d 1x1", "conv2d kxk"})


if __name__ == "__main__":
    unittest.main()
