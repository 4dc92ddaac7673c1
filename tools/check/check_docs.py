#!/usr/bin/env python3
"""Checks the documentation: README, ARCHITECTURE, CONTRIBUTING, CHANGELOG, docs/ and bench/README.

  tools/check/check_docs.py                      links, line lengths, paths of files, words
  tools/check/check_docs.py --foretime PROGRAM   also runs the marked commands, and compares generated pages with the program
  tools/check/check_docs.py --foretime PROGRAM --python PYTHON PAGE…
                                           runs the commands of these pages alone; Python is one that has the package
  tools/check/check_docs.py --self-test          plants each kind of violation in a scratch tree and must find it

Rules, each violation one line and exit code 1:
1. A relative link leads to a file of the tree, and its #anchor to a heading.
2. A line has at most 120 columns, except in tables. README.md has fewer than 150 lines, ARCHITECTURE.md at most 200. docs/index.md links every page of docs/.
3. Source files and folders that a page names in `backticks` exist, and so do pages that sources name as docs/….md, and
   sources, scripts and pages that comments in C++, Lua, Python and shell name. Comments cite no other documents.
4. Words and paths that belong to one machine or one person's work do not occur.
5. Tests that a page names exist: `Suite.Case` of GoogleTest where `Suite` is one, and `some_test.test_case` of Python.
   Tables of promises are those that tools/check/promises_page.py writes.
6. Every code block of a page that is not generated says by a mark what becomes of it. A mark is an HTML comment on the
   line before the block:
     <!-- check: run -->            runs the block with bash, or with Python where its fence says ```python; `exit=N`
                                    after `run` promises another exit code than 0
     <!-- check: slow -->           like `run`, but only with --slow, which checks what takes more than half a minute
     <!-- check: file NAME -->      writes the block to a file of the scratch folder
     <!-- check: output -->         each line of the block occurs in this order in what the last run printed; `…` stands
                                    for anything, and with `output like` each number for any number
     <!-- check: skip REASON -->    says why the block cannot be run here: what it needs, or which test runs it
   A block whose fence says ```text is a diagram, a formula or an answer, contains no command and needs no mark.
   A page's blocks share one scratch folder, which has samples, configs and tools; `foretime` is in the PATH. Variables
   that are exported, the working folder, and the names of Python blocks carry over from block to block.
7. The first tutorial also runs in the folder in which tools/quickstart.sh has run.
"""

import argparse
import fnmatch
import pathlib
import re
import shutil
import subprocess
import sys

import commands_page
import promises_page
from page_commands import run_pages

WIDTH = 120
LINES = {"README.md": 149, "ARCHITECTURE.md": 200}
INDEX = "docs/index.md"
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
GENERATED = ("docs/reference/commands.md", "docs/reference/settings.md")
MARKS = ("run", "slow", "file", "output", "skip")
# A line that a reader could enter in a terminal.
COMMAND = r"\s*(\$ )?(\w+=\S+ )*(foretime|mpirun|srun|sbatch|cmake|python3|pip|bash|export|source|tools/|bench/|build/|tests/|examples/)\b"
# What runs before a page in its folder, without and with --slow.
BEFORE = tuple(
    {"docs/tutorials/first-model.md": command}
    for command in ("tools/quickstart.sh trainer.steps=40", "tools/quickstart.sh")
)


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
            if len(line) > WIDTH and (block is not None or not line.lstrip().startswith("|")):
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
    return [
        whole
        for part in match.group(1).split(",")
        for whole in expand_braces(text[: match.start()] + part + text[match.end() :])
    ]


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
            reason = re.match(r"\s*<!-- check: skip (.*) -->", line)
            for token in (
                re.findall(r"[^\s,;:]+/[^\s,;:]+", reason.group(1))
                if reason
                else re.findall(r"`([^`\s]+/[^`\s]*)`", line)
            ):
                if token.split("/")[0] not in tops or re.search(r"[A-Z]{3,}|…|[<>$=]", token):
                    continue
                for path in expand_braces(token):
                    if not is_there(path):
                        yield f"{page.name}:{number}: `{path}` does not exist"
    for name in files:
        if pathlib.PurePath(name).suffix not in SOURCE_SUFFIXES or name.startswith("tools/check/check_docs"):
            continue
        for number, line in enumerate((root / name).read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            for found in re.findall(r"(?<!\w)docs/[\w/-]+\.md", line):
                if not (root / found).exists():
                    yield f"{name}:{number}: {found} does not exist"
            for found in cited(name, line):
                missing = "/" not in found and all(pathlib.PurePath(file).name != found for file in files)
                if missing or ("/" in found and found.split("/")[0] in tops and not (root / found).exists()):
                    yield f"{name}:{number}: a comment names {found}, which does not exist"


def cited(name, line):
    """Files that the comment in a line of a source names."""
    if name.startswith("tools/check/check_includes"):
        return []  # its planted violations
    mark = {".h": "//", ".cpp": "//", ".cu": "//", ".c": "//", ".lua": "--", ".py": "# ", ".sh": "# "}.get(
        pathlib.PurePath(name).suffix
    )
    if mark is None or mark not in line:
        return []
    comment = line[line.index(mark) :]
    paths = re.findall(r"(?<![\w/.<$*-])(?:[\w-]+/)+[\w-]+\.(?:h|cpp|cu|lua|py|sh|md|proto)\b", comment)
    return (
        [path for path in paths if not path.startswith("docs/")]
        + re.findall(r"(?<![\w/-])[A-Z_]{3,}\.md\b", comment)
        + re.findall(r"\b(?:FORMATS|MODELS|S[12]'s)\b(?!\.)", comment)
    )


def check_promises(root, _):
    return promises_page.check(root)


def check_tests(root, pages):
    tests = {name for _, _, named in promises_page.tests(root) for name, _ in named}
    suites = {name.split(".")[0] for name in tests}
    for page in pages:
        for number, line in page.prose:
            for name in re.findall(r"`([A-Z]\w+\.[A-Z]\w+|\w+_test\.test_\w+)`", line):
                if name not in tests and (name.split(".")[0] in suites or "_test." in name):
                    yield f"{page.name}:{number}: there is no test {name}"


def check_words(_, pages):
    for page in pages:
        lines = page.prose + [
            (block.number + i, line) for block in page.blocks for i, line in enumerate(block.lines, 1)
        ]
        for number, line in sorted(lines):
            for pattern, why in REFUSED.items():
                found = re.search(pattern, line)
                if found:
                    yield f"{page.name}:{number}: '{found.group(0)}': {why}"


def check_marks(_, pages):
    for page in pages:
        before = ""
        for block in page.blocks:
            verb, _, rest = block.mark.partition(" ")
            problem = ""
            if not block.mark and block.language != "text":
                problem = (
                    "a code block without a mark, expected <!-- check: run -->, file NAME, output or skip REASON in the line before it, "
                    "or ```text where it contains no command"
                )
            elif block.language == "text" and any(re.match(COMMAND, line) for line in block.lines):
                problem = "a command in a block of ```text, expected a mark"
            elif block.mark and verb not in MARKS:
                problem = f"unknown mark '{block.mark}', expected one of {', '.join(MARKS)}"
            elif verb in ("file", "skip") and not rest.strip():
                problem = "no name of a file" if verb == "file" else "no reason for skip"
            elif verb in ("run", "slow") and not re.fullmatch(r"(exit=\d+)?", rest.strip()):
                problem = f"found '{rest}' after {verb}, expected nothing or exit=N"
            elif verb == "output" and rest.strip() not in ("", "like"):
                problem = f"found '{rest}' after output, expected nothing or like"
            elif verb == "output" and before not in ("run", "slow", "output"):
                problem = "output that does not follow a block that is run"
            if problem and page.name not in GENERATED:
                yield f"{page.name}:{block.number}: {problem}"
            before = verb


def signs(text):
    """What is compared of help texts: CLI11 2.4 prints defaults as ` [1]` where 2.3 has `=1`, and breaks lines elsewhere."""
    return re.sub(r"[\s=\[\]]+", "", text)


def check_commands(root, pages, foretime, slow):
    yield from run_pages(root, pages, foretime, slow=slow, before=BEFORE[slow])
    generated = {
        "docs/reference/commands.md": (signs, lambda: commands_page.page(foretime)),
        "docs/reference/settings.md": (
            str,
            lambda: subprocess.run(
                [foretime, "config", "--reference"], capture_output=True, text=True, check=True
            ).stdout,
        ),
    }
    for name, (compared, text) in generated.items():
        path = root / name
        if path.exists() and compared(path.read_text(encoding="utf-8")) != compared(text()):
            yield f"{name}: is not what the program prints; write it again as the page says"


def check(root, foretime=None, slow=False):
    pages = pages_of(root)
    problems = [
        problem
        for rule in (
            check_links,
            check_index,
            check_sizes,
            check_paths,
            check_tests,
            check_promises,
            check_words,
            check_marks,
        )
        for problem in rule(root, pages)
    ]
    if foretime:
        problems += check_commands(root, pages, foretime, slow)
    return problems, len(pages)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--foretime", type=pathlib.Path, help="the built program; without it no command is run")
    parser.add_argument("--python", type=pathlib.Path, help="a Python with the package, for the commands of PAGEs")
    parser.add_argument(
        "pages", nargs="*", metavar="PAGE", help="run the commands of these pages, and check nothing else"
    )
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--slow", action="store_true", help="also run the blocks that are marked slow")
    options = parser.parse_args()
    if options.self_test:
        import check_docs_self_test

        failures = check_docs_self_test.self_test(check, INDEX)
        print("\n".join(failures) or "check_docs.py: self-test passed")
        sys.exit(1 if failures else 0)
    if options.foretime and not shutil.which(options.foretime):
        sys.exit(f"check_docs.py: {options.foretime}: no such program")
    root = pathlib.Path(__file__).resolve().parents[2]
    if (
        (options.pages or options.python or options.slow)
        and not options.foretime
        or options.python
        and not options.pages
    ):
        parser.error("PAGEs and --slow need --foretime; --python needs PAGEs")
    if options.pages:
        pages = [Page(root, root / page) for page in options.pages]
        problems, count = list(
            run_pages(
                root,
                pages,
                options.foretime.resolve(),
                options.python and options.python.absolute(),
                options.slow,
                BEFORE[options.slow],
            )
        ), len(pages)
    else:
        problems, count = check(root, options.foretime and options.foretime.resolve(), options.slow)
    print("\n".join(problems) or f"check_docs.py: {count} pages are in order")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
