"""data.allowed_roots: no file outside of the folders that it names is read, whatever leads there."""
import os
import shutil

from program import SAMPLES, ProgramTest


class ConfineTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.inside, self.outside = self.folder / "inside", self.folder / "outside"
        for folder in (self.inside, self.outside):
            folder.mkdir()
            for name in ("C1.npz", "C12.npz"):
                shutil.copy(SAMPLES / name, folder / name)

    def attempt(self, *named, code=3, ranks=1, **changes):
        values = dict(
            data__root=self.inside, data__train="[C1.npz, C12.npz]", data__test="[]", data__allowed_roots=self.inside
        )
        done = self.train(ranks=ranks, code=code, **{**values, **changes})
        for text in named:
            self.assertIn(str(text), done.stderr)
        return done

    def test_files_inside_are_read_and_the_folders_leave_no_trace_in_the_result(self):
        self.attempt(code=0, run__directory=self.folder / "confined")
        self.attempt(code=0, run__directory=self.folder / "free", data__allowed_roots="[]")
        self.assertEqual(self.checkpoint(6, "confined"), self.checkpoint(6, "free"))
        # A run may be continued by an agent with other folders.
        done = self.attempt(code=0, run__directory=self.folder / "free", trainer__steps=7)
        self.assertIn("continues at step 6", done.stderr)

    def test_a_path_outside(self):
        for pattern in (
            self.outside / "C1.npz",
            "../outside/*.npz",
            str(self.outside),
            f"{self.inside}/../outside/C1.npz",
        ):
            self.attempt("C1.npz", "data.allowed_roots", self.inside, data__train=f"[{pattern}]")
        self.attempt("C1.npz", ranks=2, data__train=f"[{self.outside / 'C1.npz'}]")

    def test_a_folder_whose_name_begins_alike(self):
        shutil.copytree(self.inside, self.folder / "inside2")
        self.attempt("inside2", data__root=self.folder / "inside2")

    def test_a_link_that_leads_out(self):
        (self.inside / "link.npz").symlink_to(self.outside / "C1.npz")
        self.attempt("link.npz", "really", self.outside / "C1.npz", data__train="[link.npz]")
        (self.inside / "folder").symlink_to(self.outside)
        self.attempt("folder/C1.npz", data__train="[folder]")

    def test_a_link_to_the_folder_itself_is_no_way_out(self):
        (self.folder / "name").symlink_to(self.inside)
        self.attempt(code=0, data__allowed_roots=self.folder / "name")

    def test_collections_and_official_indices(self):
        self.run_foretime(
            "data", "pack", "-o", self.outside / "packed.foretime", self.outside / "C1.npz", "--format", "programs"
        )
        self.attempt("packed.foretime", data__train=f"[{self.outside / 'packed.foretime'}]")
        (self.outside / "indices.json").write_text("{}")
        self.attempt("indices.json", data__eval_indices="../outside/indices.json")

    def test_a_file_that_is_refused_is_not_opened(self):
        os.mkfifo(self.outside / "pipe.npz")  # opening it would wait for ever
        self.attempt("pipe.npz", data__train=f"[{self.outside / 'pipe.npz'}]")

    def test_a_folder_that_is_not_there(self):
        self.attempt("nowhere", "data.allowed_roots", data__allowed_roots=self.folder / "nowhere")

    def test_evaluation_is_confined_too(self):
        self.attempt(code=0, data__allowed_roots="[]")
        done = self.run_foretime(
            "evaluate", "run", self.outside / "C1.npz", "--set", f"data.allowed_roots={self.inside}", code=3
        )
        self.assertIn("C1.npz", done.stderr)
        self.run_foretime(
            "evaluate", "run", self.outside / "C1.npz", "--set", f"data.allowed_roots=[{self.inside}, {self.outside}]"
        )
