"""The files of a Run: what a program saves, artifacts and models."""
from __future__ import annotations

import os
import pathlib
import shutil
from typing import Any, Optional

from ..logged_run import LoggedRun, safe_name, write_json
from .artifacts import Artifact, base_name
from .errors import CommError

KEPT = "tables, media, texts and artifacts are no numbers: kept as files in {}, not on the board"


class RunFiles:
    """W&B's methods of a run that read and write files of the run's folder."""

    _logged: LoggedRun
    id: str
    disabled: bool

    def save(self, glob_str: Any = None, base_path: Optional[str] = None, policy: str = "live") -> Any:
        """Copies files to the run's folder."""
        if glob_str is None or self.disabled:
            return True
        pattern = os.fspath(glob_str)
        found = []
        for path in sorted(
            pathlib.Path().glob(pattern) if not os.path.isabs(pattern) else pathlib.Path("/").glob(pattern[1:])
        ):
            if not path.is_file():
                continue
            inside = path.resolve().is_relative_to(self._logged.files.resolve())
            base = pathlib.Path(base_path) if base_path else path.parent
            to = (
                path
                if inside
                else self._logged.files / (path.relative_to(base) if path.is_relative_to(base) else path.name)
            )
            if not inside:
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, to)
            found.append(str(to))
        return found

    def restore(
        self, name: str, run_path: Optional[str] = None, replace: bool = False, root: Optional[str] = None
    ) -> Any:
        """Opens a file that this run, or an earlier attempt of this trial, has saved. ValueError if there is none."""
        for folder in (self._logged.files, *self._logged.earlier_files()):
            if not (folder / name).is_file():
                continue
            if root is None:
                return open(folder / name, encoding="utf-8")
            to = pathlib.Path(root) / name
            to.parent.mkdir(parents=True, exist_ok=True)
            if replace or not to.exists():
                shutil.copyfile(folder / name, to)
            return open(to, encoding="utf-8")
        raise ValueError(f"File {name} not found in {self._logged.files}")

    def _artifact_folder(self, name: str) -> pathlib.Path:
        return self._logged.files / "artifacts" / safe_name(base_name(name))

    def log_artifact(
        self,
        artifact_or_path: Any,
        name: Optional[str] = None,
        type: Optional[str] = None,
        aliases: Any = None,
        tags: Any = None,
    ) -> Artifact:
        """Copies an artifact's files to the run's folder. Aliases have no effect."""
        artifact: Any = artifact_or_path
        if not isinstance(artifact, Artifact):
            path = pathlib.Path(artifact_or_path)
            artifact = Artifact(name or f"run-{self.id}-{path.name}", type or "unspecified")
            (artifact.add_dir if path.is_dir() else artifact.add_file)(str(path))
        if not self.disabled:
            artifact.keep(self._artifact_folder(artifact.name))
            write_json(
                self._artifact_folder(artifact.name).with_suffix(".artifact.json"),
                {"name": artifact.name, "type": artifact.type, "metadata": artifact.metadata},
            )
            self._logged.say(KEPT.format(self._logged.files), once="kept")
        return artifact  # type: ignore[no-any-return]

    upsert_artifact = finish_artifact = log_artifact

    def use_artifact(
        self, artifact_or_name: Any, type: Optional[str] = None, aliases: Any = None, use_as: Optional[str] = None
    ) -> Artifact:
        """Returns an artifact that this run, or an earlier attempt of this trial, has logged."""
        if isinstance(artifact_or_name, Artifact):
            return self.log_artifact(artifact_or_name)
        name = base_name(artifact_or_name)
        for folder in (self._logged.files, *self._logged.earlier_files()):
            found = folder / "artifacts" / safe_name(name)
            if found.is_dir():
                artifact = Artifact(name, type or "unspecified")
                artifact.folder = found
                return artifact
        raise CommError(f"artifact {artifact_or_name}: not in {self._logged.files}; Foretime fetches nothing from W&B")

    def log_model(self, path: Any, name: Optional[str] = None, aliases: Any = None) -> Artifact:
        """Copies a model's files to the run's folder."""
        return self.log_artifact(path, name, "model")

    def use_model(self, name: str) -> str:
        """Returns the path of a model that was logged."""
        return self.use_artifact(name).file()
