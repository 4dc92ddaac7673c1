#!/usr/bin/env python3
"""Checks that the folders depend on each other in one direction only, by reading the sources and the CMake files.

  tools/check/check_includes.py              checks this repository; exit code 1 and one line a violation
  tools/check/check_includes.py --self-test  plants each kind of violation in a scratch tree and must find it

Seven rules:
1. A file includes only headers of its own top folder and of the folders below it (ORDER).
2. Folders and sub-folders do not include each other in circles, at any depth: `data/files` and `data/graphs` are two of
   them, so are `comm` (its own files) and `comm/mpi`, and so are `data/frontends`, with all below it, and `data/dataset`.
3. The folders in LIGHT are free of LibTorch and MPI.
4. The link lines in the CMakeLists.txt of a folder and of its sub-folders name only libraries that it may include.
5. A function that another source of its folder calls is declared in a header, and whoever calls a function includes a
   header that declares it, or one that includes it. Release builds join sources, where the compiler does not notice.
6. A folder uses what it may include: an entry of ORDER that nothing includes is removed.
7. The folders in FOREIGN read what jobs and other users may have written: they open files by base/foreign_file.h alone.
"""

import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Each folder with what it may include beside itself. Tests, benchmarks and the binary may include all.
ORDER = {
    folder: set(names.split())
    for folder, names in {
        "base": "",
        "history": "base",
        "metrics": "base",
        "configs": "base metrics",
        "data": "base metrics configs",
        "plans": "base metrics configs data",
        "inference": "base metrics configs data plans",
        "models": "base metrics configs data plans inference",
        "comm": "base metrics configs",
        "sharding": "base metrics configs data",
        "coordinator": "base metrics configs data comm sharding",
        "worker": "base history metrics configs data plans inference models comm sharding coordinator",
        "jobs": "base metrics configs history",
        "experiments": "base history metrics configs data plans inference models comm sharding coordinator worker jobs",
        "server": "base metrics configs data plans inference",
        "cli": "base history metrics configs data plans inference models comm sharding coordinator worker jobs "
        "experiments server",
    }.items()
}
UNRESTRICTED = ("bench", "tests")
# These must link neither LibTorch nor MPI.
LIGHT = tuple("base history metrics configs data plans inference sharding jobs server".split())
HEAVY_HEADER = re.compile(r"^(torch/|ATen/|c10/|mpi\.h$|nccl\.h$)")
HEAVY_LINK = re.compile(r"^(foretime_torch|torch|MPI::|NCCL::)")
FOREIGN = ("history", "jobs/agent", "jobs/artifacts", "coordinator", "experiments", "cli/board", "cli/jobs")
OPENS = re.compile(
    r"files\(\)\.(?:read|size)\(|\b(?:read_input|read_csv|start_of|file_size|fopen|LoadFile)\(|(?<![\w>.])::open\(|\bifstream\b|"
    r"padded_string::load\b"
)
# Files of these folders that open nothing foreign that way.
OPENS_OWN = {
    "jobs/agent/gpus.cpp": "the driver's files in /proc",
    "coordinator/run_directory.cpp": "/proc/self/status, and the size of the metrics that this process writes",
    "coordinator/run_lock.cpp": "/proc, and the lock that is opened for writing",
}
SOURCE_SUFFIXES = {".h", ".cpp", ".cu", ".cc", ".hpp", ".c"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
INCLUDES = re.compile(INCLUDE.pattern, re.M)


def source_files(folder):
    return sorted(path for path in folder.rglob("*") if path.suffix in SOURCE_SUFFIXES and path.is_file())


def includes(root, folder):
    """(file below the root, its line, quote or bracket, header) of all includes in a folder."""
    for path in source_files(root / folder):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if match:
                yield path.relative_to(root), number, *match.groups()


def check_sources(root, folder):
    """Rules 1 and 3."""
    for path, number, quote, header in includes(root, folder):
        where, top = f"{path}:{number}: includes {header}", header.split("/")[0]
        if folder in LIGHT and HEAVY_HEADER.match(header):
            yield f"{where}, but {folder} must do without LibTorch, MPI and NCCL"
        elif ".." in pathlib.PurePosixPath(header).parts or (quote == '"' and "/" not in header):
            yield f"{where}, expected a path from the project's root"
        elif "/" in header and top in UNRESTRICTED and folder not in UNRESTRICTED:
            yield f"{where}, but {top} is not part of the product"
        elif "/" in header and top in ORDER and top != folder and top not in ORDER[folder]:
            allowed = ", ".join(name for name in ORDER if name in ORDER[folder]) or "no other folder"
            yield f"{where}, but {folder} may include {allowed}"


def included_folders(root):
    """{folder: {folder that it includes: one place where it does}}, for all folders with sources."""
    edges = {}
    for top in ORDER:
        for path, number, _, header in includes(root, top):
            folder, target = path.parent.as_posix(), pathlib.PurePosixPath(header).parent.as_posix()
            if header.split("/")[0] in ORDER and "/" in header and target != folder:
                edges.setdefault(folder, {}).setdefault(target, f"{path}:{number} includes {header}")
    return edges


def shortened(folder, depth):
    return "/".join(folder.split("/")[:depth])


def circles(root):
    """Rule 2: one line a circle, the shortest through each edge that closes one."""
    edges = included_folders(root)
    found = set()
    deepest = max((folder.count("/") + 1 for folder in edges), default=1)
    for depth in range(1, deepest + 1):
        at_depth = {}
        for folder, targets in edges.items():
            for target, place in targets.items():
                if shortened(folder, depth) != shortened(target, depth):
                    at_depth.setdefault(shortened(folder, depth), {}).setdefault(shortened(target, depth), place)
        yield from circles_of(at_depth, found)


def circles_of(edges, told):
    for start in sorted(edges):
        for first in sorted(edges[start]):
            came_from, queue = {first: None}, [first]
            while queue and start not in came_from:
                here = queue.pop(0)
                for target in sorted(edges.get(here, {})):
                    if target not in came_from:
                        came_from[target] = here
                        queue.append(target)
            if start not in came_from:
                continue
            back, here = [start], came_from[start]
            while here is not None:
                back.append(here)
                here = came_from[here]
            circle = [start] + back[::-1]
            if frozenset(circle) in told:
                continue
            told.add(frozenset(circle))
            places = "; ".join(edges[a][b] for a, b in zip(circle, circle[1:]))
            yield f"circle of folders {' -> '.join(circle)}: {places}"


def unused_entries(root):
    """Rule 6."""
    for folder, allowed in ORDER.items():
        if not (root / folder).is_dir():
            continue
        used = {header.split("/")[0] for _, _, _, header in includes(root, folder)} & allowed
        implied = set().union(*(ORDER[lower] for lower in used))
        for lower in sorted(allowed - used - implied):
            yield f"tools/check/check_includes.py: {folder} may include {lower}, and does not; remove it from ORDER"


def cmake_words(text):
    return re.sub(r"#[^\n]*", "", text).replace("(", " ( ").replace(")", " ) ").split()


def linked_names(words):
    """Everything named after LINK, PUBLIC, PRIVATE or INTERFACE in the calls that make or link libraries."""
    call, listing = None, False
    for position, word in enumerate(words):
        if word == "(":
            call, listing = words[position - 1].lower(), False
        elif word == ")":
            call = None
        elif call in ("foretime_library", "target_link_libraries"):
            if word in ("LINK", "PUBLIC", "PRIVATE", "INTERFACE"):
                listing = True
            elif word in ("FOLDERS", "SOURCES", "TORCH"):
                listing = False
                if word == "TORCH":
                    yield "foretime_torch"
            elif listing:
                yield word


def check_cmake(root, folder):
    """Rule 4."""
    for path in sorted((root / folder).rglob("CMakeLists.txt")):
        for name in linked_names(cmake_words(path.read_text(encoding="utf-8"))):
            top = name.removeprefix("foretime_")
            if folder in LIGHT and HEAVY_LINK.match(name):
                yield f"{path.relative_to(root)}: links {name}, but {folder} must do without LibTorch, MPI and NCCL"
            elif name != top and top in ORDER and top != folder and top not in ORDER[folder]:
                yield f"{path.relative_to(root)}: links {name}, but {folder} may not depend on {top}"


DEFINITION = re.compile(
    r"^(?!using|return|static|extern|template|typedef)\w[\w:<>,&* ]*?[ &*](\w+)\([^;{}]*\)(?: const| noexcept)* \{",
    re.M,
)
DECLARATION = re.compile(
    r"^(?!using|return|static_assert|typedef|struct|class|enum|namespace)(?:\[\[nodiscard\]\] )?(?:inline |constexpr |template <[^>]*> )*"
    r"\w[\w:<>,&* ]*?[ &*](\w+)\(",
    re.M,
)
MEMBER = re.compile(r"^ +[\w:<>,&* ]*?[ &*~](\w+)\(", re.M)
CALL = re.compile(r"(?<![\w.:>])(?:(\w+)::)?(\w+)\(")
# A variable, a parameter or a function of the file itself: a type precedes the name, or an index follows it.
OWN = re.compile(r"(?<!\breturn)(?<!\belse)(?<!\bthrow)(?<!\bcase)(?:(?<=\w)|(?<=[\w>][&*>])) (\w+)\b|\b(\w+)\[")
UNNAMED = re.compile(r"^namespace \{$.*?^\}  // namespace$", re.M | re.S)
QUOTED = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"')
STAND_IN = "tests/comm/standin"


def undeclared_functions(root):
    """Rule 5."""
    texts = {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for folder in (*ORDER, *UNRESTRICTED)
        if (root / folder).is_dir()
        for path in source_files(root / folder)
        if path.suffix in (".h", ".cpp")
    }
    yield from without_declaration(texts)
    yield from without_include(texts)


def without_declaration(texts):
    declared = {"main"}.union(*(re.findall(r"\w+", text) for path, text in texts.items() if path.endswith(".h")))
    sources = {pathlib.PurePosixPath(path): text for path, text in texts.items() if path.endswith(".cpp")}
    for path, text in sources.items():
        for name in sorted(set(DEFINITION.findall(UNNAMED.sub("", text))) - declared):
            call = re.compile(rf"(?<![\w.:>]){name}\(")
            for other in sources:
                if (
                    other.parent == path.parent
                    and other != path
                    and call.search(sources[other])
                    and name not in DEFINITION.findall(UNNAMED.sub("", sources[other]))
                ):
                    yield f"{other}: calls {name} of {path}, which no header declares"


def reached(path, included):
    """All headers that a source includes, directly or through others."""
    found, left = {path}, [path]
    while left:
        new = [header for header in included[left.pop()] if header not in found]
        found.update(new)
        left += new
    return found


def without_include(texts):
    headers = {path: text for path, text in texts.items() if path.endswith(".h") and not path.startswith(STAND_IN)}
    included = {path: [name for _, name in INCLUDES.findall(text) if name in headers] for path, text in texts.items()}
    declaring, members = {}, set()
    for path, text in headers.items():
        members.update(MEMBER.findall(text))
        for name in DECLARATION.findall(text):
            declaring.setdefault(name, set()).add(path)
    for path in sorted(set(texts) - set(headers)):
        text = QUOTED.sub("", texts[path])
        own = {name for pair in OWN.findall(text) for name in pair}
        found = reached(path, included)
        top = path.split("/")[0]
        for space, name in sorted(set(CALL.findall(text))):
            candidates = {
                header
                for header in declaring.get(name, ())
                if top in UNRESTRICTED or header.split("/")[0] in {top, *ORDER[top]}
            }
            if (
                candidates
                and not candidates & found
                and name not in own | members
                and space not in ("std", "fs", "torch", "fmt")
            ):
                yield f"{path}: calls {name}, and includes no header that declares it: {', '.join(sorted(candidates))}"


def check_opens(root):
    """Rule 7."""
    for folder in FOREIGN:
        for path in source_files(root / folder):
            name = path.relative_to(root).as_posix()
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                match = OPENS.search(line.split("//")[0])
                if match and name not in OPENS_OWN:
                    yield (
                        f"{name}:{number}: {match.group()} opens whatever lies there, a FIFO or a link to a private file too; "
                        "use read_foreign or open_foreign (base/foreign_file.h)"
                    )


def violations(root):
    for folder in ORDER:
        if (root / folder).is_dir():
            yield from check_sources(root, folder)
            yield from check_cmake(root, folder)
    yield from circles(root)
    if root == ROOT:
        yield from unused_entries(root)
    yield from undeclared_functions(root)
    yield from check_opens(root)


def check_is_acyclic():
    """ORDER must be an order: whatever a folder may include, it may include all that this one may include."""
    for folder, allowed in ORDER.items():
        for lower in allowed:
            assert folder not in ORDER[lower] and ORDER[lower] <= allowed, (folder, lower)


CLEAN = {
    "configs/a.h": "#include <string>\n",
    "data/a.h": '#include "configs/a.h"\n#include "data/b.h"\n#include <sys/mman.h>\n',
    "comm/a.h": '#include <mpi.h>\n#include <torch/torch.h>\n#include "configs/a.h"\n',
    "comm/mpi/a.h": '#include "comm/a.h"\n',
    "comm/nccl/a.cpp": '#include "comm/mpi/a.h"\n#include "comm/nccl/b.h"\n',
    "data/dataset/b.h": '#include "data/frontends/tir/a.h"\n',
    "data/files/a.h": '#include "data/graphs/a.h"\n',
    "data/graphs/a.h": '#include "data/graphs/b.h"\n',
    "worker/a.cpp": '#include "coordinator/a.h"\n// #include "cli/a.h"\n',
    "tests/worker/a_test.cpp": '#include "cli/a.h"\n',
    "worker/steps.cpp": "int steps_of(int a) {\n  return a;\n}\nnamespace {\nint hidden(int a) {\n  return a;\n}\n}  // namespace\n",
    "cli/board/run.cpp": "// files().read(\nread_foreign(folder, name, 10); reopen(x); device::open(x);\n",
    "jobs/agent/gpus.cpp": "std::ifstream file;\n",
    "configs/nodes.h": "int nodes_of(int a);\n",
    "data/nodes.h": '#include "configs/nodes.h"\n',
    "data/near.cpp": '#include "data/nodes.h"\nint one() {\n  return nodes_of(1);\n}\n',
    "data/own.cpp": "int one(int nodes_of) {\n  return nodes_of(1);\n}\n",
    "worker/CMakeLists.txt": "foretime_library(foretime_worker TORCH SOURCES a.cpp LINK foretime_coordinator)\n",
}
PLANTED = {
    "data/up.h": ('#include "models/model.h"\n', "data/up.h:1: includes models/model.h"),
    "data/angle.h": ("\n# include <worker/a.h>\n", "data/angle.h:2: includes worker/a.h"),
    "comm/side.cpp": ('#include "data/a.h"\n', "comm/side.cpp:1: includes data/a.h"),
    "models/comm.cpp": ('#include "comm/a.h"\n', "models/comm.cpp:1: includes comm/a.h"),
    "configs/torch.h": ("#include <torch/torch.h>\n", "configs/torch.h:1: includes torch/torch.h"),
    "jobs/mpi.cpp": ("#include <mpi.h>\n", "jobs/mpi.cpp:1: includes mpi.h"),
    "data/graphs/circle.cpp": (
        '#include "data/files/a.h"\n',
        "circle of folders data/files -> data/graphs -> data/files",
    ),
    "comm/circle.cpp": ('#include "comm/mpi/a.h"\n', "circle of folders comm -> comm/mpi -> comm"),
    "data/frontends/hlo/a.cpp": (
        '#include "data/dataset/a.h"\n',
        "circle of folders data/dataset -> data/frontends -> data/dataset",
    ),
    "comm/long.cpp": ('#include "comm/nccl/a.h"\n', "circle of folders comm -> comm/nccl -> comm/mpi -> comm"),
    "worker/caller.cpp": (
        "int twice() { return 2 * steps_of(1) + hidden(1); }\n",
        "worker/caller.cpp: calls steps_of of worker/steps.cpp",
    ),
    "data/far.cpp": (
        "int two() {\n  return 2 * nodes_of(1);\n}\n",
        "data/far.cpp: calls nodes_of, and includes no header that declares it: configs/nodes.h",
    ),
    "cli/test.cpp": ('#include "tests/support/paths.h"\n', "cli/test.cpp:1: includes tests/support/paths.h"),
    "cli/dots.cpp": ('#include "../worker/a.h"\n', "cli/dots.cpp:1: includes ../worker/a.h"),
    "cli/near.cpp": ('#include "commands.h"\n', "cli/near.cpp:1: includes commands.h"),
    "history/read.cpp": ("x = files().read(path);\n", "history/read.cpp:1: files().read("),
    "jobs/agent/size.cpp": ("\nif (files().size(path) > 0)\n", "jobs/agent/size.cpp:2: files().size("),
    "experiments/table.cpp": ("read_csv(folder / name)\n", "experiments/table.cpp:1: read_csv("),
    "cli/board/stream.cpp": ("std::ifstream file(path);\n", "cli/board/stream.cpp:1: ifstream"),
    "cli/jobs/open.cpp": ("Descriptor file(::open(path, 0));\n", "cli/jobs/open.cpp:1: ::open("),
    "models/CMakeLists.txt": (
        "foretime_library(foretime_models TORCH SOURCES a.cpp\n  LINK foretime_data  # foretime_cli\n  foretime_comm)\n",
        "models/CMakeLists.txt: links foretime_comm",
    ),
    "data/CMakeLists.txt": (
        "foretime_library(foretime_data TORCH SOURCES a.cpp LINK foretime_configs)\n",
        "data/CMakeLists.txt: links foretime_torch",
    ),
    "data/frontends/hlo/CMakeLists.txt": (
        "foretime_library(foretime_hlo LINK foretime_plans FOLDERS .)\n",
        "data/frontends/hlo/CMakeLists.txt: links foretime_plans",
    ),
    "jobs/CMakeLists.txt": (
        "target_link_libraries(foretime_jobs PUBLIC MPI::MPI_C)\n",
        "jobs/CMakeLists.txt: links MPI::MPI_C",
    ),
}


def self_test():
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch)

        def write(name, text):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

        for name, text in CLEAN.items():
            write(name, text)
        found = list(violations(root))
        assert not found, f"a clean tree was refused: {found}"
        for name, (text, expected) in PLANTED.items():
            write(name, text)
            found = list(violations(root))
            assert len(found) == 1 and found[0].startswith(expected), f"{name}: expected '{expected}', found {found}"
            (root / name).unlink()
    print(f"check_includes.py: self test passed, {len(PLANTED)} planted violations found")


def main(arguments):
    check_is_acyclic()
    if arguments == ["--self-test"]:
        self_test()
        return 0
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    root = ROOT
    found = list(violations(root))
    for line in found:
        print(line)
    count = sum(len(source_files(root / folder)) for folder in ORDER if (root / folder).is_dir())
    print(f"check_includes.py: {count} files, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
