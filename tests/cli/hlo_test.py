"""HLO protobuf: data inspect and data pack."""

import gzip

from program import ProgramTest


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
    def inspected(self, content, code=0, name="in.pb"):
        return self.run_foretime("data", "inspect", self.write(name, content), code=code)

    def test_layouts(self):
        text = self.inspected(LAYOUTS).stdout
        self.assertRegex(text, r"graphs +1 with 4 nodes of 4 types and 4 edges")
        self.assertRegex(text, r"candidates +2, of which 2 distinct")  # the third run failed
        self.assertRegex(text, r"layouts +2 configurable nodes")
        self.assertRegex(text, r"run times +2 distinct, in ns: mean 25")

    def test_tiles(self):
        self.write("in.pb", TILES)
        reports = self.json_of("data", "inspect", "--json", "in.pb")
        # No measured tile of the third module is marked as the default.
        self.assertEqual([(one["name"], one["candidates"]) for one in reports], [("in_a", 2), ("in_b", 2)])
        self.assertEqual([one["runtimes"]["max"] for one in reports], [1.5, 4])
        self.assertIn(
            "in.pb: module in_c is left out: none of its measured tiles is marked as the default",
            self.run_foretime("data", "inspect", "in.pb").stdout,
        )

    def test_a_module_alone(self):
        self.assertRegex(self.inspected(module(last="erf")).stdout, r"candidates +1, of which 1 distinct")

    def test_a_module_is_known_by_its_content(self):
        """Also named as XLA's dumps of text are, and packed by gzip."""
        plain = self.inspected(LAYOUTS).stdout
        for name, content in (
            ("a.hlo", LAYOUTS),
            ("a.pb.gz", gzip.compress(LAYOUTS)),
            ("a.bin", gzip.compress(LAYOUTS)),
        ):
            with self.subTest(name):
                self.assertEqual(self.inspected(content, name=name).stdout.splitlines()[1:], plain.splitlines()[1:])
                self.run_foretime("data", "pack", "-o", "packed.foretime", name)
                self.run_foretime("data", "verify", "packed.foretime")

    def test_refusals(self):
        for content, message in (
            (LAYOUTS[: len(LAYOUTS) // 2], "in.pb: byte 0: a length past the end of its message"),
            (b"nothing", "in.pb: no instruction with an opcode in it"),
            (b"", "in.pb: found an empty file"),
        ):
            with self.subTest(message):
                self.assertIn(message, self.inspected(content, code=3).stderr)
        self.expect_message(self.run_foretime("data", "inspect", "missing.pb", code=3).stderr, "missing.pb")

    def test_packing_takes_protobuf(self):
        self.write("in.pb", LAYOUTS)
        self.run_foretime("data", "pack", "-o", "packed.foretime", "in.pb")
        self.assertIn("1 groups", self.run_foretime("data", "verify", "packed.foretime").stdout)
        done = self.run_foretime("data", "pack", "-o", "packed.foretime", "in.pb", "--format", "tile", code=3)
        self.expect_message(done.stderr, "in.pb")
