#!/usr/bin/env python3
"""Do the tests notice? Makes one small change at a time to a core file, builds the tests that should see it, runs them.

  tools/mutate.py [--count 200] [--seed 1] [--only GLOB] [--build DIR] [--report FILE] [--list]

A mutant is *killed* when a test fails, crashes or runs out of time; *survives* when all pass; it *does not compile* and is
not counted when the compiler refuses it. tools/mutants_explained.txt lists survivors that no test can kill, each with
its reason: the same behaviour, a matter of speed, a message. Exit code 1 where a survivor is not explained and less than
--least of the mutants that compile are killed.

Works in a copy of the tree (--work DIR), never in this one; the copy's build is kept, so that a second run is quick.
"""

import argparse
import filecmp
import fnmatch
import hashlib
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent.parent
EXPLAINED = HERE / "tools/mutants_explained.txt"

# Files that decide what users get, and the tests that should notice a change, fastest first.
CORE = [
    ("jobs/queue/scripts/*.lua", ["jobs_queue_test", "jobs_queue_property_test"]),
    ("jobs/queue/redis_queue.cpp", ["jobs_queue_test"]),
    ("plans/*.cpp", ["plans_test"]),
    ("data/frontends/ansor/replay/*.cpp", ["data_ansor_test"]),
    ("comm/algorithms/*.cpp", ["comm_threads_test", "comm_test"]),
    ("coordinator/*checkpoint*.cpp", ["coordinator_test"]),
    ("worker/segments/*.cpp", ["worker_segments_test"]),
    ("models/metrics/*.cpp", ["models_ensemble_test", "models_losses_test"]),
    ("models/losses/*.cpp", ["models_losses_test"]),
]

TOKEN = re.compile(r"""
    (?P<skip>//[^\n]*|--[^\n]*|/\*.*?\*/|R"\w*\(.*?\)\w*"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|^[ \t]*\#[^\n]*)
  | (?P<number>\b\d+(?:\.\d+)?\b)
  | (?P<word>\b[A-Za-z_]\w*\b)
  | (?P<operator>->|::|<<|>>|\.\.|<=|>=|==|!=|~=|&&|\|\||\+=|-=|\+\+|--|[-+*/<>!])
""", re.VERBOSE | re.DOTALL | re.MULTILINE)
SWAPS = {
    "<": ["<="], "<=": ["<"], ">": [">="], ">=": [">"], "==": ["!="], "!=": ["=="], "~=": ["=="], "&&": ["||"],
    "||": ["&&"], "+=": ["-="], "-=": ["+="], "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "++": ["--"], "!": [""],
    "true": ["false"], "false": ["true"], "min": ["max"], "max": ["min"], "and": ["or"], "or": ["and"], "not": [""],
    "break": ["continue"], "continue": ["break"], "begin": ["end"], "front": ["back"], "back": ["front"],
}
STATEMENT = re.compile(r"^(?P<indent>[ ]{2,})(?P<text>(?!return|for|if|while|using|auto |const |static |struct |class |case |default|throw|else|break|"
                       r"continue|end\b|local |function|\}|//|--|template|[\w:<>, ]+ \w+(\{[^}]*\}| = [^;]+)?;)[^;{}]*[^;{},(]);?$", re.MULTILINE)


def places_of(path, text):
    """All mutants of a file: (offset, length, replacement, kind)."""
    lua = path.suffix == ".lua"
    found = []
    for match in TOKEN.finditer(text):
        token, kind = match.group(), match.lastgroup
        if kind == "skip" and (token.startswith("--") == lua or not token.startswith("--")):
            continue
        before, after = text[max(0, match.start() - 1):match.start()], text[match.end():match.end() + 1]
        if kind == "number":
            found.append((match.start(), len(token), str(int(token) + 1) if token.isdigit() else "0.0", "constant"))
        elif token in SWAPS:
            if token in "<>" and (before != " " or after != " "):
                continue  # a template's bracket
            if token in "+-*/" and (before != " " or after != " "):
                continue  # a sign, a pointer, a path
            if token in ("min", "max", "begin", "front", "back") and after != "(":
                continue
            for replacement in SWAPS[token]:
                replacement = "~=" if lua and replacement == "!=" else replacement
                found.append((match.start(), len(token), replacement, "operator"))
    for match in STATEMENT.finditer(text):
        if "(" in match.group("text") or " = " in match.group("text"):
            found.append((match.start("text"), match.end() - match.start("text"), "" if lua else ";", "statement"))
    return found


def describe(path, text, place):
    offset, length, replacement, kind = place
    line = text.count("\n", 0, offset) + 1
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    before = text[start:end].strip()
    after = (text[start:offset] + replacement + text[offset + length:max(end, offset + length)]).strip()
    key = hashlib.sha1(f"{path}|{before}|{after}".encode()).hexdigest()[:10]
    return {"key": key, "file": str(path), "line": line, "kind": kind, "before": before, "after": after}


def run(command, cwd, timeout):
    try:
        done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout)
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired:
        return 124, "time-out"


def build(work, targets, jobs):
    return run(["cmake", "--build", str(work / "build/mutants"), "-j", str(jobs), "--target", *targets], work, 1200)


def judge(work, tests, jobs, limit):
    code, output = build(work, tests, jobs)
    if code != 0:
        return "does not compile", output[-300:]
    for test in tests:
        program = next((work / "build/mutants/tests").rglob(test))
        code, output = run(["timeout", str(limit), str(program), "--gtest_brief=1", "--gtest_fail_fast"], work, limit + 30)
        if code != 0:
            failed = re.findall(r"\[  FAILED  \] (\S+)", output)
            return "killed", f"{test}: {failed[0] if failed else 'exit code ' + str(code)}"
    return "survives", ""


def explained():
    if not EXPLAINED.exists():
        return {}
    lines = [line.split(None, 1) for line in EXPLAINED.read_text().splitlines() if line and not line.startswith("#")]
    return {key: reason for key, reason in lines}


def choose(arguments):
    mutants = []
    for pattern, tests in CORE:
        group = []
        for path in sorted(HERE.glob(pattern)):
            relative = path.relative_to(HERE)
            if arguments.only and not fnmatch.fnmatch(str(relative), arguments.only):
                continue
            text = path.read_text()
            group += [(relative, place, tests, describe(relative, text, place)) for place in places_of(relative, text)]
        if group:
            mutants.append(group)
    generator = random.Random(arguments.seed)
    chosen = []
    for group in mutants:  # each area gets its share, the larger ones a little more
        share = max(1, round(arguments.count * len(group) ** 0.5 / sum(len(other) ** 0.5 for other in mutants)))
        chosen += generator.sample(group, min(share, len(group)))
    return chosen, sum(map(len, mutants))


def copy_tree(work):
    """This tree's files; those that are the same already keep their times, so that little is built anew."""
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=HERE, check=True,
                           capture_output=True, text=True).stdout.splitlines()
    for name in names:
        source, target = HERE / name, work / name
        if source.is_file() and not (target.exists() and filecmp.cmp(source, target, shallow=False)):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            shutil.copymode(source, target)
    for path in [path for path in work.rglob("*") if path.is_file() and "build" not in path.relative_to(work).parts[:1]]:
        if str(path.relative_to(work)) not in set(names):
            path.unlink()


def prepare(work, jobs):
    copy_tree(work)
    code, output = run(["cmake", "-S", str(work), "-B", str(work / "build/mutants"), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                        "-DCMAKE_CXX_FLAGS_DEBUG=-O1", "-DFORETIME_BUILD_TESTS=ON", "-DFORETIME_BUILD_BENCH=OFF"], work, 600)
    if code != 0:
        sys.exit(f"mutate.py: the build cannot be configured:\n{output[-2000:]}")
    tests = sorted({test for _, names in CORE for test in names})
    code, output = build(work, tests, jobs)
    if code != 0:
        sys.exit(f"mutate.py: the tests do not build unchanged:\n{output[-2000:]}")
    for test in tests:
        if judge(work, [test], jobs, 900)[0] != "survives":
            sys.exit(f"mutate.py: {test} fails without any change; nothing can be learned from it")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="files that match, for example 'plans/*'")
    parser.add_argument("--work", type=pathlib.Path, default=HERE / "build/mutation")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=int, default=120, help="seconds that one test may take")
    parser.add_argument("--least", type=float, default=0.9, help="share that must be killed or explained")
    parser.add_argument("--report", type=pathlib.Path, help="JSON lines, one a mutant; those in it already are not run again")
    parser.add_argument("--list", action="store_true", help="print the mutants and change nothing")
    arguments = parser.parse_args()
    chosen, total = choose(arguments)
    if not chosen:
        sys.exit("mutate.py: no core file matches")
    print(f"{len(chosen)} of {total} mutants, seed {arguments.seed}")
    if arguments.list:
        for _, _, _, told in chosen:
            print(f"{told['key']} {told['file']}:{told['line']}: {told['before']}  =>  {told['after']}")
        return 0
    prepare(arguments.work, arguments.jobs)
    known = {}
    if arguments.report and arguments.report.exists():
        known = {entry["key"]: entry for entry in map(json.loads, arguments.report.read_text().splitlines())}
    reasons, counts, unexplained = explained(), {}, []
    for path, (offset, length, replacement, _), tests, told in chosen:
        if told["key"] in known:
            verdict, why = known[told["key"]]["verdict"], known[told["key"]]["why"]
        else:
            target, text = arguments.work / path, (HERE / path).read_text()
            began = time.monotonic()
            try:
                target.write_text(text[:offset] + replacement + text[offset + length:])
                verdict, why = judge(arguments.work, tests, arguments.jobs, arguments.limit)
            finally:
                target.write_text(text)
            told["seconds"] = round(time.monotonic() - began, 1)
            if arguments.report:
                with arguments.report.open("a") as file:
                    file.write(json.dumps({**told, "verdict": verdict, "why": why}) + "\n")
        if verdict == "survives" and told["key"] in reasons:
            verdict, why = "explained", reasons[told["key"]]
        counts[verdict] = counts.get(verdict, 0) + 1
        if verdict == "survives":
            unexplained.append(told)
        print(f"{verdict:17} {told['key']} {told['file']}:{told['line']}: {told['before']}  =>  {told['after']}  {why}", flush=True)
    compiled = sum(count for verdict, count in counts.items() if verdict != "does not compile")
    killed = counts.get("killed", 0)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())) +
          f": {killed / max(1, compiled):.1%} of those that compile are killed")
    return 0 if not unexplained and (killed + counts.get("explained", 0)) / max(1, compiled) >= arguments.least else 1


if __name__ == "__main__":
    sys.exit(main())
