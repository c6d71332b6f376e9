"""Compiled programs on disk, by content: the plan's text and the program it was made from.

An artifact is a directory that appears whole (written beside, then renamed) and never changes, so
readers need no lock and two writers of the same content cannot disturb each other.
"""

import os
import secrets
import shutil
from pathlib import Path

from appliance.core.errors import NotFoundError, UserError

_PLAN = "plan.txt"
_PROGRAM = "program.mlir"


class ArtifactStore:
    """The artifacts under one root directory.

    Args:
        root: Directory under which every compile directory lies.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def directory(self, compile_dir: str, key: str = "") -> Path:
        """Return where an artifact lies or would lie.

        Args:
            compile_dir: Directory that the client names; absolute, or relative to the root.
            key: The artifact's key; empty if the directory is the artifact's own.

        Raises:
            UserError: The directory lies outside the root.
        """
        path = (self._root / compile_dir / key).resolve()
        if not path.is_relative_to(self._root):
            raise UserError(
                f"The compile directory {compile_dir!r} lies outside {str(self._root)!r}.",
                hint="Give a relative compile directory.",
            )
        return path

    def has(self, directory: Path) -> bool:
        """Whether an artifact is there."""
        return (directory / _PLAN).is_file()

    def store(self, directory: Path, *, plan_text: str, program: str) -> None:
        """Write an artifact; does nothing if it is there already."""
        directory.parent.mkdir(parents=True, exist_ok=True)
        temporary = directory.with_name(f".{directory.name}.{secrets.token_hex(4)}")
        temporary.mkdir()
        try:
            _write(temporary / _PROGRAM, program)
            _write(temporary / _PLAN, plan_text)
            temporary.rename(directory)
        except OSError:
            # Renaming onto a directory with content fails: another writer was first.
            shutil.rmtree(temporary, ignore_errors=True)
            if not self.has(directory):
                raise

    def plan_text(self, cache_dir: str) -> str:
        """Return the plan of the artifact that a load request names.

        Raises:
            NotFoundError: There is no such artifact.
            UserError: The path lies outside the root.
        """
        path = self.directory(cache_dir) / _PLAN
        try:
            return path.read_text()
        except (FileNotFoundError, NotADirectoryError):
            raise NotFoundError(
                f"There is no compiled program in {cache_dir!r}.",
                hint="Compile the model again; the compile cache may have been cleaned.",
            ) from None


def _write(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
