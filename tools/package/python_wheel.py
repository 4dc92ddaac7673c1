#!/usr/bin/env python3
"""Makes the wheel of the Python package: what pip calls (PEP 517, PEP 660), and what tools/package/wheel.sh calls.

  tools/package/python_wheel.py OUT [--self-contained]

The package is ctypes over libforetime, so one wheel serves every Python 3.9 and later. libforetime is, in this order, the file that
FORETIME_LIBRARY names, that of a build in build/release, brought up to date, or built in build/python, which needs neither LibTorch nor
MPI. --self-contained also puts in the shared libraries that it needs, under names of their own, so that the wheel runs on machines
that lack them; needs patchelf. Nothing but Python's standard library is used, so that pip downloads nothing to build it.
"""
import argparse
import base64
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "foretime"
# What every Linux system with the C library of the tag has: never put in. A process has one OpenMP runtime: libgomp
# keeps its name.
SYSTEM = re.compile(r"(ld-linux[\w-]*|linux-vdso|lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s))\.so(\.\d+)*")
KEEP_NAME = ("libgomp.so.1",)
METADATA = """Metadata-Version: 2.1
Name: foretime
Version: {version}
Summary: Learned cost models for machine-learning compilers: trained models in Python
License: Apache-2.0
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Typing :: Typed
Requires-Python: >=3.9
Requires-Dist: numpy (>=1.21)
Provides-Extra: pandas
Requires-Dist: pandas ; extra == 'pandas'
Description-Content-Type: text/markdown

"""


def version():
    """That of the project, which CMakeLists.txt alone names."""
    return re.search(r"project\(foretime VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, **options)


def output_of(*command):
    return run(*command, stdout=subprocess.PIPE, text=True).stdout


def build_library():
    """The path of libforetime."""
    named = os.environ.get("FORETIME_LIBRARY")
    if named:
        if not os.path.isfile(named):
            raise SystemExit(f"FORETIME_LIBRARY: {named}: no such file, expected a libforetime.so")
        return pathlib.Path(named).resolve()
    build = ROOT / "build" / "release"
    if not (build / "build.ninja").exists():
        build = ROOT / "build" / "python"
        if not (build / "build.ninja").exists():
            if not shutil.which("cmake"):
                raise SystemExit(
                    "python_wheel.py: cmake is missing. tools/install-deps.sh installs what the build needs; or name a "
                    "libforetime.so in FORETIME_LIBRARY"
                )
            run(
                "cmake",
                "-S",
                ROOT,
                "-B",
                build,
                "-G",
                "Ninja",
                "-DCMAKE_BUILD_TYPE=Release",
                "-DFORETIME_UNITY=ON",
                "-DFORETIME_LIBRARY_ONLY=ON",
                "-DFORETIME_BUILD_TESTS=OFF",
                "-DFORETIME_BUILD_BENCH=OFF",
                stdout=sys.stderr,
            )
    run("cmake", "--build", build, "--target", "foretime_shared", stdout=sys.stderr)
    return (build / "inference" / "capi" / "libforetime.so").resolve()


def needed(library):
    """{name: path} of the shared libraries that this one needs, and those need, but the system's."""
    found = {}
    for line in output_of("ldd", library).splitlines():
        if "not found" in line:
            raise SystemExit(f"{library}: needs {line.split()[0]}, which is not found")
        match = re.match(r"\s*(\S+) => (/\S+)", line)
        if match and not SYSTEM.fullmatch(match.group(1)):
            found[match.group(1)] = pathlib.Path(match.group(2)).resolve()
    return found


def direct(library):
    return output_of("patchelf", "--print-needed", library).split()


def put_in(library, folder):
    """Copies of what the library needs, beside it; each named by its content, so that a process may have another of that name too."""
    copies = {}
    for name, path in needed(library).items():
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
        stem, dot, rest = name.partition(".so")
        copies[name] = name if name in KEEP_NAME else f"{stem}-{digest}{dot}{rest}"
        copy = folder / copies[name]
        shutil.copyfile(path, copy)
        copy.chmod(0o755)
        notes(path, folder)
    for name in copies.values():
        copy = folder / name
        run("patchelf", "--set-soname", name, copy)
    for file in [library, *(folder / name for name in copies.values())]:
        for name in direct(file):
            if copies.get(name, name) != name:
                run("patchelf", "--replace-needed", name, copies[name], file)
        run("patchelf", "--force-rpath", "--set-rpath", "$ORIGIN", file)


def notes(path, folder):
    """The copyright file of the Debian package that a library comes from."""
    owner = subprocess.run(
        ["dpkg", "-S", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
    ).stdout
    package = owner.split(":")[0]
    copyright_file = pathlib.Path("/usr/share/doc") / package / "copyright"
    if package and copyright_file.exists():
        (folder / "licenses").mkdir(exist_ok=True)
        shutil.copyfile(copyright_file, folder / "licenses" / package)


def platform_tag(libraries, self_contained):
    machine = platform.machine()
    if not self_contained:
        return sysconfig.get_platform().replace("-", "_").replace(".", "_")
    # The least C library that has all that is asked for: the tag's version.
    asked = [
        tuple(map(int, found.split(".")))
        for file in libraries
        for found in re.findall(r"GLIBC_(\d+\.\d+)", output_of("readelf", "-V", "-W", file))
    ]
    major, minor = max(asked)[:2]
    return f"manylinux_{major}_{minor}_{machine}"


def write_wheel(folder, content, tag):
    """A wheel of the files under `content`; its name."""
    info = content / f"foretime-{version()}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        METADATA.format(version=version()) + (ROOT / "docs/how-to/python.md").read_text(encoding="utf-8"),
        encoding="utf-8",
    )
    (info / "WHEEL").write_text(
        f"Wheel-Version: 1.0\nGenerator: foretime\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n"
    )
    shutil.copyfile(ROOT / "LICENSE", info / "LICENSE")
    name = f"foretime-{version()}-py3-none-{tag}.whl"
    path = pathlib.Path(folder) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for file in sorted(content.rglob("*")):
            if not file.is_file():
                continue
            inside, data = file.relative_to(content).as_posix(), file.read_bytes()
            entry = zipfile.ZipInfo(inside, (1980, 1, 1, 0, 0, 0))  # equal content gives equal bytes
            entry.external_attr = (0o755 if os.access(file, os.X_OK) else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{inside},sha256={digest},{len(data)}\n")
        inside = f"{info.name}/RECORD"
        wheel.writestr(zipfile.ZipInfo(inside, (1980, 1, 1, 0, 0, 0)), "".join(record) + f"{inside},,\n")
    return name


def make(folder, self_contained=False):
    """The wheel's name in this folder."""
    library = build_library()
    with tempfile.TemporaryDirectory(prefix="foretime-wheel-") as scratch:
        content = pathlib.Path(scratch)
        package = content / "foretime"
        shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "*.so*"))
        if (ROOT / "pretrained").is_dir():
            shutil.copytree(ROOT / "pretrained", package / "pretrained", ignore=shutil.ignore_patterns("*.json"))
        inside = package / "libforetime.so"
        shutil.copyfile(library, inside)
        inside.chmod(0o755)
        if self_contained:
            if not shutil.which("patchelf"):
                raise SystemExit("python_wheel.py: patchelf is missing (apt-get install patchelf)")
            if shutil.which("strip"):
                run("strip", "--strip-unneeded", inside)
            put_in(inside, package)
        libraries = list(package.glob("*.so*"))
        return write_wheel(folder, content, platform_tag(libraries, self_contained))


# What pip calls.
def get_requires_for_build_wheel(config_settings=None):
    return []


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return make(wheel_directory)


def get_requires_for_build_editable(config_settings=None):
    return []


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    build_library()
    with tempfile.TemporaryDirectory(prefix="foretime-wheel-") as scratch:
        content = pathlib.Path(scratch)
        (content / "foretime.pth").write_text(f"{PACKAGE.parent}\n")
        return write_wheel(wheel_directory, content, platform_tag([], False))


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit(
        "foretime: no source distribution; the source is the checkout, and tools/package/wheel.sh makes wheels"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="folder for the wheel")
    parser.add_argument(
        "--self-contained", action="store_true", help="put in the shared libraries that libforetime needs"
    )
    options = parser.parse_args()
    print(pathlib.Path(options.out) / make(options.out, options.self_contained))


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"python_wheel.py: {' '.join(error.cmd)}: exit code {error.returncode}")
