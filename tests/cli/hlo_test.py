"""HLO protobuf: data convert and data inspect, and that a group of a .pb file is what other commands take."""

import gzip

import numpy

from program import ProgramTest, data_dir


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, value):
    """A field of a message: bytes, text, or a number."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def packed(values):
    return b"".join(varint(v) for v in values)


def instruction(number, opcode, operands=(), sizes=(2, 3)):
    shape = field(2, 11) + field(3, packed(sizes))
    return (
        field(1, f"{opcode}.{number}")
        + field(2, opcode)
        + field(3, shape)
        + field(35, number)
        + field(36, packed(operands))
    )


def module(name="small", last="add"):
    body = field(1, "main")
    for one in (
        instruction(1, "parameter"),
        instruction(2, "reshape", (1,), (3, 2)),
        instruction(3, "dot", (1, 2), (2, 2)),
        instruction(4, last, (3, 3), (2, 2)),
    ):
        body += field(2, one)
    return field(1, name) + field(3, body + field(5, 9) + field(6, 4))


def layout_run(rows, nanoseconds, error=False):
    nodes = b"".join(field(1, b"".join(field(1, field(1, packed(t))) for t in tensors)) for tensors in rows)
    return field(2, field(1, nodes)) + field(3, int(error)) + field(4, field(4, nanoseconds))


def tile_run(output, nanoseconds, default=False):
    return field(1, field(1, field(2, packed(output)))) + field(4, field(4, nanoseconds)) + field(5, int(default))


def tuning(one, runs, nodes=()):
    return field(1, one) + field(2, 77) + b"".join(field(3, run) for run in runs) + field(4, packed(nodes))


LAYOUTS = tuning(
    module(),
    [
        layout_run([[(1, 0)], [(0, 1), (1, 0)]], 30),
        layout_run([[(0, 1)], [(1, 0)]], 20),
        layout_run([[(0, 1)], [(1, 0)]], 5, error=True),
    ],
    (1, 2),
)
TILES = (
    field(1, tuning(module("a"), [tile_run((4, 8), 30), tile_run((2,), 20, default=True)]))
    + field(1, tuning(module("b"), [tile_run((1,), 10, default=True), tile_run((3,), 40)]))
    + field(1, tuning(module("c"), [tile_run((1,), 10)]))
)


class HloTest(ProgramTest):
    def convert(self, content, out, *options, code=0):
        return self.run_foretime("data", "convert", self.write("in.pb", content), out, *options, code=code)

    def test_layouts_become_one_file(self):
        out = self.convert(LAYOUTS, "out.npz").stdout
        self.assertEqual(
            out, "out.npz: layout, 4 nodes, 4 edges, 2 configurable, 2 candidates (1 runs failed and left out)\n"
        )
        arrays = numpy.load(self.folder / "out.npz")
        self.assertEqual(
            {name: (array.dtype.str, array.shape) for name, array in arrays.items()},
            {
                "node_feat": ("<f4", (4, 140)),
                "node_opcode": ("|u1", (4,)),
                "edge_index": ("<i8", (4, 2)),
                "node_config_feat": ("<f4", (2, 2, 18)),
                "node_config_ids": ("<i8", (2,)),
                "node_splits": ("<i8", (1, 2)),
                "config_runtime": ("<i8", (2,)),
            },
        )
        self.assertTrue(numpy.isfortran(arrays["edge_index"]))
        self.assertEqual(arrays["node_opcode"].tolist(), [63, 75, 34, 2])
        self.assertEqual(arrays["edge_index"].tolist(), [[1, 0], [2, 0], [2, 1], [3, 2]])
        self.assertEqual(arrays["node_config_feat"][0, 1].tolist(), [0, 1, -1, -1, -1, -1, 1, 0] + 10 * [-1])
        self.assertEqual(arrays["config_runtime"].tolist(), [30, 20])
        report = self.run_foretime("data", "inspect", "out.npz").stdout
        direct = self.run_foretime("data", "inspect", self.folder / "in.pb").stdout
        self.assertEqual(direct.splitlines()[1:], report.splitlines()[1:])

    def test_tiles_become_a_folder(self):
        out = self.convert(TILES, "tiles").stdout
        self.assertIn("tiles/in_a.npz: tile, 4 nodes, 4 edges, 2 candidates\n", out)
        self.assertIn("in_c: left out: none of its measured tiles is marked as the default", out)
        self.assertEqual(sorted(path.name for path in (self.folder / "tiles").iterdir()), ["in_a.npz", "in_b.npz"])
        arrays = numpy.load(self.folder / "tiles" / "in_a.npz")
        self.assertFalse(numpy.isfortran(arrays["edge_index"]))
        self.assertEqual(arrays["config_feat"].shape, (2, 24))
        self.assertEqual(arrays["config_feat"][0].tolist(), 8 * [0] + [4, 8, 0, 0, 0, 0, 12, 32] + 8 * [0])
        self.assertEqual(arrays["config_runtime_normalizers"].tolist(), [20, 20])
        done = self.convert(TILES, "one.npz", code=3)
        self.assertIn("in.pb: 2 groups, but one.npz can hold one: name a folder instead", done.stderr)

    def test_a_module_alone(self):
        out = self.convert(module(last="erf"), "out.npz").stdout
        self.assertIn("2 configurable, no runs: one candidate without layouts and run time\n", out)
        self.assertIn("  1 nodes of opcode erf, which TpuGraphs has no number for: type 0\n", out)
        self.assertEqual(numpy.load(self.folder / "out.npz")["config_runtime"].tolist(), [0])
        self.assertEqual(self.convert(module(last="erf"), "out.npz", "--message", "HloModuleProto").stdout, out)
        self.assertIn(
            "candidates  1, of which 1 distinct", self.run_foretime("data", "inspect", self.folder / "in.pb").stdout
        )

    def test_a_module_is_known_by_its_content(self):
        """Also named as XLA's dumps of text are, and packed by gzip."""
        plain = self.run_foretime("data", "inspect", self.write("a.pb", LAYOUTS)).stdout
        for name, content in (
            ("a.hlo", LAYOUTS),
            ("a.pb.gz", gzip.compress(LAYOUTS)),
            ("a.bin", gzip.compress(LAYOUTS)),
        ):
            with self.subTest(name):
                path = self.write(name, content)
                self.assertEqual(
                    self.run_foretime("data", "inspect", path).stdout.splitlines()[1:], plain.splitlines()[1:]
                )
                self.assertIn("2 candidates", self.run_foretime("data", "convert", path, "out.npz").stdout)
                self.run_foretime("data", "pack", "-o", "packed.foretime", path)
                self.run_foretime("data", "verify", "packed.foretime")

    def test_refusals(self):
        for content, options, message in (
            (LAYOUTS[: len(LAYOUTS) // 2], (), "in.pb: byte 0: a length past the end of its message"),
            (b"nothing", (), "in.pb: no instruction with an opcode in it"),
            (b"", (), "in.pb: found an empty file"),
            (module(), ("--message", "TuningData"), "in.pb: "),
            (module(), ("--max-nodes", "3"), "in.pb: module small: more than 3 instructions, which is the limit"),
        ):
            with self.subTest(message):
                self.assertIn(message, self.convert(content, "out.npz", *options, code=3).stderr)
                self.assertFalse((self.folder / "out.npz").exists())
        self.assertIn(
            "missing.pb: cannot be read: No such file",
            self.run_foretime("data", "convert", "missing.pb", "x.npz", code=3).stderr,
        )
        self.convert(module(), "out.npz", "--message", "Module", code=2)
        self.convert(module(), "out.npz", "--max-nodes", "0", code=2)
        self.write("taken", "a file")
        self.assertIn("taken: cannot be created: Not a directory", self.convert(TILES, "taken", code=3).stderr)

    def test_packing_takes_protobuf(self):
        self.write("in.pb", LAYOUTS)
        self.run_foretime("data", "pack", "-o", "packed.foretime", "in.pb")
        self.assertIn("1 groups", self.run_foretime("data", "verify", "packed.foretime").stdout)
        done = self.run_foretime("data", "pack", "-o", "packed.foretime", "in.pb", "--format", "tile", code=3)
        self.assertIn("in.pb: holds layout data, expected tile", done.stderr)

    def test_published_files(self):
        if data_dir() is None:
            self.skipTest("needs the public data sets")
        folder = data_dir() / "tpugraphs"
        out = self.run_foretime("data", "convert", folder / "pb/module_tuning_data_layout.pb", "unet.npz").stdout
        self.assertIn(
            "layout, 3163 nodes, 5112 edges, 62 configurable, 112 candidates (10 runs failed and left out)", out
        )
        ours, theirs = numpy.load(self.folder / "unet.npz"), numpy.load(
            folder / "npz/layout/xla/default/valid/unet_3d.4x4.bf16.npz"
        )
        for name in ("node_feat", "node_opcode", "edge_index", "node_config_ids", "node_splits"):
            self.assertTrue(numpy.array_equal(ours[name], theirs[name]), name)
            self.assertEqual(
                (ours[name].dtype, numpy.isfortran(ours[name])), (theirs[name].dtype, numpy.isfortran(theirs[name]))
            )
