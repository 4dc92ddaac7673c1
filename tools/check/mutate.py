#!/usr/bin/env python3
"""Do the tests notice? Makes one small change at a time to a core file, builds the tests that should see it, runs them.

  tools/check/mutate.py [--count 208] [--seed 1] [--only PATTERN] [--work DIR] [--least 0.9] [--list]

The places are drawn at random from the AREAS below, at least 15 in each that compile, and those of FIXED are always among
them. A mutant is *killed* when a test fails, crashes or runs out of time; it *survives* when all pass; it *does not
compile* and is not counted when the compiler refuses it, and another one is drawn. tools/check/mutants_explained.txt lists
survivors that no test can kill, each with its reason: the same behaviour, a matter of speed, a message. Exit code 1 where
a survivor is not explained, or less than --least of the mutants that compile are killed.

Works in a copy of the tree (--work DIR), never in this one. What was found there (results.jsonl) holds as long as the
mutated file is the same: a second run builds and runs survivors only, which a new test may kill. --forget starts anew.
"""

import argparse
import collections
import filecmp
import fnmatch
import hashlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parents[2]
EXPLAINED = HERE / "tools/check/mutants_explained.txt"
SCRIPTS = "jobs/queue/scripts"

# Files that decide what users get, and the tests that should notice a change, in the order in which they are run.
AREAS = {
    "queue scripts": ([SCRIPTS + "/**/*.lua"], ["jobs_queue_test", "jobs_queue_property_test"]),
    "plans": (["plans/*.cpp"], ["plans_test", "models_test", "inference_test", "sharding_test", "data_test"]),
    "replay": (["data/frontends/ansor/replay/*.cpp"], ["data_ansor_test"]),
    "reducer": (["comm/algorithms/*.cpp"], ["comm_threads_test", "comm_test", "worker_test"]),
    "checkpoints": (
        ["coordinator/checkpoint_store.cpp"],
        ["coordinator_test", "simulation_power_loss_test", "worker_test"],
    ),
    "history": (["worker/segments/segment_history.cpp"], ["worker_test"]),
    "metrics": (["metrics/*.cpp"], ["metrics_test", "worker_test"]),
    "losses": (["models/losses/*.cpp"], ["models_test", "worker_test"]),
}
LEAST_OF_AREA = 15

# Changes that once survived.
FIXED = [
    (
        "worker/segments/segment_history.cpp",
        "block.sample_index = std::max(block.sample_index, sample_index);",
        "block.sample_index = sample_index;",
    ),
    ("data/frontends/ansor/replay/replay.cpp", "if (inner.kind != fused.kind) fused.kind = IteratorKind::mixed;", ";"),
]

COMMENTS = {False: r"//[^\n]*|/\*.*?\*/|^[ \t]*\#[^\n]*", True: r"--[^\n]*"}
TOKEN = r"""
    (?P<skip>%s|R"\w*\(.*?\)\w*"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
  | (?P<number>\b\d+(?:\.\d+)?\b)
  | (?P<word>\b[A-Za-z_]\w*\b)
  | (?P<end>;|\n)
  | (?P<operator>->|::|<<|>>|\.\.|<=|>=|==|!=|~=|&&|\|\||\+=|-=|\+\+|--|[-+*/<>!])
"""
TOKENS = {lua: re.compile(TOKEN % comment, re.VERBOSE | re.DOTALL | re.MULTILINE) for lua, comment in COMMENTS.items()}
SWAPS = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "~=": "==",
    "&&": "||",
    "||": "&&",
    "+=": "-=",
    "-=": "+=",
    "+": "-",
    "-": "+",
    "*": "/",
    "/": "*",
    "++": "--",
    "!": "",
    "true": "false",
    "false": "true",
    "min": "max",
    "max": "min",
    "and": "or",
    "or": "and",
    "not": "",
    "break": "continue",
    "continue": "break",
    "begin": "end",
    "front": "back",
    "back": "front",
}
STATEMENT = re.compile(
    r"^(?P<indent>[ ]{2,})(?P<text>(?!return|for|if|while|using|auto |const |static |struct |class |case |default|throw|else|break|"
    r"continue|end\b|local |function|\}|//|--|template|[\w:<>, ]+ \w+(\{[^}]*\}| = [^;]+)?;)[^;{}]*[^;{},(]);?$",
    re.MULTILINE,
)

Mutant = collections.namedtuple("Mutant", "key area path content offset length replacement line before after")


def text_of(mutant):
    return mutant.content[: mutant.offset] + mutant.replacement + mutant.content[mutant.offset + mutant.length :]


def places_of(text, lua):
    """All places of a file: (offset, length, replacement). What follows a text with spaces in it, a message, is left out
    until the statement ends."""
    found, message = [], False
    for match in TOKENS[lua].finditer(text):
        token, kind = match.group(), match.lastgroup
        if kind == "skip":
            message = message or (token[0] in "\"'" and " " in token and not lua)
        elif kind == "end":
            message = message and token != ";"
        elif message:
            continue
        elif kind == "number":
            found.append(
                (
                    match.start(),
                    len(token),
                    str(int(token) + 1) if token.isdigit() else "0.0" if float(token) else "1.0",
                )
            )
        elif token in SWAPS:
            before, after = text[max(0, match.start() - 1) : match.start()], text[match.end() : match.end() + 1]
            if token in ("<", ">", "+", "-", "*", "/", "&&", "||") and (before != " " or after != " "):
                continue  # a template's bracket, a sign, a pointer, a reference
            if token in "+-/" and (text[match.end() + 1] in "\"'" or text[match.start() - 2] in "\"'"):
                continue  # of texts and paths: refused by the compiler
            if token in ("min", "max", "begin", "front", "back") and after != "(":
                continue
            found.append((match.start(), len(token), SWAPS[token].replace("!=", "~=") if lua else SWAPS[token]))
    for match in STATEMENT.finditer(text):
        if ("(" in match.group("text") or " = " in match.group("text")) and ".reserve(" not in match.group("text"):
            found.append((match.start("text"), match.end() - match.start("text"), "" if lua else ";"))
    return found


def mutant_of(area, path, text, place, seen):
    offset, length, replacement = place
    start, end = text.rfind("\n", 0, offset) + 1, text.find("\n", offset + length)
    before = text[start:end].strip()
    after = (text[start:offset] + replacement + text[offset + length : end]).strip()
    same = f"{path}|{before}|{after}"
    seen[same] += 1
    key = hashlib.sha1(f"{same}|{seen[same]}".encode()).hexdigest()[:10]
    return Mutant(key, area, path, text, offset, length, replacement, text.count("\n", 0, offset) + 1, before, after)


def all_mutants(arguments):
    """By area: those of FIXED, then the others in an order that depends on the seed and on each one's text alone."""
    areas = {}
    for area, (patterns, _) in AREAS.items():
        fixed, drawn = [], []
        for path in sorted(path for pattern in patterns for path in HERE.glob(pattern)):
            name = str(path.relative_to(HERE))
            text, seen = path.read_text(), collections.Counter()
            drawn += [mutant_of(area, name, text, place, seen) for place in places_of(text, path.suffix == ".lua")]
            for file, before, after in FIXED:
                if file != name:
                    continue
                if before not in text:
                    sys.exit(f"mutate.py: {file} no longer holds {before!r}, which FIXED changes")
                fixed.append(mutant_of(area, name, text, (text.index(before), len(before), after), seen))
        drawn.sort(key=lambda mutant: hashlib.sha1(f"{arguments.seed}|{mutant.key}".encode()).digest())
        if drawn:
            areas[area] = (len(fixed), fixed + drawn)
    return areas


def shares_of(areas, count):
    """How many of each area: the larger ones get more, by the root of their size."""
    weight = {area: len(mutants) ** 0.5 for area, (_, mutants) in areas.items()}
    return {
        area: fixed + max(LEAST_OF_AREA, round(count * weight[area] / sum(weight.values())))
        for area, (fixed, _) in areas.items()
    }


def copy_tree(work):
    """This tree's files; those that are the same already keep their times, so that little is built anew."""
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=HERE,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    for name in names:
        source, target = HERE / name, work / name
        if source.is_file() and not (target.exists() and filecmp.cmp(source, target, shallow=False)):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            shutil.copymode(source, target)
    kept = set(names)
    for path in [path for path in work.rglob("*") if path.is_file() and path.relative_to(work).parts[0] != "build"]:
        if str(path.relative_to(work)) not in kept:
            path.unlink()


class Workshop:
    """The copy and its build."""

    def __init__(self, work, jobs, scripts_from):
        self.tree, self.build, self.jobs, self.scripts_from = work / "tree", work / "build", jobs, scripts_from
        self.baseline_file, self.patched = work / "baseline.json", work / "patched"
        self.kept = work / "unchanged"  # test programs
        for folder in (self.patched, self.kept):
            folder.mkdir(exist_ok=True)
        self.baseline = {}
        # Of other programs' caches: a mutant is compiled once and never again.
        self.environment = {
            **os.environ,
            "CCACHE_READONLY": "1",
            "OMP_NUM_THREADS": "1",
            "OMP_WAIT_POLICY": "passive",
            "RC_PARAMS": "seed=1",
        }

    def run(self, command, timeout, environment=None):
        """Its exit code and output; 124 after the time-out. Nothing that it started is left."""
        limit = lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        process = subprocess.Popen(
            command,
            cwd=self.tree,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment or self.environment,
            start_new_session=True,
            preexec_fn=limit,
        )
        try:
            output, _ = process.communicate(timeout=timeout)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return 124, "time-out"
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.communicate()

    def make(self, targets, environment=None):
        return self.run(["ninja", "-C", str(self.build), "-j", str(self.jobs), *targets], 3600, environment)

    def program(self, test):
        other = self.scripts_from is not None and test in AREAS["queue scripts"][1]
        return next(((self.scripts_from if other else self.build) / "tests").rglob(test))

    def test(self, program, gtest_filter, limit, more=()):
        start = 'source tools/mpi_env.sh; ulimit -v 16000000; exec "$@"'
        return self.run(
            [
                "bash",
                "-c",
                start,
                "test",
                str(program),
                "--gtest_brief=1",
                "--gtest_fail_fast",
                f"--gtest_filter={gtest_filter}",
                *more,
            ],
            limit,
        )

    def prepare(self, areas):
        copy_tree(self.tree)
        self.baseline = json.loads(self.baseline_file.read_text()) if self.baseline_file.exists() else {}
        if self.scripts_from is not None and list(areas) == ["queue scripts"]:
            return
        # Files that are mutated are compiled alone, all others joined: both are quick then. Indices past an end are
        # noticed, as they are by sanitizers.
        alone = sorted(
            {mutant.path for _, mutants in areas.values() for mutant in mutants if not mutant.path.endswith(".lua")}
        )
        code, output = self.run(
            [
                "cmake",
                "-S",
                str(self.tree),
                "-B",
                str(self.build),
                "-G",
                "Ninja",
                "-DCMAKE_BUILD_TYPE=Debug",
                "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -D_GLIBCXX_ASSERTIONS",
                "-DFORETIME_UNITY=ON",
                "-DFORETIME_ALONE=" + ";".join(alone),
                "-DFORETIME_WERROR=OFF",
                "-DFORETIME_BUILD_BENCH=OFF",
                "-DCMAKE_EXE_LINKER_FLAGS=" + linker(),
            ],
            600,
        )
        if code != 0:
            sys.exit(f"mutate.py: the build cannot be configured:\n{output[-2000:]}")

    def prepare_area(self, area):
        """Builds its tests without any change, and runs those that are new."""
        if area != "queue scripts" or self.scripts_from is None:
            code, output = self.make(AREAS[area][1], dict(os.environ))
            if code != 0:
                sys.exit(f"mutate.py: the tests do not build unchanged:\n{output[-2000:]}")
        for test in AREAS[area][1]:
            digest = hashlib.sha1(self.program(test).read_bytes()).hexdigest()
            if self.baseline.get(test, {}).get("digest") != digest or not (self.kept / test).exists():
                shutil.copy(self.program(test), self.kept / test)
                self.baseline[test] = {"digest": digest, **self.measure(test)}
                self.baseline_file.write_text(json.dumps(self.baseline))

    def measure(self, test):
        """What a test takes without any change: in all, and its cases, in two parts of which the first is quick."""
        file = self.kept / "cases.json"
        for last in (False, False, True):  # a busy machine fails tests, too
            began = time.monotonic()
            code, output = self.test(self.program(test), "*", 900, [f"--gtest_output=json:{file}"])
            if code == 0:
                break
            failed = ", ".join(dict.fromkeys(re.findall(r"\[  FAILED  \] ([\w./]+)", output))) or output[-2000:]
            print(f"{test} fails without any change: {failed}", flush=True)
            if last:
                sys.exit("mutate.py: nothing can be learned from a test that fails without any change")
        quick, all_cases = [], 0
        for suite in json.loads(file.read_text())["testsuites"]:
            for case in suite["testsuite"]:
                all_cases += 1
                if float(case["time"].rstrip("s")) < 0.1:
                    quick.append(f"{suite['name']}.{case['name']}")
        seconds = time.monotonic() - began
        print(f"{test}: {all_cases} cases pass unchanged in {seconds:.1f} s", flush=True)
        # Where most cases are slow, or all are quick, one part will do; so it must where the line would be too long.
        split = 0 < len(quick) < all_cases and sum(map(len, quick)) < 100000 and seconds > 2
        return {"seconds": seconds, "parts": [":".join(quick), "-" + ":".join(quick)] if split else ["*"]}

    def patch(self, test, mutant):
        """A copy of a test program, whose part the script is, as text: nothing is compiled. Indentation makes room for what is longer."""
        # The program has the first line of a script, its flags, in front of the modules, and the modules once for each
        # script.
        flags = mutant.content.index("\n") + 1 if mutant.content.startswith("#!") else 0
        program, new = self.program(test).read_bytes(), text_of(mutant)[flags:]
        old = mutant.content[flags:].encode()
        if old not in program:
            sys.exit(f"mutate.py: {test} does not hold the text of {mutant.path}")
        lines = new.split("\n")
        for at, line in enumerate(lines):
            longer = len("\n".join(lines).encode()) - len(old)
            if longer > 0 and line.startswith(" "):
                lines[at] = line[min(longer, len(line) - len(line.lstrip())) :]
        patched = "\n".join(lines).encode()
        if len(patched) > len(old):
            sys.exit(f"mutate.py: {mutant.path} has no indentation to make room")
        (self.patched / test).write_bytes(program.replace(old, patched + b"\n" * (len(old) - len(patched))))
        (self.patched / test).chmod(0o755)

    def failure(self, test, program, part, limit):
        """The case that fails, time-out or exit code; "" where all pass. A busy machine fails tests, too: a case counts
        that fails twice, and passes then without the change."""
        for _ in range(3):
            code, output = self.test(program, part, limit)
            if code == 0:
                return ""
            failed = re.findall(r"\[  FAILED  \] ([\w./]+)", output)
            if not failed and code != 124:
                return f"exit code {code}"
            if not failed and self.test(self.kept / test, part, limit)[0] == 0:
                return "time-out"
            if not failed:
                continue
            if self.test(program, failed[0], limit)[0] != 0 and self.test(self.kept / test, failed[0], limit)[0] == 0:
                return failed[0]
        return ""

    def judge(self, mutant):
        """The verdict and the reason for it."""
        file, script = self.tree / mutant.path, mutant.path.endswith(".lua")
        try:
            if not script:
                file.write_text(text_of(mutant))
            for test in AREAS[mutant.area][1]:
                if script:
                    self.patch(test, mutant)
                else:
                    code, output = self.make([test])
                    if code != 0:
                        return "does not compile", next(iter(re.findall(r"error: (.*)", output)), output[-200:])
                program = self.patched / test if script else self.program(test)
                for part in self.baseline[test]["parts"]:
                    why = self.failure(test, program, part, 15 + 4 * self.baseline[test]["seconds"])
                    if why:
                        return "killed", f"{test}: {why}"
            return "survives", ""
        finally:
            if not script:
                file.write_text(mutant.content)


def linker():
    return next((f"-fuse-ld={name}" for name in ("lld", "gold") if shutil.which(f"ld.{name}")), "")


def explained():
    lines = EXPLAINED.read_text().splitlines() if EXPLAINED.exists() else []
    return dict(line.split(None, 1) for line in lines if line and not line.startswith("#"))


class Results:
    """What is known of mutants, by their text and their file's."""

    def __init__(self, file, forget):
        self.file = file
        if forget:
            file.unlink(missing_ok=True)
        entries = map(json.loads, file.read_text().splitlines()) if file.exists() else []
        self.known = {(entry["key"], entry["content"]): entry for entry in entries}

    @staticmethod
    def digest(mutant):
        return hashlib.sha1(mutant.content.encode()).hexdigest()[:10]

    def find(self, mutant):
        entry = self.known.get((mutant.key, self.digest(mutant)))
        return entry if entry and entry["verdict"] != "survives" else None

    def add(self, mutant, verdict, why, seconds):
        entry = {
            "key": mutant.key,
            "content": self.digest(mutant),
            "area": mutant.area,
            "file": mutant.path,
            "line": mutant.line,
            "before": mutant.before,
            "after": mutant.after,
            "verdict": verdict,
            "why": why,
            "seconds": round(seconds, 1),
        }
        with self.file.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        return entry


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=208, help="mutants that compile, over all areas (default 208)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="an area, or files that match, for example 'plans/*'")
    parser.add_argument("--work", type=pathlib.Path, default=HERE / "build/mutation")
    parser.add_argument(
        "--scripts-from",
        type=lambda text: pathlib.Path(text).resolve(),
        help="a build of this tree whose tests are used for the queue's scripts, which needs no build then",
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--least", type=float, default=0.9, help="share that must be killed (default 0.9)")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="the first test of each area only; a run without it goes on with the survivors",
    )
    parser.add_argument("--forget", action="store_true", help="run all mutants again")
    parser.add_argument("--list", action="store_true", help="print the first mutants of each area and change nothing")
    arguments = parser.parse_args()
    if arguments.quick:
        for _, tests in AREAS.values():
            del tests[1:]
    areas = all_mutants(arguments)
    shares = shares_of(areas, arguments.count)
    if arguments.only:
        chosen = {
            area: [
                mutant for mutant in mutants if arguments.only == area or fnmatch.fnmatch(mutant.path, arguments.only)
            ]
            for area, (_, mutants) in areas.items()
        }
        areas = {area: (0, mutants) for area, mutants in chosen.items() if mutants}
    if not areas:
        sys.exit("mutate.py: no core file matches; the areas are " + ", ".join(AREAS))
    print(
        f"{sum(shares[area] for area in areas)} of {sum(len(mutants) for _, mutants in areas.values())} mutants, seed {arguments.seed}"
    )
    if arguments.list:
        for area, (_, mutants) in areas.items():
            for mutant in mutants[: shares[area]]:
                print(f"{mutant.key} {mutant.path}:{mutant.line}: {mutant.before}  =>  {mutant.after}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that tests do not outlive it
    arguments.work.mkdir(parents=True, exist_ok=True)
    workshop = Workshop(arguments.work.resolve(), arguments.jobs, arguments.scripts_from)
    workshop.prepare(areas)
    results, reasons = Results(arguments.work / "results.jsonl", arguments.forget), explained()
    counts = {area: collections.Counter() for area in areas}
    for area, (_, mutants) in areas.items():
        workshop.prepare_area(area)
        for mutant in mutants:
            if sum(counts[area].values()) - counts[area]["does not compile"] == shares[area]:
                break
            entry = results.find(mutant)
            if not entry and mutant.key in reasons:
                entry = {"verdict": "explained", "why": reasons[mutant.key]}
            if not entry:
                began = time.monotonic()
                verdict, why = workshop.judge(mutant)
                entry = results.add(mutant, verdict, why, time.monotonic() - began)
            verdict = entry["verdict"]
            counts[area][verdict] += 1
            print(
                f"{verdict:17} {mutant.key} {mutant.path}:{mutant.line}: {mutant.before}  =>  {mutant.after}  {entry['why']}",
                flush=True,
            )
    total = sum(counts.values(), collections.Counter())
    print(f"{'area':15} {'compiled':>8} {'killed':>6} {'explained':>9} {'survives':>8}")
    for area, count in [*counts.items(), ("all", total)]:
        compiled = sum(count.values()) - count["does not compile"]
        print(
            f"{area:15} {compiled:8} {count['killed']:6} {count['explained']:9} {count['survives']:8}  {count['killed'] / max(1, compiled):.1%} killed"
        )
    compiled = sum(total.values()) - total["does not compile"]
    return 0 if total["survives"] == 0 and total["killed"] >= arguments.least * compiled else 1


if __name__ == "__main__":
    sys.exit(main())
