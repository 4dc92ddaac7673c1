"""foretime target measure: what it prints can be read, and is what its settings take."""
import json
import os

from program import ProgramTest

QUICK = ("target", "measure", "--runs", 3, "--seconds", 0.005, "--copy-mib", 4)


class TargetTest(ProgramTest):
    def test_a_machine_is_described(self):
        target = self.json_of(*QUICK, "--json", "--name", "mine")
        self.assertEqual(target["name"], "mine")
        self.assertEqual(target["threads"], len(os.sched_getaffinity(0)))
        self.assertLessEqual(target["hardware"]["cores"], target["threads"])
        for name in ("multiply_add_gflop_s", "copy_gb_s"):
            for rates in target[name].values():
                self.assertEqual(rates["runs"], 3)
                for figure in ("median", "low", "high", "spread"):
                    self.assertEqual(rates[figure], float(f"{rates[figure]:.4g}"))
                self.assertTrue(0 < rates["low"] <= rates["median"] <= rates["high"], rates)
                self.assertAlmostEqual(
                    rates["spread"],
                    (rates["high"] - rates["low"]) / rates["median"],
                    delta=0.01 * (1 + rates["spread"]),
                )
            self.assertEqual("all" in target[name], target["threads"] > 1)

    def test_its_hardware_is_that_of_settings(self):
        done = self.run_foretime(*QUICK, "-o", "machine.yaml")
        self.assertEqual(done.stdout, "")
        text = (self.folder / "machine.yaml").read_text()
        hardware = text.split("hardware:\n")[1].split("\nthreads")[0]
        self.write(
            "settings.yaml",
            "data:\n  format: programs\n  hardware:\n" + "".join(f"  {line}\n" for line in hardware.splitlines()),
        )
        printed = self.run_foretime("config", "settings.yaml").stdout
        for line in hardware.splitlines():
            self.assertIn(line.strip(), printed)
        self.assertRegex(text, r'(?m)^name: "[a-z0-9-]+"$')
        self.assertRegex(
            text, r"(?m)^copy_gb_s:\n  one: \{median: [0-9.]+, low: [0-9.]+, high: [0-9.]+, spread: [0-9.]+, runs: 3\}$"
        )
        try:
            import yaml
        except ImportError:
            return
        as_json = self.json_of(*QUICK, "--json")
        self.assertEqual(json.dumps(yaml.safe_load(text)["hardware"]), json.dumps(as_json["hardware"]))

    def test_what_it_refuses(self):
        done = self.run_foretime("target", "measure", "--copy-mib", 1 << 20, "--runs", 3, "--seconds", 0.001, code=2)
        self.assertIn("--copy-mib 1048576: two buffers in each of", done.stderr)
        self.run_foretime("target", "measure", "--runs", 1, code=2)
        self.run_foretime("target", code=2)
