"""The self-test of check_docs.py: pages of a scratch tree, each with one fault that it must find."""

import pathlib
import tempfile

GOOD = (
    """# A page
## Two words, `code`
[here](#two-words-code) and [there](docs/other.md#other), `tools/there.py`, `tools/{there,again}.py`
`Sums.Add`, `sum_test.test_add`
| a table may be wide | """
    + "x" * 120
    + """ |
```text
a figure
```
<!-- check: skip needs a cluster; tools/there.py runs it -->
```
srun foretime
```
<!-- check: slow -->
```
false
```
<!-- check: run -->
```
export NAME=name.txt && mkdir below && cd below
```
<!-- check: file name.txt -->
```
content
of 23 s
```
<!-- check: run -->
```
foretime < ../$NAME
```
<!-- check: output -->
```
con…nt
```
<!-- check: output like -->
```
of -1.5 s
```
<!-- check: run -->
```python
carried = "carried over"
```
<!-- check: run -->
```python
print(carried)
```
<!-- check: output -->
```
carried over
```
"""
)
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
    "```\ntrue\n```": "a code block without a mark",
    "```python\npass\n```": "a code block without a mark",
    "```text\n$ foretime train\n```": "a command in a block of ```text",
    "<!-- check: skip -->\n```\ntrue\n```": "no reason",
    "<!-- check: skip tools/gone.py runs it -->\n```\ntrue\n```": "`tools/gone.py` does not exist",
    "<!-- check: walk -->\n```\ntrue\n```": "unknown mark 'walk'",
    "<!-- check: run twice -->\n```\ntrue\n```": "found 'twice'",
    "<!-- check: skip once -->\n```\ntrue\n```\n<!-- check: output -->\n```\nb\n```": "output that does not follow",
    "<!-- check: run -->\n```python\nraise SystemExit(3)\n```": "exit code 3",
    "<!-- check: run -->\n```\necho $UNKNOWN_NAME\n```": "exit code 1",
    "<!-- check: run exit=3 -->\n```\ntrue\n```": "exit code 0",
    "<!-- check: run -->\n```\necho a\n```\n<!-- check: output -->\n```\nb\n```": "did not print 'b'",
    "<!-- check: run -->\n```\necho 2 s\n```\n<!-- check: output -->\n```\n1 s\n```": "did not print '1 s'",
    "<!-- check: run -->\n```\necho 2 s\n```\n<!-- check: output like -->\n```\n1 ms\n```": "did not print '1 ms'",
}

# A page with a table of promises; comments above its test, and what must be found.
PROMISES = """# Other
<!-- promises: sums -->
| promise | held to it by |
|---|---|
| sums are right | `Sums.Add`, `sum_test.test_add` |
"""
PROMISED = {
    "/// Adds.\n// Promise sums/add: sums\n// are right\n": [],
    "// Promise sums/add: sums\n": ["docs/other.md: its promises differ"],
    "// Promise sums/add\n": ["sums/add has 0 texts", "docs/other.md: its promises differ"],
    "// Promise sums/add: sums are right\n// Promise sums/add: twice\n": [
        "sums/add has 2 texts",
        "docs/other.md: its promises differ",
    ],
    "// Promise sums/add: sums are right\n// Promise sum/all: all\n": ["no page has a table for promise sum/all"],
    "// Promise sums/add: sums are right\n\n": [
        "tests/sum_test.cpp:1: no test is below",
        "sums/add has 0 texts",
        "docs/other.md: its promises differ",
    ],
}


def self_test(check, index):
    """What `check` of check_docs.py does not find in pages with one fault each, or refuses in a page without one."""
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch)
        for folder in ("docs/explanations", "tools", "samples", "configs", "tests"):
            (root / folder).mkdir(parents=True)
        (root / "tests/sum_test.cpp").write_text("TEST(Sums, Add) {\n")
        (root / "tests/sum_test.py").write_text("class Sums:\n    def test_add(self):\n")
        (root / "docs/other.md").write_text("# Other\n")
        (root / index).write_text("[other](other.md)\n")
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
        for comment, gone in (("# see tools/gone.py for it", "tools/gone.py"), ("# as GONE.md says", "GONE.md")):
            (root / "tools/there.py").write_text(comment + "\n")
            if not any(f"a comment names {gone}" in problem for problem in check(root)[0]):
                failures.append(f"a comment that names {gone} is not found")
        (root / "tools/there.py").write_text("")
        (root / "docs/other.md").write_text(PROMISES)
        (root / "tests/sum_test.py").write_text(
            "class Sums:\n    # Promise sums/add\n    @slow\n    def test_add(self):\n"
        )
        for above, expected in PROMISED.items():
            (root / "tests/sum_test.cpp").write_text(f"{above}TEST(Sums, Add) {{\n")
            problems = check(root)[0]
            if len(problems) != len(expected) or not all(text in "".join(problems) for text in expected):
                failures.append(f"{above!r} above a test: expected {expected}, found {problems}")
        (root / index).write_text("nothing\n")
        if not any("does not link it" in problem for problem in check(root)[0]):
            failures.append("a page that the index does not link is not found")
        return failures
