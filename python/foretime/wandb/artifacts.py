"""wandb.Artifact: files below `artifacts` of the run. Aliases, versions and references have no effect."""
from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any, Optional

from ..logged_run import safe_name
from .errors import CommError
from .media import write_value


def base_name(name: str) -> str:
    """Returns `model` of `entity/project/model:v3`."""
    return name.rpartition("/")[2].partition(":")[0]


class Artifact:
    """A set of files with a name and a type. Before it is logged the files are where they were; afterwards `folder` has copies."""

    def __init__(
        self,
        name: str,
        type: str = "unspecified",
        description: Optional[str] = None,
        metadata: Optional[dict[str, Any]] = None,
        **options: Any,
    ) -> None:
        self.name, self.type, self.description = name, type, description
        self.metadata: dict[str, Any] = dict(metadata or {})
        self.version, self.aliases = "v0", ["latest"]
        self.folder: Optional[pathlib.Path] = None
        self._sources: dict[str, pathlib.Path] = {}
        self._made: Any = None

    @property
    def id(self) -> str:
        """The name."""
        return self.name

    def add_file(
        self, local_path: str, name: Optional[str] = None, is_tmp: Optional[bool] = False, **options: Any
    ) -> None:
        """Adds a file."""
        path = pathlib.Path(local_path)
        if not path.is_file():
            raise ValueError(f"Path is not a file: {local_path!r}")
        self._sources[name or path.name] = path

    def add_dir(self, local_path: str, name: Optional[str] = None, **options: Any) -> None:
        """Adds the files below a folder."""
        root = pathlib.Path(local_path)
        if not root.is_dir():
            raise ValueError(f"Path is not a directory: {local_path!r}")
        for path in sorted(root.rglob("*")):
            if path.is_file():
                self._sources[os.path.join(name or "", path.relative_to(root))] = path

    def _scratch(self) -> pathlib.Path:
        if self._made is None:
            self._made = tempfile.TemporaryDirectory(prefix="foretime-artifact-")
        return pathlib.Path(self._made.name)

    def add(self, obj: Any, name: str, **options: Any) -> None:
        """Adds a table or a picture."""
        written = write_value(obj, self._scratch() / safe_name(name))
        self._sources[name if pathlib.Path(name).suffix == written.suffix else name + written.suffix] = written

    @contextlib.contextmanager
    def new_file(self, name: str, mode: str = "w", encoding: Optional[str] = None) -> Iterator[Any]:
        """Opens a new file of the artifact."""
        path = self._scratch() / safe_name(name)
        with open(path, mode, encoding=encoding or (None if "b" in mode else "utf-8")) as file:
            yield file
        self._sources[name] = path

    def add_reference(self, uri: Any, name: Optional[str] = None, **options: Any) -> None:
        """Notes an address, which is not fetched."""
        self.metadata.setdefault("references", []).append(str(uri))

    def keep(self, folder: pathlib.Path) -> None:
        """Copies the files to `folder`."""
        for name, source in self._sources.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or not path.samefile(source):
                shutil.copyfile(source, path)
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder

    def wait(self, timeout: Optional[int] = None) -> Artifact:
        """Returns at once."""
        return self

    def save(self, *arguments: Any, **options: Any) -> None:
        """Does nothing: log_artifact keeps the files."""

    def download(self, root: Optional[str] = None, *arguments: Any, **options: Any) -> str:
        """Returns the folder of the files; with `root`, copies them there."""
        if self.folder is None:
            raise CommError(f"artifact {self.name}: log it first")
        if root is None:
            return str(self.folder)
        shutil.copytree(self.folder, root, dirs_exist_ok=True)
        return str(root)

    checkout = download

    def file(self, root: Optional[str] = None) -> str:
        """Returns the path of the only file."""
        folder = pathlib.Path(self.download(root))
        found = [path for path in folder.rglob("*") if path.is_file()]
        if len(found) != 1:
            raise ValueError(f"artifact {self.name}: {len(found)} files, expected one")
        return str(found[0])

    def get_path(self, name: str) -> Entry:
        """Returns a file of the artifact by its name."""
        return Entry(pathlib.Path(self.download()) / name)

    get_entry = get_path

    def files(self) -> list[Entry]:
        """Returns all files."""
        return [Entry(path) for path in sorted(pathlib.Path(self.download()).rglob("*")) if path.is_file()]


class Entry:
    """A file of an artifact."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = str(path)
        self.name = path.name

    def download(self, root: Optional[str] = None, **options: Any) -> str:
        """Returns the path; with `root`, that of a copy there."""
        if root is None:
            return self.path
        os.makedirs(root, exist_ok=True)
        return str(shutil.copy(self.path, root))
