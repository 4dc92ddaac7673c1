"""TensorBoard's event files, read by a reader of its own: TFRecord framing, CRC-32C and protobuf's wire format are written out
here, and field numbers are those of TensorBoard's own .proto files."""
import json
import re
import signal
import struct

from queue_case import BASE
from program import SAMPLES, ProgramTest, wait_until


def crc32c(data):
    """Bit by bit, of the reflected polynomial 0x82F63B78."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        length, crc = struct.unpack_from("<QI", data, at)
        assert crc == masked(data[at : at + 8]), f"checksum of the length at {at}"
        message = data[at + 12 : at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(
            message
        ), f"checksum of the message at {at}"
        yield message
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """{number: [value, …]} of a message: integers, and bytes of fixed and of length-delimited fields."""
    found, at = {}, 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            size, at = varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            value, at = data[at : at + size], at + size
            assert len(value) == size
        found.setdefault(tag >> 3, []).append(value)
    return found


def double(value):
    return struct.unpack("<d", value)[0]


def doubles(value):
    return list(struct.unpack(f"<{len(value) // 8}d", value))


def text(value):
    return value.decode()


class Events:
    """Event files of a folder, as TensorBoard's event.proto and summary.proto name their fields."""

    def __init__(self, folder):
        self.scalars, self.histograms, self.tensors, self.plugins, self.versions = {}, {}, {}, {}, []
        self.files = sorted(folder.glob("*tfevents*"))
        for path in self.files:
            for message in records(path.read_bytes()):
                self.add(fields(message))

    def add(self, event):
        assert 1e9 < double(event[1][0]) < 1e10, "wall_time"
        step = event.get(2, [0])[0]
        self.versions += [text(version) for version in event.get(3, [])]
        for summary in event.get(5, []):
            for value in fields(summary).get(1, []):
                value = fields(value)
                tag = text(value[1][0])
                if 2 in value:
                    self.scalars.setdefault(tag, []).append((step, struct.unpack("<f", value[2][0])[0]))
                if 5 in value:
                    self.histograms.setdefault(tag, []).append((step, fields(value[5][0])))
                if 8 in value:
                    self.tensors[tag] = fields(value[8][0])
                if 9 in value:
                    metadata = fields(value[9][0])
                    plugin = fields(metadata[1][0])
                    self.plugins[tag] = (text(plugin[1][0]), plugin.get(2, [b""])[0], metadata[4][0])

    def hparams(self):
        """{name: value} of the session's start, and all three messages."""
        data = {
            tag.split("/")[1]: fields(content)
            for tag, (plugin, content, _) in self.plugins.items()
            if plugin == "hparams"
        }
        start, found = fields(data["session_start_info"][3][0]), {}
        for entry in start.get(1, []):
            entry = fields(entry)
            value = fields(entry[2][0])
            found[text(entry[1][0])] = (
                double(value[2][0]) if 2 in value else text(value[3][0]) if 3 in value else bool(value[4][0])
            )
        return found, data


class TensorBoardTest(ProgramTest):
    def float32(self, value):
        return struct.unpack("<f", struct.pack("<f", value))[0]

    def test_the_checksum_is_crc32c(self):
        self.assertEqual(crc32c(b"123456789"), 0xE3069283)  # its published check value

    def test_a_training_is_all_there(self):
        self.train(trainer__steps=12, trainer__log_every=3, trainer__eval_every=6)
        events = Events(self.folder / "run")
        self.assertEqual(events.versions, ["brain.Event:2"])
        named = {
            "train/loss": "loss",
            "train/learning_rate": "learning_rate",
            "system/memory_mib": "memory_mib",
            "train/candidates_per_second": "candidates_per_second",
            "communication/wait_ms": "comm_wait_ms",
        }
        lines = self.lines_of()
        for tag, name in named.items():
            expected = [(line["step"], self.float32(line[name])) for line in lines if line["kind"] == "train"]
            self.assertEqual(events.scalars[tag], expected, tag)
        for kind, before in (("eval", ""), ("final", "final/")):
            for line in (line for line in lines if line["kind"] == kind):
                for name in (name for name in line if "/" in name):
                    self.assertIn((line["step"], self.float32(line[name])), events.scalars[before + name])
        self.assertEqual([step for step, _ in events.scalars["holdout/opa"]], [6, 12])
        self.assertIn("final/test/opa", events.scalars)

        plugin, content, data_class = events.plugins["settings"]
        self.assertEqual((plugin, content, data_class), ("text", b"", 2))
        tensor = events.tensors["settings"]
        self.assertEqual((tensor[1], fields(fields(tensor[2][0])[2][0])[1]), ([7], [1]))  # DT_STRING, of one element
        self.assertEqual(
            text(tensor[8][0]),
            "```yaml\n" + re.sub("^#.*\n", "", (self.folder / "run/config.yaml").read_text(), flags=re.M) + "```\n",
        )

        values, data = events.hparams()
        self.assertEqual(values["model.hidden"], 16)
        self.assertEqual(values["loss.target"], "log_runtime")
        self.assertIs(values["loss.standardize_target"], True)
        self.assertNotIn("optimizer.learning_rate", values, "it has its default")
        experiment = fields(data["experiment"][2][0])
        types = {text(fields(info)[1][0]): fields(info)[4][0] for info in experiment[4]}
        self.assertEqual((types["model.hidden"], types["loss.target"], types["loss.standardize_target"]), (3, 1, 2))
        self.assertEqual(text(fields(fields(experiment[5][0])[1][0])[2][0]), "holdout/kendall_tau")
        self.assertEqual(fields(data["session_end_info"][4][0])[1], [1])  # STATUS_SUCCESS
        self.assertEqual({plugin[2] for plugin in events.plugins.values()}, {2})  # DATA_CLASS_TENSOR

    def test_distributions_of_scores_against_run_times(self):
        self.train(trainer__steps=4, trainer__eval_every=4)
        events = Events(self.folder / "run")
        rows = [row for row in self.rows("run/rankings.csv") if row["set"] == "holdout"]
        for name in ("scores", "log_runtimes", "place_errors"):
            ((step, histogram),) = events.histograms[f"holdout/distribution/{name}"]
            low, high, count, total, squares = (double(histogram[i][0]) if i in histogram else 0 for i in range(1, 6))
            limits, buckets = doubles(histogram[6][0]), doubles(histogram[7][0])
            self.assertEqual((step, len(limits), buckets[0], limits[0], limits[-1]), (4, len(buckets), 0, low, high))
            self.assertEqual(limits, sorted(set(limits)))
            self.assertEqual((count, sum(buckets)), (len(rows), len(rows)))
            self.assertAlmostEqual(total, 0, places=9)  # each has mean 0 in each group
            if name == "place_errors":
                self.assertTrue(-1 <= low < high <= 1)
            else:
                self.assertAlmostEqual(squares / count, 1)

    def test_a_resumed_run_has_no_step_twice(self):
        changes = dict(trainer__steps=400, trainer__log_every=1, trainer__eval_every=20, checkpoint__every_steps=50)
        process = self.start_training(**changes)
        metrics = self.folder / "run/metrics.jsonl"
        reached = wait_until(lambda: metrics.exists() and len(metrics.read_text().splitlines()) > 75, 0.005)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        self.assertTrue(reached)
        self.train(**changes)
        events = Events(self.folder / "run")
        self.assertEqual(len(events.files), 1)
        self.assertEqual([step for step, _ in events.scalars["train/loss"]], list(range(1, 401)))
        self.assertEqual([step for step, _ in events.scalars["holdout/opa"]], list(range(20, 401, 20)))
        self.assertEqual(events.hparams()[0]["model.hidden"], 16)
        self.train(**{**changes, "run__overwrite": "true"})
        self.assertEqual([step for step, _ in Events(self.folder / "run").scalars["train/loss"]], list(range(1, 401)))

    def test_none_where_it_is_not_wanted(self):
        self.run_foretime(*self.training(), "--no-tensorboard")
        self.assertEqual(list((self.folder / "run").glob("*tfevents*")), [])

    def test_a_trial_has_the_parameters_of_its_sweep(self):
        self.write("base.yaml", BASE.replace("SAMPLES", str(SAMPLES)))
        self.write(
            "sweep.yaml",
            "name: rates\nsettings: base.yaml\nmethod: grid\nmetric: {name: holdout/mae, goal: minimize}\n"
            "parameters:\n  optimizer.learning_rate: {values: [0.01]}\n  model.norm: {values: [layer]}\n",
        )
        self.run_foretime("submit", "sweep.yaml")
        self.run_foretime("agent", "--data-root", SAMPLES, "--until-empty")
        job = self.json_of("status", "--json")["jobs"][0]
        folder = self.folder / "runs" / job["id"] / "attempt-1"
        self.assertEqual(json.loads((folder / "parameters.json").read_text()), job["parameters"])
        values, data = Events(folder).hparams()
        self.assertEqual(values, {"optimizer.learning_rate": 0.01, "model.norm": "layer"})
        metric = fields(fields(data["experiment"][2][0])[5][0])[1][0]
        self.assertEqual(text(fields(metric)[2][0]), "holdout/mae")
