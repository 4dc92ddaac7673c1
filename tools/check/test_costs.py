#!/usr/bin/env python3
"""Runs the tests and prints the seconds of CPU that each took with all its processes, by the kernel's process accounting.
Two cores are busy for as long as the tests together need, so this shows where their time goes. Needs root and Debian's acct.

  tools/check/test_costs.py [CTEST_ARGUMENT …]     after a build; by default all tests, as tools/test.sh runs them
"""

import collections
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORD = struct.Struct("<BBHIIIIIIf8H16s")  # acct_v3 of linux/acct.h
TICKS = os.sysconf("SC_CLK_TCK")

Process = collections.namedtuple("Process", "number parent began seconds cpu command")


def seconds_of(value):
    """A comp_t: 13 bits, and an exponent of 3 bits with the base 8, in ticks."""
    return ((value & 0x1FFF) << (3 * (value >> 13))) / TICKS


def read_accounts(path):
    """The processes in the order in which they ended."""
    for fields in RECORD.iter_unpack(path.read_bytes()):
        number, parent, began, elapsed = fields[6:10]
        cpu = seconds_of(fields[10]) + seconds_of(fields[11])
        yield Process(number, parent, began, elapsed / TICKS, cpu, fields[18].split(b"\0")[0].decode())


def run_tests(words):
    """Runs ctest; its process number, and of each test its name, when it began and how many seconds it took."""
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    began, tests = {}, []
    for line in process.stdout:
        print(line, end="", flush=True)
        if found := re.match(r" +Start +\d+: (\S+)", line):
            began[found[1]] = time.time()
        elif found := re.match(r" *\d+/\d+ +Test +#\d+: (\S+) .* ([\d.]+) sec", line):
            tests.append((found[1], began[found[1]], float(found[2])))
    process.wait()
    return process.pid, tests


def costs(processes, ctest, tests):
    """The CPU of each test by command; None has what belongs to no test, such as daemons that outlived their parents."""
    by_number = collections.defaultdict(list)
    for place, process in enumerate(processes):
        by_number[process.number].append((place, process))
    roots = {}
    for place, process in enumerate(processes):
        if process.parent == ctest:
            off = {
                name: abs(process.began - began) + 10 * abs(process.seconds - seconds) for name, began, seconds in tests
            }
            nearest = min(off, key=off.get, default=None)
            roots[place] = nearest if nearest and off[nearest] < 20 else None

    def test_of(place):
        while place not in roots:
            parents = [other for other, _ in by_number[processes[place].parent] if other > place]
            if not parents:
                return None
            place = parents[0]
        return roots[place]

    found = collections.defaultdict(collections.Counter)
    for place, process in enumerate(processes):
        found[test_of(place)][process.command] += process.cpu
    return found


def main():
    with tempfile.NamedTemporaryFile(prefix="test_costs.") as accounts:
        if subprocess.run(["accton", accounts.name], stdout=subprocess.DEVNULL, check=False).returncode != 0:
            sys.exit("test_costs.py: accton cannot start process accounting: it needs root and Debian's package acct")
        try:
            ctest, tests = run_tests(["ctest", "--preset", "release", "-j", "6", *sys.argv[1:]])
        finally:
            subprocess.run(["accton", "off"], stdout=subprocess.DEVNULL, check=False)
        found = costs(list(read_accounts(pathlib.Path(accounts.name))), ctest, tests)
    took = {name: seconds for name, _, seconds in tests}
    print("\n   CPU s  took s  test")
    for name, commands in sorted(found.items(), key=lambda item: -item[1].total()):
        most = ", ".join(f"{command} {cpu:.1f}" for command, cpu in commands.most_common(3))
        print(f"{commands.total():8.1f} {took.get(name, 0):7.1f}  {name or 'processes of no test'}: {most}")
    print(f"{sum(commands.total() for commands in found.values()):8.1f}          in all")


if __name__ == "__main__":
    main()
