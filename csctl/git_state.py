"""The git commit of a directory, and whether files differ from it.

A repository's own configuration can name programs that git then runs, and a directory may be
anybody's. So the commit is read from files, and git compares files with it only in a repository
that is the user's, by a configuration of ours: it sees the repository's objects and index alone.
"""

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REF = re.compile(r"ref: (refs/[^\x00-\x20~^:?*\[\\]+)")
_MOST_BYTES = 1 << 22
"""Of a file of git that is read; the largest is `packed-refs`."""
_GIT_SECONDS = 3.0
"""A comparison that takes longer, as on a slow file system, is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitState:
    """What a directory holds, as git knows it.

    Attributes:
        commit: The commit that is checked out, in hexadecimal.
        is_dirty: Whether files that git tracks differ from it; None if that is not known.
    """

    commit: str
    is_dirty: bool | None


def git_state(directory: Path) -> GitState | None:
    """Return the state of the repository that a directory is in; None if it is in none."""
    for root in (directory, *directory.parents):
        git_dir = _git_dir(root / ".git")
        if git_dir is not None:
            commit = _commit(git_dir)
            return GitState(commit=commit, is_dirty=_is_dirty(root, git_dir)) if commit else None
    return None


def _git_dir(path: Path) -> Path | None:
    """Return the directory of git that a `.git` is, or names as in a worktree."""
    if path.is_dir():
        return path
    text = _read(path)
    named = text.removeprefix("gitdir: ").strip() if text.startswith("gitdir: ") else ""
    found = path.parent / named
    return found if named and found.is_dir() else None


def _common_dir(git_dir: Path) -> Path:
    named = _read(git_dir / "commondir").strip()
    return git_dir / named if named else git_dir


def _commit(git_dir: Path) -> str:
    """Return the commit of HEAD; empty if there is none yet, or it is kept in a way of its own."""
    head = _read(git_dir / "HEAD").strip()
    found = _REF.fullmatch(head)
    if found is None:
        return head if _COMMIT.fullmatch(head) else ""
    name, common = found[1], _common_dir(git_dir)
    if ".." in name:
        return ""
    for folder in (git_dir, common):
        text = _read(folder / name).strip()
        if _COMMIT.fullmatch(text):
            return text
    packed = re.search(rf"^([0-9a-f]+) {re.escape(name)}$", _read(common / "packed-refs"), re.M)
    return packed[1] if packed is not None and _COMMIT.fullmatch(packed[1]) else ""


def _is_dirty(root: Path, git_dir: Path) -> bool | None:
    common = _common_dir(git_dir)
    if not all(_is_own(path) for path in (root, git_dir, common, git_dir / "index")):
        return None
    import subprocess  # noqa: PLC0415 - most runs begin outside a repository
    import tempfile  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="csctl-git-") as made:
        _fill(Path(made), git_dir, common)
        command = ("git", f"--git-dir={made}", f"--work-tree={root}", "--no-optional-locks")
        wanted = ("status", "--porcelain", "-uno", "--ignore-submodules=all")
        try:
            done = subprocess.run(
                (*command, *wanted),
                env={"PATH": os.environ.get("PATH", os.defpath), "HOME": made},
                cwd=root,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_GIT_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None  # no git here, or no answer in time
        return bool(done.stdout.strip()) if done.returncode == 0 else None


def _fill(own: Path, git_dir: Path, common: Path) -> None:
    """Make a repository without a configuration, of another one's objects and index."""
    (own / "refs").mkdir()
    (own / "objects" / "info").mkdir(parents=True)
    (own / "objects" / "info" / "alternates").write_text(f"{(common / 'objects').resolve()}\n")
    (own / "index").symlink_to((git_dir / "index").resolve())
    (own / "HEAD").write_text(f"{_commit(git_dir)}\n")


def _is_own(path: Path) -> bool:
    try:
        return path.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _read(path: Path) -> str:
    """Return the text of a file of git; empty if there is none, or it is no plain, small file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return file.read(_MOST_BYTES).decode(errors="replace")
