#!/usr/bin/env python3
"""Compiles sources one by one, as the presets without FORETIME_UNITY do, but makes no objects. Joined sources hide a missing
declaration or include where another source of the same target has it.

  tools/check/check_alone.py [BRANCH]         sources that differ from BRANCH (default: main), and some that include a header that
                                              does; where nothing differs, those of the newest commits
  tools/check/check_alone.py --only TEXT …    sources whose path contains one of the texts
  tools/check/check_alone.py --all            every source, tests and benchmarks too
"""
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/debug"
MOST_INCLUDING = 40  # sources that include a changed header: of a header that all include, --all checks the others
MOST_NEWEST = 12
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def output_of(*words):
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def changed_files(branch):
    """Names of sources and headers; a clone may know the branch by another name, or not at all."""
    for name in (branch, f"origin/{branch}", "HEAD"):
        found = subprocess.run(["git", "merge-base", "HEAD", name], cwd=ROOT, capture_output=True, text=True)
        if found.returncode == 0:
            changed = output_of(
                "git", "diff", "--name-only", "--diff-filter=d", found.stdout.strip(), "--", "*.cpp", "*.h"
            ).split()
            return set(changed) or newest_sources()
    return set()


def newest_sources():
    """At most MOST_NEWEST sources, those that the newest commits have changed: what a clone of the branch itself checks."""
    names = output_of("git", "log", "-50", "--name-only", "--no-merges", "--format=", "--", "*.cpp").split()
    return set([name for name in dict.fromkeys(names) if (ROOT / name).exists()][:MOST_NEWEST])


def concerned(names, changed):
    """Those of `names` that have changed, and at most MOST_INCLUDING of those that include a header that has."""
    including = [
        name
        for name in names
        if name not in changed and changed.intersection(INCLUDE.findall((ROOT / name).read_text(encoding="utf-8")))
    ]
    if len(including) > MOST_INCLUDING:
        print(
            f"check_alone.py: {len(including)} sources include changed headers; {MOST_INCLUDING} of them are checked, --all checks all"
        )
    return [name for name in names if name in changed] + including[:MOST_INCLUDING]


def commands():
    """The compiler's command for each source of the project, after what sources include has been made."""
    jobs = output_of("tools/build_jobs.sh").strip()
    output_of("cmake", "--preset", "debug", "-DFORETIME_BUILD_TESTS=ON", "-DFORETIME_BUILD_BENCH=ON")
    made = re.findall(
        r"^((?:generated|build_info)/\S+\.h): CUSTOM_COMMAND",
        output_of("ninja", "-C", BUILD, "-t", "targets", "all"),
        re.M,
    )
    output_of("ninja", "-C", BUILD, "-j", jobs, "foretime_torch_pch", *made)
    found = {}
    for entry in json.loads(output_of("ninja", "-C", BUILD, "-t", "compdb")):
        path = pathlib.Path(entry["file"])
        if path.suffix == ".cpp" and path.is_relative_to(ROOT) and not path.is_relative_to(BUILD):
            words = re.sub(r" -MD -MT \S+ -MF \S+| -o \S+", "", entry["command"]).replace(" -c ", " -fsyntax-only ")
            found[str(path.relative_to(ROOT))] = words
    return found, int(jobs)


def main(arguments):
    changed = None
    if arguments[:1] not in (["--all"], ["--only"]):
        changed = changed_files(*arguments or ["main"])
        if not changed:
            print("check_alone.py: no source has changed")
            return 0
    found, jobs = commands()
    if changed is not None:
        names = concerned(found, changed)
    else:
        names = [name for name in found if arguments == ["--all"] or any(text in name for text in arguments[1:])]

    def check(name):
        return name, subprocess.run(found[name], shell=True, cwd=BUILD, capture_output=True, text=True)

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for name, done in pool.map(check, sorted(names)):
            if done.returncode:
                failed += 1
                print(f"{name} does not compile alone:\n{done.stderr[:3000]}")
    print(f"check_alone.py: {len(names)} sources, of which {failed} do not compile alone")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
