#!/usr/bin/env python3
"""Measures how readable the tree is, and refuses what is worse than its limits.

  tools/check/code_figures.py              one line a figure; exit code 1 where one is beyond its limit
  tools/check/code_figures.py REVISION     also the figures of an earlier revision
  tools/check/code_figures.py --list NAME  the lines that a figure counts
"""

import pathlib
import re
import subprocess
import sys

import promises_page

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_PRODUCT = ("tests/", "bench/", "tools/", "examples/")
GENERATED = ("docs/reference/commands.md", "docs/reference/settings.md")

# A comment behind a member or a variable that only makes sense after its name: `members;  // of an ensemble`.
COMPLETION = re.compile(
    r";\s+// (of|that|by|what|in|its|for|as|where|with|without|at|from|which|who|whose|to|until|before|after|since|over|"
    r"below|above|it|they|them|these|those|one|and|but|so|there|how|why|whether|if)\b"
)
# A doc comment whose first words cannot begin a sentence that has a verb.
FRAGMENT = re.compile(
    r"^\s*/// (Of|As|With|In|By|From|At|For|Without|Likewise|The same|Those|Its|Where|When|How|Why|What|Which|Whether|Some|"
    r"Nothing|True|False|Empty)\b"
)
ROW_BOUNDS = re.compile(
    r"\b(\w*(?:ptr|begin|first|starts?|ends|splits)\w*)((?:\.\w+|\(\))*)\[((?:static_cast<\w+>\()?[^\[\]]*(?:\[[^\[\]]*\])?[^\[\]]*?)\)?\]"
    r"(?:[^\n]*\n?){0,2}?[^\n]*?\b\1\2\[\s*(?:static_cast<\w+>\()?\3\)? \+ 1\)?\]"
)
PRIVATE_WORDS = re.compile(
    r"\b(halves|heard_of|acquit\w*|courier\w*|stretches|deserted|LeftOut|Complaints|room_of_losses|stands? (?:there|in|beside|at|for)|"
    r"goes on|go on|anew|what comes of|lets itself|beside it|tells? (?:whether|why|which|what|that)|of its own|as it stands)\b"
)
CITATION = re.compile(r"\b(FORMATS|MODELS|S1|S2|JOBS\.md|PERFORMANCE\.md)\b")


class Tree:
    """The files of the working tree, or of a revision."""

    def __init__(self, revision=None):
        if revision is None:
            listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
            self.files = {name: None for name in listing.splitlines() if (ROOT / name).is_file()}
        else:
            listing = subprocess.run(
                ["git", "ls-tree", "-r", "--name-only", revision], cwd=ROOT, capture_output=True, text=True, check=True
            ).stdout
            self.files = {name: None for name in listing.splitlines()}
        self.revision = revision

    def text(self, name):
        if self.files[name] is None:
            if self.revision is None:
                self.files[name] = (ROOT / name).read_text(encoding="utf-8", errors="replace")
            else:
                self.files[name] = subprocess.run(
                    ["git", "show", f"{self.revision}:{name}"], cwd=ROOT, capture_output=True, check=True
                ).stdout.decode("utf-8", "replace")
        return self.files[name]

    def product(self, *suffixes):
        return [name for name in self.files if name.endswith(suffixes) and not name.startswith(NOT_PRODUCT)]


def matching(tree, names, pattern, comments_only=False):
    """(file:line, line) of the lines that match."""
    for name in names:
        for number, line in enumerate(tree.text(name).splitlines(), 1):
            place = line
            if comments_only:
                comment = re.search(r"//.*|--.*|#.*", line)
                if not comment:
                    continue
                place = comment.group()
            if pattern.search(place):
                yield f"{name}:{number}", line.strip()


def first_doc_lines(tree, names):
    for name in names:
        previous = ""
        for number, line in enumerate(tree.text(name).splitlines(), 1):
            if line.lstrip().startswith("///") and not previous.lstrip().startswith("///"):
                yield f"{name}:{number}", line
            previous = line


def row_bounds(tree):
    for name in tree.product(".h", ".cpp"):
        text = re.sub(r"//[^\n]*", "", tree.text(name))
        for match in ROW_BOUNDS.finditer(text):
            yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}", match.group().replace("\n", " ")[:120]


def headers_of_one(tree):
    """Headers that one file includes, other than the source of the same name."""
    users = {}
    for name in [file for file in tree.files if file.endswith((".h", ".cpp", ".cu"))]:
        for header in set(re.findall(r'#include "([^"]+)"', tree.text(name))):
            if header.rsplit(".", 1)[0] != name.rsplit(".", 1)[0] and not name.startswith(NOT_PRODUCT):
                users.setdefault(header, []).append(name)
    for header in tree.product(".h"):
        if len(users.get(header, [])) == 1:
            yield header, users[header][0]


def words(tree, names):
    for name in names:
        yield name, len(promises_page.TABLE.sub("", tree.text(name)).split())


def lines(tree, names):
    for name in names:
        yield name, tree.text(name).count("\n")


def pages(tree):
    return [
        name
        for name in tree.files
        if name.endswith(".md")
        and (name.startswith("docs/") or name in ("README.md", "CHANGELOG.md"))
        and name not in GENERATED
    ]


# name: (what it counts, limit or None, at most or at least, function of the tree that lists it)
FIGURES = {
    "lines": ("product lines of C++", 90247, lambda tree: lines(tree, tree.product(".h", ".cpp"))),
    "lua": ("lines of Lua", 1874, lambda tree: lines(tree, tree.product(".lua"))),
    "words": ("words in hand-written pages", 52587, lambda tree: words(tree, pages(tree))),
    "casts": (
        "lines with a static_cast",
        319,
        lambda tree: matching(tree, tree.product(".h", ".cpp"), re.compile("static_cast")),
    ),
    "row_bounds": ("expressions ptr[i] … ptr[i + 1]", 22, row_bounds),
    "completions": (
        "trailing comments that complete a name",
        1,
        lambda tree: matching(tree, tree.product(".h", ".cpp"), COMPLETION),
    ),
    "fragments": (
        "doc comments that begin as a fragment",
        1,
        lambda tree: [place for place in first_doc_lines(tree, tree.product(".h", ".cpp")) if FRAGMENT.match(place[1])],
    ),
    "private_words": (
        "lines with private words or phrases",
        0,
        lambda tree: matching(tree, tree.product(".h", ".cpp", ".lua"), PRIVATE_WORDS),
    ),
    "citations": (
        "comments that cite what is not in the tree",
        0,
        lambda tree: matching(tree, tree.product(".h", ".cpp", ".lua", ".py"), CITATION, comments_only=True),
    ),
    "headers": ("headers", 322, lambda tree: [(name, 1) for name in tree.product(".h")]),
    "headers_of_one": ("headers with one includer", 62, headers_of_one),
    "checks": (
        "checks of invariants (at least)",
        -68,
        lambda tree: matching(tree, tree.product(".h", ".cpp"), re.compile(r"FORETIME_CHECK\(|fail_check\(")),
    ),
}
SUMMED = ("lines", "lua", "words")


def value(name, tree):
    found = list(FIGURES[name][2](tree))
    return sum(count for _, count in found) if name in SUMMED else len(found)


def main(arguments):
    tree = Tree()
    if len(arguments) == 2 and arguments[0] == "--list" and arguments[1] in FIGURES:
        for place, line in FIGURES[arguments[1]][2](tree):
            print(f"{place}: {line}")
        return 0
    if len(arguments) > 1 or (arguments and arguments[0].startswith("-")):
        print(__doc__, file=sys.stderr)
        return 2
    before = Tree(arguments[0]) if arguments else None
    status = 0
    for name, (meaning, limit, _) in FIGURES.items():
        now = value(name, tree)
        beyond = now < -limit if limit < 0 else now > limit
        status |= beyond
        earlier = f"{value(name, before):>8} →" if before else ""
        print(
            f"code_figures.py: {earlier}{now:>8}  {meaning}; limit {abs(limit)}{'  BEYOND ITS LIMIT' if beyond else ''}"
        )
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
