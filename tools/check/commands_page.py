#!/usr/bin/env python3
"""Writes docs/reference/commands.md from what `foretime COMMAND --help` prints.

  tools/check/commands_page.py build/release/cli/foretime > docs/reference/commands.md

tools/check/check_docs.py --foretime compares the page with the program.
"""

import concurrent.futures
import functools
import re
import subprocess
import sys
import textwrap

WIDTH = 118
INTRODUCTION = """# Commands

Every command with its options. `tools/check/commands_page.py FORETIME > docs/reference/commands.md` makes the page.
[Exit codes](exit-codes.md) are the same for all commands, and each prints its help with `-h` or `--help`.

## Options of the queue

Commands that use the queue take these.

```
{queue}
```
"""
HELP_OPTION = re.compile(r"^  -h,--help .*\n", re.MULTILINE)
QUEUE_OPTIONS = re.compile(r"^Queue:\n((?:  .*\n)+)", re.MULTILINE)  # a group of a help text


@functools.lru_cache(maxsize=None)
def help_of(foretime, words):
    done = subprocess.run([foretime, *words, "--help"], capture_output=True, text=True, check=True)
    return done.stdout


def subcommands(text):
    """Names in the section `Subcommands:` of a help text."""
    section = re.search(r"^Subcommands:\n((?:  .*\n?)+)", text, re.MULTILINE)
    return re.findall(r"^  (\w[\w-]*)", section.group(1), re.MULTILINE) if section else []


def narrow(line):
    """Breaks a line that is too long; what continues stands below the option's description."""
    if len(line) <= WIDTH:
        return [line]
    column = re.match(r"  \S.*?\s{2,}(?=\S)|\s*", line).end()
    return textwrap.wrap(
        line,
        WIDTH,
        subsequent_indent=" " * column,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    ) or [""]


def queue_options(foretime):
    return QUEUE_OPTIONS.search(help_of(foretime, ("status",))).group(1)


def narrowed(text):
    return [narrow_line for line in text.rstrip().splitlines() for narrow_line in narrow(line.rstrip())]


def section(foretime, words):
    text = help_of(foretime, tuple(words))
    below = subcommands(text)
    text = HELP_OPTION.sub("", text.split("\nExit codes:")[0].rstrip() + "\n")
    text = re.sub(r"\nOptions:\n(?=\n|$)", "\n", text)  # there was only --help
    text = text.replace("Queue:\n" + queue_options(foretime), "Queue: --redis, --runs, --prefix\n")
    text = re.sub(r"\n{3,}", "\n\n", text)
    lines = ["", "#" * (len(words) + 1) + " foretime " + " ".join(words), "", "```"]
    lines += narrowed(text)
    lines.append("```")
    for name in below:
        lines += section(foretime, [*words, name])
    return lines


def page(foretime):
    names = subcommands(help_of(foretime, ()))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        sections = pool.map(lambda name: section(foretime, [name]), names)
        introduction = INTRODUCTION.format(queue="\n".join(narrowed(queue_options(foretime))))
        return introduction + "\n".join(line for lines in sections for line in lines) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.stdout.write(page(sys.argv[1]))
