#!/usr/bin/env python3
"""Checks the documentation: README, ARCHITECTURE, CONTRIBUTING, CHANGELOG, docs/ and bench/README.

  tools/check_docs.py                      links, line lengths, paths of files, words
  tools/check_docs.py --foretime PROGRAM   also runs the marked commands, and compares generated pages with the program
  tools/check_docs.py --foretime PROGRAM --python PYTHON PAGE…
                                           runs the commands of these pages alone; Python is one that has the package
  tools/check_docs.py --self-test          plants each kind of violation in a scratch tree and must find it

Rules, each violation one line and exit code 1:
1. A relative link leads to a file of the tree, and its #anchor to a heading.
2. A line has at most 120 columns, except in tables and in code blocks marked `<!-- check: wide -->`. README.md has fewer
   than 150 lines, ARCHITECTURE.md at most 200. docs/index.md links every page of docs/.
3. Source files and folders that a page names in `backticks` exist, and so do pages that sources name as docs/….md.
4. Words and paths that belong to one machine or one person's work do not occur.
5. Tests that a page names exist: `Suite.Case` of GoogleTest where `Suite` is one, and `some_test.test_case` of Python.
   In docs/explanations/bad-days.md and docs/reference/clusters.md each row of a table names one at the least, and every
   `Name.Name` is a test.
6. Marked commands do what the page promises. A mark is an HTML comment on the line before a code block:
     <!-- check: run -->            runs the block with bash, or with Python where its fence says ```python; `exit=N`
                                    behind `run` promises another exit code than 0
     <!-- check: file NAME -->      writes the block to a file of the scratch folder
     <!-- check: output -->         each line of the block occurs in this order in what the last run printed; `…` stands
                                    for anything
   A page's blocks share one scratch folder, which has `samples` and `configs`; `foretime` is in the PATH.
"""

import argparse
import concurrent.futures
import fnmatch
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import commands_page

WIDTH = 120
LINES = {"README.md": 149, "ARCHITECTURE.md": 200}
INDEX = "docs/index.md"
PROMISES = ("docs/explanations/bad-days.md", "docs/reference/clusters.md")
ROOT_PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "bench/README.md")
SOURCE_SUFFIXES = {".h", ".cpp", ".cu", ".c", ".py", ".sh", ".lua", ".yaml", ".txt", ".cmake", ".proto"}
# What a backticked path may leave out: `bench/plan_bench` is a program, `base/error` a header with its source.
IMPLIED_SUFFIXES = ("", ".h", ".cpp", ".py", ".c")
REFUSED = {
    r"\b[Ss]ession(s)?\b": "say what it is",
    r"\b[Hh]elper(s)?\b": "say who or what it is",
    r"(?<![\w.…])/(root|work|home)/": "a path of one machine",
    r"https?://[^/\s]*(pypi|registry|artifact|nexus|mirror)": "a package registry's host",
}
SECONDS = 120  # a block may run


class Block:
    """A fenced code block: the mark above it, its first line's number, its lines."""

    def __init__(self, mark, number, lines, language=""):
        self.mark, self.number, self.lines, self.language = mark, number, lines, language


class Page:
    def __init__(self, root, path):
        self.path, self.name = path, str(path.relative_to(root))
        self.blocks, self.prose, self.headings = [], [], set()
        self.long = []
        lines = path.read_text(encoding="utf-8").splitlines()
        self.lines = len(lines)
        self._read(lines)

    def _read(self, lines):
        block, mark, counts = None, "", {}
        for number, line in enumerate(lines, 1):
            if re.match(r"\s*(```|~~~)", line):
                if block is None:
                    block = Block(mark, number, [], line.strip().lstrip("`~"))
                else:
                    self.blocks.append(block)
                    block = None
            elif block is not None:
                block.lines.append(line)
            else:
                self.prose.append((number, line))
                heading = re.match(r"#+\s+(.*)", line)
                if heading:
                    slug = slug_of(heading.group(1))
                    seen = counts.get(slug, 0)
                    counts[slug] = seen + 1
                    self.headings.add(f"{slug}-{seen}" if seen else slug)
            wide = block.mark == "wide" if block is not None else line.lstrip().startswith("|")
            if len(line) > WIDTH and not wide:
                self.long.append((number, len(line)))
            found = re.match(r"\s*<!-- check: (.*?) -->\s*$", line)
            mark = found.group(1) if found else (mark if not line.strip() else "")


def slug_of(heading):
    """The anchor that GitHub gives to a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip()).replace("`", "")
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def pages_of(root):
    paths = [root / name for name in ROOT_PAGES if (root / name).exists()]
    return [Page(root, path) for path in paths + sorted((root / "docs").rglob("*.md"))]


def check_links(root, pages):
    headings = {page.path.resolve(): page.headings for page in pages}
    for page in pages:
        for number, target in targets_of(page):
            name, _, anchor = target.partition("#")
            path = (page.path.parent / name).resolve() if name else page.path.resolve()
            where = f"{page.name}:{number}: link {target}"
            if not path.exists():
                yield f"{where}: no such file"
            elif anchor and path.suffix == ".md" and anchor not in headings.get(path, set()):
                yield f"{where}: no such heading"


def targets_of(page):
    for number, line in page.prose:
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
            if not re.match(r"[a-z]+:", target):
                yield number, target


def check_index(root, pages):
    index = next((page for page in pages if page.name == INDEX), None)
    if index is None:
        return
    linked = {(index.path.parent / target.partition("#")[0]).resolve() for _, target in targets_of(index)}
    for page in pages:
        if page.name.startswith("docs/") and page is not index and page.path.resolve() not in linked:
            yield f"{page.name}: {INDEX} does not link it"


def check_sizes(_, pages):
    for page in pages:
        if page.lines > LINES.get(page.name, page.lines):
            yield f"{page.name}: {page.lines} lines, expected at most {LINES[page.name]}"
        for number, length in page.long:
            yield f"{page.name}:{number}: {length} columns, expected at most {WIDTH}"


def tracked_files(root):
    listed = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        return listed.stdout.splitlines()
    return [str(path.relative_to(root)) for path in sorted(root.rglob("*")) if path.is_file()]


def expand_braces(text):
    match = re.search(r"\{([^{}]*)\}", text)
    if not match:
        return [text]
    return [whole for part in match.group(1).split(",")
            for whole in expand_braces(text[:match.start()] + part + text[match.end():])]


def check_paths(root, pages):
    files = [name for name in tracked_files(root) if (root / name).exists()]
    folders = {str(parent) for name in files for parent in pathlib.PurePath(name).parents}
    tops = {name.split("/")[0] for name in files if "/" in name}

    def is_there(path):
        if path.endswith("/"):
            return path.rstrip("/") in folders
        return path in folders or any(fnmatch.filter(files, path + suffix) for suffix in IMPLIED_SUFFIXES)

    for page in pages:
        for number, line in page.prose:
            for token in re.findall(r"`([^`\s]+/[^`\s]*)`", line):
                if token.split("/")[0] not in tops or re.search(r"[A-Z]{3,}|…|[<>$=]", token):
                    continue
                for path in expand_braces(token):
                    if not is_there(path):
                        yield f"{page.name}:{number}: `{path}` does not exist"
    for name in files:
        if pathlib.PurePath(name).suffix not in SOURCE_SUFFIXES or name.startswith("tools/check_docs"):
            continue
        for number, line in enumerate((root / name).read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            for found in re.findall(r"(?<!\w)docs/[\w/-]+\.md", line):
                if not (root / found).exists():
                    yield f"{name}:{number}: {found} does not exist"


def tests_of(root):
    """Names of all tests, as pages write them."""
    names = set()
    for name in tracked_files(root):
        path = root / name
        if not name.startswith("tests/") or not path.exists():
            continue
        if path.suffix in (".cpp", ".h"):
            names.update(f"{suite}.{case}" for suite, case in
                         re.findall(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", path.read_text(encoding="utf-8"), re.MULTILINE))
        elif path.suffix == ".py":
            names.update(f"{path.stem}.{case}" for case in re.findall(r"^    def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE))
    return names


def check_tests(root, pages):
    tests = tests_of(root)
    suites = {name.split(".")[0] for name in tests}
    for page in pages:
        promises = page.name in PROMISES
        for number, line in page.prose:
            named = re.findall(r"`([A-Z]\w+\.[A-Z]\w+|\w+_test\.test_\w+)`", line)
            for name in named:
                if name not in tests and (promises or name.split(".")[0] in suites or "_test." in name):
                    yield f"{page.name}:{number}: there is no test {name}"
            row = re.match(r"\|(?!\s*(promise|command|-+)\b)(?!-)", line)
            if promises and row and not named:
                yield f"{page.name}:{number}: names no test"


def check_words(_, pages):
    for page in pages:
        lines = page.prose + [(block.number + i, line) for block in page.blocks for i, line in enumerate(block.lines, 1)]
        for number, line in sorted(lines):
            for pattern, why in REFUSED.items():
                found = re.search(pattern, line)
                if found:
                    yield f"{page.name}:{number}: '{found.group(0)}': {why}"


def missing_line(expected, printed):
    """The first expected line that does not follow the ones before it; None where all do."""
    rest = iter(printed.splitlines())
    for line in expected:
        if line.strip() in ("", "…"):
            continue
        parts = [re.escape(part.strip()) for part in line.split("…")]
        pattern = re.compile(r".*".join(re.sub(r"(\\ )+", r"\\s+", part) for part in parts))
        if not any(pattern.search(candidate) for candidate in rest):
            return line
    return None


def run_page(root, page, foretime, interpreter=None):
    """What is wrong with the marked commands of a page. `interpreter`: a Python with the package; without one, the system's, with the
    package of this tree and the library of the program's build."""
    with tempfile.TemporaryDirectory(prefix="check_docs.") as scratch:
        folder = pathlib.Path(scratch)
        (folder / "bin").mkdir()
        (folder / "bin" / "foretime").symlink_to(foretime)
        python = interpreter or ("/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable)
        # A virtual environment is known by the path that its Python is started by.
        (folder / "bin" / "python3").write_text(f'#!/bin/sh\nexec "{python}" "$@"\n')
        (folder / "bin" / "python3").chmod(0o755)
        for name in ("samples", "configs"):
            (folder / name).symlink_to(root / name)
        environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
        environment.pop("FORETIME_REDIS", None)
        library = foretime.parent.parent / "inference" / "capi" / "libforetime.so"  # of the same build
        if not interpreter:
            environment["PYTHONPATH"] = str(root / "inference" / "python")
            if library.exists():
                environment["FORETIME_LIBRARY"] = str(library)
        printed = ""
        for block in page.blocks:
            verb, _, rest = block.mark.partition(" ")
            where, text = f"{page.name}:{block.number}", "\n".join(block.lines) + "\n"
            if verb == "file":
                (folder / rest.strip()).write_text(text, encoding="utf-8")
            elif verb == "run":
                promised = int(re.sub(r".*exit=", "", rest)) if "exit=" in rest else 0
                try:
                    language = ["python3", "-c"] if block.language == "python" else ["bash", "-euo", "pipefail", "-c"]
                    done = subprocess.run([*language, text], cwd=folder, env=environment,
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS,
                                          check=False)
                except subprocess.TimeoutExpired:
                    yield f"{where}: takes more than {SECONDS} s"
                    return
                printed = done.stdout
                if done.returncode != promised:
                    end = "\n".join(printed.splitlines()[-12:])
                    yield f"{where}: exit code {done.returncode}, the page promises {promised}:\n{end}"
                    return
            elif verb == "output":
                line = missing_line(block.lines, printed)
                if line is not None:
                    yield f"{where}: the command did not print '{line.strip()}':\n{printed}"


def run_pages(root, pages, foretime, interpreter=None):
    marked = [page for page in pages if any(block.mark.startswith("run") for block in page.blocks)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for problems in pool.map(lambda page: list(run_page(root, page, foretime, interpreter)), marked):
            yield from problems


def signs(text):
    """What is compared of help texts: CLI11 2.4 prints defaults as ` [1]` where 2.3 has `=1`, and breaks lines elsewhere."""
    return re.sub(r"[\s=\[\]]+", "", text)


def check_commands(root, pages, foretime):
    yield from run_pages(root, pages, foretime)
    generated = {"docs/reference/commands.md": (signs, lambda: commands_page.page(foretime)),
                 "docs/reference/settings.md": (str, lambda: subprocess.run(
                     [foretime, "config", "--reference"], capture_output=True, text=True, check=True).stdout)}
    for name, (compared, text) in generated.items():
        path = root / name
        if path.exists() and compared(path.read_text(encoding="utf-8")) != compared(text()):
            yield f"{name}: is not what the program prints; write it again as the page says"


def check(root, foretime=None):
    pages = pages_of(root)
    problems = [problem for rule in (check_links, check_index, check_sizes, check_paths, check_tests, check_words)
                for problem in rule(root, pages)]
    if foretime:
        problems += check_commands(root, pages, foretime)
    return problems, len(pages)


GOOD = """# A page
## Two words, `code`
[here](#two-words-code) and [there](docs/other.md#other), `tools/there.py`, `tools/{there,again}.py`
`Sums.Add`, `sum_test.test_add`
| a table may be wide | """ + "x" * 120 + """ |
<!-- check: file name.txt -->
```
content
```
<!-- check: run -->
```
foretime < name.txt
```
<!-- check: output -->
```
con…nt
```
"""
BAD = {
    "[gone](docs/gone.md)": "no such file",
    "[gone](docs/other.md#gone)": "no such heading",
    "word " * 30: "columns",
    "short\n" * 150: "lines, expected at most 149",
    "`tools/gone.py`": "does not exist",
    "`Sums.AreGone`": "there is no test Sums.AreGone",
    "`sum_test.test_gone`": "there is no test sum_test.test_gone",
    "our session": "say what it is",
    "in /work" + "/main": "a path of one machine",
    "<!-- check: run exit=3 -->\n```\ntrue\n```": "exit code 0",
    "<!-- check: run -->\n```\necho a\n```\n<!-- check: output -->\n```\nb\n```": "did not print 'b'",
}


def self_test():
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch)
        for folder in ("docs/explanations", "tools", "samples", "configs", "tests"):
            (root / folder).mkdir(parents=True)
        (root / "tests/sum_test.cpp").write_text("TEST(Sums, Add) {\n")
        (root / "tests/sum_test.py").write_text("class Sums:\n    def test_add(self):\n")
        (root / "docs/other.md").write_text("# Other\n")
        (root / INDEX).write_text("[other](other.md)\n")
        (root / "tools/there.py").write_text("# docs/other.md\n")
        (root / "tools/again.py").write_text("")
        foretime = root / "foretime"
        foretime.write_text("#!/bin/sh\ncat\n")
        foretime.chmod(0o755)
        (root / "README.md").write_text(GOOD)
        problems, _ = check(root, foretime)
        if problems:
            return [f"a good page is refused: {problems}"]
        failures = []
        for text, expected in BAD.items():
            (root / "README.md").write_text(GOOD + "\n" + text + "\n")
            problems, _ = check(root, foretime)
            if len(problems) != 1 or expected not in problems[0]:
                failures.append(f"{text!r}: expected one problem '{expected}', found {problems}")
        (root / "README.md").write_text(GOOD)
        (root / "tools/there.py").write_text("# docs/gone.md\n")
        if not any("docs/gone.md" in problem for problem in check(root)[0]):
            failures.append("a source that names a page which is not there is not found")
        (root / INDEX).write_text("[other](other.md) [promises](explanations/bad-days.md)\n")
        (root / PROMISES[0]).write_text("# Promises\n| promise | test |\n|---|---|\n| sums | `Sums.Add` |\n| none | – |\n| other | `Other.Gone` |\n")
        found = [problem for problem in check(root)[0] if PROMISES[0] in problem]
        if len(found) != 2 or "names no test" not in found[0] or "no test Other.Gone" not in found[1]:
            failures.append(f"of promises without a test: {found}")
        (root / INDEX).write_text("nothing\n")
        if not any("does not link it" in problem for problem in check(root)[0]):
            failures.append("a page that the index does not link is not found")
        return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--foretime", type=pathlib.Path, help="the built program; without it no command is run")
    parser.add_argument("--python", type=pathlib.Path, help="a Python with the package, for the commands of PAGEs")
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="run the commands of these pages, and check nothing else")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        failures = self_test()
        print("\n".join(failures) or "check_docs.py: self-test passed")
        sys.exit(1 if failures else 0)
    if options.foretime and not shutil.which(options.foretime):
        sys.exit(f"check_docs.py: {options.foretime}: no such program")
    root = pathlib.Path(__file__).resolve().parent.parent
    if bool(options.pages) != bool(options.python) or (options.pages and not options.foretime):
        parser.error("PAGEs need --foretime and --python, and the other way round")
    if options.pages:
        pages = [Page(root, root / page) for page in options.pages]
        problems, count = list(run_pages(root, pages, options.foretime.resolve(), options.python.absolute())), len(pages)
    else:
        problems, count = check(root, options.foretime and options.foretime.resolve())
    print("\n".join(problems) or f"check_docs.py: {count} pages are in order")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
