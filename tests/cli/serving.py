"""Modules, candidates and comparisons for tests of foretime serve."""
import json
import random
import struct

from bundles import BundleTest
from hlo_test import field, instruction
from program import wait_until

NODES = (4, 5, 6)  # of the sample module: a convolution, a dot and a reshape
BINARY = {"Content-Type": "application/octet-stream"}


def layouts(seed, count=5):
    """Candidates, and the same as bytes."""
    draw = random.Random(seed)
    rows = [[[draw.randrange(-1, 4) for _ in range(18)] for _ in NODES] for _ in range(count)]
    named = [{"layouts": {str(node): row for node, row in zip(NODES, one)}} for one in rows]
    return named, b"".join(struct.pack("18b", *row) for one in rows for row in one)


def module(name, instructions):
    """A module in one computation, whose last instruction is its root."""
    body = field(1, "main") + b"".join(field(2, instruction(i + 1, *one)) for i, one in enumerate(instructions))
    return field(1, name) + field(3, body + field(5, 9) + field(6, len(instructions)))


def small_module(name):
    return module(name, (("parameter",), ("reshape", (1,), (3, 2)), ("dot", (1, 2), (2, 2))))


class ServeCase(BundleTest):
    def begin_requests(self, pool, server, *requests):
        """Posts them, and returns once all of them wait in the server; posts again where some were answered before that was seen."""
        while True:
            begun = [pool.submit(server.post, *request) for request in requests]
            wait_until(
                lambda: any(one.done() for one in begun) or server.ask("GET", "/healthz")[1]["requests"] == len(begun)
            )
            if not any(one.done() for one in begun):
                return begun
            for one in begun:
                one.result()

    def near(self, found, expected):
        self.assertEqual(len(found), len(expected))
        for a, b in zip(found, expected):
            self.assertAlmostEqual(a, b, delta=1e-5 * max(1.0, abs(b)))

    def refused(self, answer, status, code, text=""):
        self.assertEqual(answer[0], status, answer)
        self.assertEqual(set(answer[1]), {"error"})
        self.assertEqual(answer[1]["error"]["code"], code, answer)
        self.assertIn(text, answer[1]["error"]["message"])

    def ranked(self, bundle, *arguments):
        """Scores of `foretime rank`, by candidate."""
        out = self.run_foretime("rank", bundle, *arguments, "--format", "json").stdout
        return [one["score"] for one in sorted(json.loads(out)[0]["ranking"], key=lambda one: one["candidate"])]
