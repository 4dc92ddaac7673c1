#!/usr/bin/env python3
"""Writes man pages from what `foretime COMMAND --help` prints: foretime.1, foretime-train.1, foretime-data-pack.1, …

  tools/package/man_pages.py build/release/cli/foretime DIR

`cmake --install` calls it.
"""

import concurrent.futures
import pathlib
import re
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "check"))
import commands_page  # noqa: E402


def escaped(line):
    line = line.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + line if line.startswith((".", "'")) else line


def page(foretime, words, version, others):
    """The page of one command as roff."""
    lines = commands_page.help_of(foretime, tuple(words)).rstrip().splitlines()
    name = "-".join(("foretime", *words))
    usage = next((place for place, line in enumerate(lines) if line.startswith("Usage: ")), 0)
    meaning = " ".join(lines[:usage]).rstrip(".")
    out = [
        f'.TH "{name.upper()}" "1" "" "foretime {version}" "Foretime"',
        ".SH NAME",
        f"{name} \\- {escaped(meaning)}",
        ".SH SYNOPSIS",
        ".nf",
        f".B {escaped(lines[usage].removeprefix('Usage: '))}",
        ".fi",
    ]
    block = []

    def close():
        if any(line.strip() for line in block):
            out.extend([".nf", *(escaped(line) for line in block), ".fi"])
        block.clear()

    for line in lines[usage + 1 :]:
        heading = re.fullmatch(r"([A-Z][\w ()']*):", line)
        if heading:
            close()
            out.append(f".SH {heading.group(1).upper()}")
            continue
        if not block and not line.strip():
            continue
        if line.startswith("Exit codes:"):
            close()
            out.append(".SH EXIT CODES")
            line = line.removeprefix("Exit codes:").strip()
        elif not line.startswith(" ") and not block:
            out.append(".SH DESCRIPTION")
        for part in commands_page.narrow(line):
            block.append(part)
    close()
    if others:
        out += [".SH SEE ALSO", ", ".join(f"\\fB{escaped(other)}\\fP(1)" for other in others)]
    return name, "\n".join(out) + "\n"


def commands(foretime, words=()):
    """The words of all commands, the program itself first."""
    found = [tuple(words)]
    for name in commands_page.subcommands(commands_page.help_of(foretime, tuple(words))):
        found += commands(foretime, (*words, name))
    return found


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    foretime, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    printed = subprocess.run([foretime, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"\d+\.\d+(\.\d+)?", printed).group(0)
    everything = commands(foretime)

    def write(words):
        below = [other for other in everything if len(other) == len(words) + 1 and other[: len(words)] == words]
        others = ["-".join(("foretime", *other)) for other in below] or ["foretime"]
        name, text = page(foretime, words, version, others)
        (folder / f"{name}.1").write_text(text, encoding="utf-8")

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(write, everything))


if __name__ == "__main__":
    main()
