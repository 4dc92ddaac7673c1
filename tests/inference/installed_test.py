"""The installed library: what it shows and needs, and that C programs find it. FORETIME_BUILD_DIR is the build tree."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["FORETIME_BUILD_DIR"])
SOURCE = pathlib.Path(__file__).resolve().parents[2]
# Of what a library of the system may need: none of it may come from LibTorch, MPI, Python or a GPU.
HEAVY = re.compile(r"lib(torch|c10|mpi|open-rte|open-pal|python|cuda|nccl|xgboost|hiredis|fasttext)")


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.prefix = cls.folder / "prefix"
        for component in ("library", "development", "python"):
            run("cmake", "--install", BUILD, "--component", component, "--prefix", cls.prefix)
        cls.library = next(cls.prefix.rglob("libforetime.so"))
        cls.samples = cls.folder / "samples"
        run(os.environ["FORETIME_SAMPLE_FILES"], cls.samples)
        cls.environment = dict(
            os.environ, LD_LIBRARY_PATH=str(cls.library.parent), PKG_CONFIG_PATH=str(cls.library.parent / "pkgconfig")
        )

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def score(self, program):
        arguments = [self.samples / name for name in ("loops.foretime", "compute_dag.json", "records.json")]
        lines = run(program, *arguments, "2", env=self.environment).splitlines()
        self.assertEqual(10, len(lines))
        scores = [float(re.search(r"score (\S+)", line).group(1)) for line in lines]
        self.assertEqual(scores, sorted(scores))
        self.assertTrue(all(" s\t" in line for line in lines))

    def test_needs_neither_libtorch_nor_mpi(self):
        needed = run("ldd", self.library)
        self.assertIsNone(HEAVY.search(needed), needed)

    def test_is_known_by_its_interface_version(self):
        self.assertIn("[libforetime.so.1]", run("readelf", "-d", self.library))
        self.assertTrue((self.library.parent / "libforetime.so.1").exists())

    def test_shows_the_functions_of_the_header_alone(self):
        symbols = {
            line.split()[-1].split("@")[0] for line in run("nm", "-D", "--defined-only", self.library).splitlines()
        }
        header = (self.prefix / "include" / "foretime.h").read_text()
        declared = set(re.findall(r"FORETIME_API[^;(]*?\b(foretime_\w+)\(", header))
        self.assertEqual(declared, symbols)

    def test_header_is_plain_c(self):
        include = f"-I{self.prefix / 'include'}"
        for compiler, standard in (("cc", "-std=c99"), ("c++", "-std=c++11")):
            source = self.folder / ("header.c" if compiler == "cc" else "header.cc")
            source.write_text(
                "#include <foretime.h>\nint main(void) { return foretime_abi_version() - FORETIME_ABI_VERSION; }\n"
            )
            run(compiler, standard, "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", include, source)

    def test_header_of_trials_stands_alone(self):
        source = self.folder / "trial.cc"
        source.write_text("#include <foretime_trial.hpp>\nint main() { foretime::Trial trial; trial.finish(0, {}); }\n")
        run(
            "c++",
            "-std=c++17",
            "-pedantic",
            "-Wall",
            "-Wextra",
            "-Werror",
            f"-I{self.prefix / 'include'}",
            source,
            "-o",
            self.folder / "trial",
        )

    def test_pkg_config_finds_it(self):
        flags = run("pkg-config", "--cflags", "--libs", "foretime", env=self.environment).split()
        program = self.folder / "by_pkg_config"
        run(
            "cc",
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            self.prefix / "share/foretime/example/score_records.c",
            *flags,
            "-o",
            program,
        )
        self.score(program)

    def test_find_package_finds_it(self):
        project = self.folder / "project"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.16)\nproject(user C)\nfind_package(foretime 0.1 REQUIRED)\n"
            "add_executable(by_cmake score_records.c)\ntarget_link_libraries(by_cmake PRIVATE foretime::foretime)\n"
        )
        (project / "score_records.c").write_text((SOURCE / "inference/capi/example/score_records.c").read_text())
        run("cmake", "-G", "Ninja", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", project / "build")
        self.score(project / "build" / "by_cmake")

    def test_python_package_is_there(self):
        self.assertTrue((self.prefix / "share/foretime/python/foretime/__init__.py").is_file())

    def test_example_of_the_build_tree_scores(self):
        self.score(BUILD / "inference/capi/score_records")


class Programs(unittest.TestCase):
    """All that `cmake --install` puts under a prefix, moved to another place afterwards, as an ordinary user has it."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.folder.chmod(0o755)
        run("cmake", "--install", BUILD, "--prefix", cls.folder / "first")
        cls.prefix = cls.folder / "moved"
        (cls.folder / "first").rename(cls.prefix)
        cls.home = cls.folder / "home"
        cls.home.mkdir(mode=0o777)
        cls.home.chmod(0o777)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def as_user(self, *command):
        ordinary = {"user": 65534, "group": 65534} if os.getuid() == 0 else {}
        environment = {
            "PATH": f"{self.prefix}/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "PYTHONPATH": f"{self.prefix}/share/foretime/python",
        }
        return run(*command, cwd=self.home, env=environment, **ordinary)

    def test_trains_from_what_is_installed(self):
        self.assertRegex(
            self.as_user("foretime", "--version"),
            r"^foretime \d+\.\d+\.\d+\ncommit \S+.*\nLibTorch [\d.]+, .*MPI.*NCCL",
        )
        share = self.prefix / "share/foretime"
        self.as_user(
            "foretime",
            "train",
            share / "configs/quickstart.yaml",
            f"data.root={share}/samples/resnet18_conv2d",
            "trainer.steps=2",
            "trainer.baselines=[]",
            "run.directory=runs/a",
            "--quiet",
        )
        self.as_user("foretime", "export", "runs/a", "a.foretime")
        printed = self.as_user(
            "/usr/bin/python3",
            "-B",
            "-c",
            "import foretime, sys; model = foretime.open('a.foretime'); "
            f"print(len(model.score(model.read('{share}/samples/resnet18_conv2d/C3.npz')[0])), foretime.command('--version'))",
        )
        self.assertRegex(printed, r"^980 foretime ")

    def test_models_that_come_with_it_are_found_by_name(self):
        there = self.prefix / "share/foretime/pretrained/x86-cpu.foretime"
        listed = json.loads(self.as_user("foretime", "pretrained", "list", "--json"))
        self.assertEqual([(item["name"], item["file"]) for item in listed], [("x86-cpu", str(there))])
        printed = self.as_user("/usr/bin/python3", "-B", "-c", "import foretime; print(foretime.open('x86-cpu').file)")
        self.assertEqual(printed.strip(), str(there))

    def test_completions_and_man_pages_are_there(self):
        pages = {path.name for path in (self.prefix / "share/man/man1").iterdir()}
        self.assertLessEqual({"foretime.1", "foretime-train.1", "foretime-data-pack-records.1"}, pages)
        page = (self.prefix / "share/man/man1/foretime-rank.1").read_text()
        self.assertIn("foretime-rank", page)
        self.assertIn("\\-\\-candidates FILE", page)
        completions = self.prefix / "share/bash-completion/completions/foretime"
        script = f"source {completions}; COMP_WORDS=(foretime leader) COMP_CWORD=1; _foretime foretime 2>/dev/null; echo ${{COMPREPLY[@]}}"
        self.assertEqual(run("bash", "-c", script).strip(), "leaderboard")
        zsh = (self.prefix / "share/zsh/site-functions/_foretime").read_text()
        self.assertTrue(zsh.startswith("#compdef foretime\n"))
        self.assertTrue((self.prefix / "share/fish/vendor_completions.d/foretime.fish").is_file())

    def test_documentation_is_there(self):
        for name in (
            "doc/foretime/README.md",
            "doc/foretime/docs/index.md",
            "foretime/examples/slurm",
            "foretime/configs/sweeps/quickstart.yaml",
        ):
            self.assertTrue((self.prefix / "share" / name).exists(), name)


if __name__ == "__main__":
    unittest.main()
