"""Compiled programs on disk, by content: the plan's text and the program it was made from.

An artifact is a directory that appears complete (written under another name, then renamed) and
never changes, so readers need no lock and two writers of the same content cannot disturb each
other. It holds the digests of its files: what a disk has lost or changed of one is found before
anything is run by it, and the program is compiled again. Users share the cache on one machine,
since the same program gives the same plan; but an artifact is a user's only once a job of theirs
has brought its program, which leaves a mark of that user in it. On Kubernetes, where programs of
users run in pods that may write the cache, each user has one of their own.
"""

import contextlib
import hashlib
import logging
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from appliance.core.errors import NotFoundError, UserError
from appliance.files.beneath import Beneath, is_file, read_file
from appliance.files.kept_files import replace_file, sync_directory

logger = logging.getLogger(__name__)

_PLAN = "plan.txt"
_PROGRAM = "program.mlir"
_MEMORY = "memory.json"
_DIGESTS = "SHA256SUMS"
"""Digests of the other files, as sha256sum(1) reads them."""
_MARK_OF_NOBODY = "user-none"
KERNEL_TABLES = ".kernels"
"""Directory beside the artifacts for what was measured of kernels; clients cannot name it."""

_USERS = ".users"
"""Directory of the caches of single users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileCache:
    """The compile cache of an appliance.

    Attributes:
        root: Its directory.
        is_split: Whether each user has a cache of their own in it.
    """

    root: Path
    is_split: bool = False

    def root_of(self, user: int) -> Path:
        """Return the directory under which every compile directory of a user lies.

        Args:
            user: Id of the user; negative where nobody is named.
        """
        return self.root / _USERS / _mark_of(user) if self.is_split else self.root

    def kernel_tables_of(self, user: int) -> Path:
        """Return the directory of what jobs of a user have measured of kernels."""
        return self.root_of(user) / KERNEL_TABLES


class ArtifactStore:
    """The artifacts under one root directory, as one user sees them.

    Args:
        root: Directory under which every compile directory lies.
        user: Id of the user whose jobs look; None where nobody is named.
    """

    def __init__(self, root: Path, user: int | None = None) -> None:
        self._root = root.resolve()
        self._mark = _mark_of(user)

    def directory(self, compile_dir: str, key: str = "") -> Beneath:
        """Return the directory of an artifact, which need not exist.

        Args:
            compile_dir: Directory that the client names; absolute, or relative to the root.
            key: The artifact's key; empty if the directory is the artifact's own.

        Raises:
            UserError: The directory lies outside the root, or is ours.
        """
        directory = parse_compile_dir(compile_dir, self._root)
        return directory / key if key else directory

    def has(self, directory: Beneath) -> bool:
        """Whether an artifact exists, of any user."""
        return is_file(directory / _PLAN)

    def store(self, directory: Beneath, *, plan_text: str, program: str, memory: str = "") -> None:
        """Write an artifact for the user; one that is there already becomes theirs too.

        Args:
            directory: Where it goes.
            program: What it was made from.
            memory: What its pods take of memory, as JSON; empty if unknown.
        """
        path = directory.path
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        temporary.mkdir()
        try:
            texts = {_PROGRAM: program, _MEMORY: memory, _PLAN: plan_text}
            for name, text in texts.items():
                replace_file(temporary / name, text.encode(), mode=0o666)
            sums = "".join(f"{_digest(text.encode())}  {name}\n" for name, text in texts.items())
            replace_file(temporary / _DIGESTS, sums.encode(), mode=0o666)
            temporary.rename(path)
            sync_directory(path.parent)
        except OSError:
            # Renaming onto a directory with content fails: another writer was first.
            shutil.rmtree(temporary, ignore_errors=True)
            if not self.has(directory):
                raise
        self.take(directory)

    def drop_damaged(self, directory: Beneath) -> None:
        """Remove an artifact that is no longer what was compiled, so that it is compiled again."""
        if not self.has(directory) or all(
            _find(directory, name) is not None for name in (_PLAN, _PROGRAM, _MEMORY)
        ):
            return
        logger.warning("A compiled program is damaged", extra={"path": str(directory)})
        aside = directory.path.with_name(f".{directory.path.name}.{secrets.token_hex(4)}")
        with contextlib.suppress(FileNotFoundError):  # another coordinator was faster
            directory.path.rename(aside)
            shutil.rmtree(aside, ignore_errors=True)

    def memory(self, directory: Beneath) -> str:
        """Return what an artifact's pods take of memory, as JSON; empty if it does not say."""
        return (_find(directory, _MEMORY) or b"").decode()

    def take(self, directory: Beneath) -> None:
        """Make an artifact the user's too, whose job has brought the same program."""
        (directory.path / self._mark).touch()

    def of_user(self, path: str) -> Beneath:
        """Return the artifact of the user's that a path names.

        Raises:
            NotFoundError: There is none, or no job of this user has compiled it.
            UserError: The path lies outside the root.
        """
        directory = self.directory(path)
        if not (is_file(directory / self._mark) and self.has(directory)):
            raise NotFoundError(
                f"There is no compiled program of yours in {path!r}.",
                hint="Compile the model again; the compile cache may have been cleaned.",
            )
        return directory

    def files(self, path: str) -> Iterator[Beneath]:
        """Yield the files of an artifact of the user's; raises as `of_user` does."""
        directory = self.of_user(path)
        yield from (directory / name for name in (_PLAN, _PROGRAM))

    def plan_text(self, path: str) -> str:
        """Return the plan of the user's artifact that a load request names; raises as `of_user`."""
        found = _find(self.of_user(path), _PLAN)
        if found is None:
            raise NotFoundError(
                f"The compiled program in {path!r} is gone or damaged.",
                hint="Compile the model again.",
            )
        return found.decode()


def parse_compile_dir(text: str, root: Path) -> Beneath:
    """Return the compile directory that a client names.

    Args:
        text: Absolute, or relative to the root.
        root: Directory under which every compile directory lies.

    Raises:
        UserError: It lies outside the root, or is no place for artifacts.
    """
    directory = Beneath.parse(text, root, what="compile directory")
    if directory.parts[:1] in ((KERNEL_TABLES,), (_USERS,)):
        raise UserError(
            f"The compile directory {text!r} is the appliance's own.", hint="Give another name."
        )
    return directory


def _mark_of(user: int | None) -> str:
    return _MARK_OF_NOBODY if user is None or user < 0 else f"user-{user}"


def _find(directory: Beneath, name: str) -> bytes | None:
    """Return what a file of an artifact holds; None if that is not what was written."""
    try:
        data = read_file(directory / name)
        lines = read_file(directory / _DIGESTS).splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return data if f"{_digest(data)}  {name}".encode() in lines else None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
