#!/usr/bin/env python3
"""Writes the tables of promises in docs/ from the comments above tests.

  tools/check/promises_page.py           writes the tables that differ from the tests
  tools/check/promises_page.py --check   only names them, with exit code 1; tools/check/check_docs.py does the same

A comment directly above a test ends with `// Promise storage/disk-full: TEXT`, in Python with `#`. TEXT may take several
lines. It is a row of the table below the line `<!-- promises: storage -->` of a page, where the table's two heading lines
are by hand. Rows are in the order of their keys. Further tests that hold Foretime to it have the key without a text.
"""

import collections
import pathlib
import re
import sys

TABLE = re.compile(r"(<!-- promises: (\S+) -->\n\|.*\n\|.*\n)((?:\|.*\n)*)")
MARK = re.compile(r"^ *(?:///?|#) Promise ", re.MULTILINE)
CPP_TEST = re.compile(r"^((?://.*\n)*)TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", re.MULTILINE)
TESTS = {
    ".cpp": CPP_TEST,
    ".h": CPP_TEST,
    ".py": re.compile(r"^((?:    #.*\n)*)(?:    @.*\n)*(    )def (test_\w+)\(", re.MULTILINE),
}


def tests(root):
    """Yields of each source of tests its path, its text, and each test's name with the match that has its comment."""
    for path in sorted((root / "tests").rglob("*")):
        if path.suffix in TESTS:
            text = path.read_text(encoding="utf-8")
            found = TESTS[path.suffix].finditer(text)
            yield path, text, [(f"{match.group(2).strip() or path.stem}.{match.group(3)}", match) for match in found]


def promises(root):
    """Returns the texts and the tests of each key, and what is wrong with them."""
    texts, holders, problems = collections.defaultdict(list), collections.defaultdict(list), []
    for path, text, named in tests(root):
        for mark in MARK.finditer(text):
            if not any(test.start(1) <= mark.start() < test.end(1) for _, test in named):
                line = text.count("\n", 0, mark.start()) + 1
                problems.append(f"{path.relative_to(root)}:{line}: no test is below this promise")
        for name, test in named:
            for promise in MARK.split(test.group(1))[1:]:
                key, *words = re.sub(r"^ *(///?|#)", "", promise, flags=re.MULTILINE).split()
                key = key.rstrip(":")
                texts[key] += [" ".join(words)] if words else []
                holders[key].insert(0 if words else len(holders[key]), name)
    for key in holders:
        if len(texts[key]) != 1:
            problems.append(
                f"tests/: promise {key} has {len(texts[key])} texts, expected one: {', '.join(holders[key])}"
            )
    return texts, holders, problems


def written(root):
    """Returns the text of each page, with its tables of promises as the tests have them, and what is wrong."""
    texts, holders, problems = promises(root)
    pages, sections = {}, set()

    def table(match):
        sections.add(match.group(2))
        keys = sorted(key for key in holders if key.split("/")[0] == match.group(2))
        rows = [f"| {' '.join(texts[key])} | {', '.join(f'`{name}`' for name in holders[key])} |\n" for key in keys]
        return match.group(1) + "".join(rows)

    for path in sorted((root / "docs").rglob("*.md")):
        pages[path] = TABLE.sub(table, path.read_text(encoding="utf-8"))
    for key in holders:
        if key.split("/")[0] not in sections:
            problems.append(f"tests/: no page has a table for promise {key}")
    return pages, problems


def check(root):
    pages, problems = written(root)
    for path, text in pages.items():
        if path.read_text(encoding="utf-8") != text:
            problems.append(
                f"{path.relative_to(root)}: its promises differ from the tests'; run tools/check/promises_page.py"
            )
    return problems


def main(arguments):
    root = pathlib.Path(__file__).resolve().parents[2]
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    if not arguments:
        for path, text in written(root)[0].items():
            path.write_text(text, encoding="utf-8")
    problems = check(root)
    print("\n".join(problems) or "promises_page.py: the tables are those of the tests")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
