"""When bundles are fine-tuned, and what happens where that fails."""
import json
import pathlib
import sys

from support import FolderTest

from foretime.finetuning import FineTuning

JOIN = "import sys; open(sys.argv[4], 'w').write(''.join(open(path).read() for path in sys.argv[1:4]))"


class FineTuningTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.bundle = self.folder / "first"
        self.bundle.write_text("bundle\n")

    def finetuning(self, script, every):
        command = (sys.executable, "-c", script, "{model}", "{records}", "{dags}", "{output}")
        return FineTuning(self.bundle, every, command, self.folder / "work")

    def test_runs_when_enough_is_new_with_all_there_is(self):
        finetuning = self.finetuning(JOIN, 2)
        self.assertIsNone(finetuning.add("a", '{"a"}', ["r1\n"]))
        first = finetuning.add("b", '{"b"}', ["r2", "r3"])
        self.assertIsNone(finetuning.add("a", '{"a"}', ["r4"]))
        second = finetuning.add("a", '{"a"}', ["r5"])
        self.assertNotEqual(first, second)
        self.assertEqual(
            pathlib.Path(second).read_text().split(), ["bundle", "r1", "r2", "r3", "r4", "r5", '{"a"}', '{"b"}']
        )

    def test_only_collects_unless_asked(self):
        finetuning = self.finetuning("raise SystemExit(1)", 0)
        self.assertIsNone(finetuning.add("a", "{}", ["r"] * 1000))
        self.assertEqual(len(finetuning.records), 1000)

    def test_weights_that_are_not_better_are_no_new_bundle(self):
        finetuning = self.finetuning(JOIN + "; sys.exit(6)", 1)
        with self.assertLogs("foretime", "INFO") as logged:
            self.assertIsNone(finetuning.add("a", "{}", ["r"]))
        self.assertEqual([record.levelname for record in logged.records], ["INFO"])

    def test_a_failure_is_a_warning(self):
        finetuning = self.finetuning("raise SystemExit('no room')", 1)
        with self.assertLogs("foretime", "WARNING") as logged:
            self.assertIsNone(finetuning.add("a", "{}", ["r"]))
        self.assertIn("no room; the model stays", logged.output[0])

    def test_a_command_that_does_not_exist_is_refused_at_once(self):
        command = ("/nowhere/foretime", "{model}")
        with self.assertRaisesRegex(FileNotFoundError, "no program /nowhere/foretime; put foretime on PATH"):
            FineTuning(self.bundle, 1, command)
        self.assertIsNone(FineTuning(self.bundle, 0, command).add("a", json.dumps({}), ["r"]))
