"""Paths that callers name: beneath a root that they cannot leave, or no path at all.

Whatever text comes over the wire becomes a `Beneath` before anything is opened, and a `Beneath`
cannot be made of text that leads out of its root. That says nothing of links, which may be put in
the way at any time; so files are opened by the kernel's own walk from a descriptor of the root,
which takes no link at all (openat2(2), Linux 5.6), or by the same walk made here, one name after
the other. What is found is opened only once it is known to be an ordinary file: merely opening a
device can do something, and a pipe would wait for ever.
"""

import ctypes
import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from appliance.core.errors import UserError

_MAX_BYTES = 4096
_SYS_OPENAT2 = 437  # the same number on every architecture
_NO_MAGIC_LINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_FIND = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_LINKS = (errno.ELOOP, errno.EXDEV)

_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    """Kernel's `struct open_how`."""

    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Beneath:
    """A path that does not lead out of its root.

    Attributes:
        root: Absolute path of a directory of ours.
        parts: Names to go down by; none for the root itself.
    """

    root: Path
    parts: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.root.is_absolute():
            raise ValueError(f"{self.root} is no absolute path.")
        for part in self.parts:
            if part in ("", ".", "..") or "/" in part or "\0" in part:
                raise UserError(f"{part!r} is no name of a file or directory.")

    @classmethod
    def parse(cls, text: str, root: Path, *, what: str) -> "Beneath":
        """Return the path that a caller names.

        Args:
            text: A path relative to the root, or an absolute one that goes through it.
            root: The directory that it has to stay beneath.
            what: What it is a path of, for the error.

        Raises:
            UserError: It leads out of the root, or is no path.
        """
        if "\0" in text or not _is_encodable(text) or len(os.fsencode(text)) > _MAX_BYTES:
            raise UserError(f"The {what} {text[:80]!r} is no path.")
        named = PurePosixPath(text)
        outside = UserError(
            f"The {what} {text!r} lies outside {str(root)!r}.", hint="Give a relative path."
        )
        if ".." in named.parts:
            raise outside
        if named.is_absolute():
            if not named.is_relative_to(root):
                raise outside
            named = named.relative_to(root)
        return cls(root=root, parts=named.parts)

    def __truediv__(self, name: str) -> "Beneath":
        """Return the path one name further down."""
        return Beneath(root=self.root, parts=(*self.parts, name))

    def __str__(self) -> str:
        return str(self.path)

    @property
    def path(self) -> Path:
        """The path as text for people and records; files are opened by `open_file` alone."""
        return self.root.joinpath(*self.parts)


def open_file(path: Beneath, flags: int = os.O_RDONLY) -> int:
    """Open an ordinary file that is there, and return its descriptor.

    Args:
        path: The file.
        flags: `O_RDONLY`, `O_RDWR` or `O_WRONLY`.

    Raises:
        UserError: A link lies on the way, or it is no ordinary file.
        OSError: It is not there, or cannot be read.
    """
    found = find(path)
    try:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise UserError(f"{str(path)!r} is no ordinary file.")
        return os.open(f"/proc/self/fd/{found}", flags | os.O_CLOEXEC)
    finally:
        os.close(found)


def read_file(path: Beneath) -> bytes:
    """Return what an ordinary file holds; raises as `open_file` does."""
    with open(open_file(path), "rb") as file:
        return file.read()


def is_file(path: Beneath) -> bool:
    """Whether an ordinary file is there, without a link on the way."""
    try:
        os.close(open_file(path))
    except (OSError, UserError):
        return False
    return True


def find(path: Beneath) -> int:
    """Return a descriptor that stands for what is at a path (`O_PATH`), and cannot be read.

    Raises:
        UserError: A link lies on the way.
        OSError: There is nothing.
    """
    root = os.open(path.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _walk(root, path)
    except OSError as error:
        if error.errno not in _LINKS:
            raise
        raise UserError(f"A link lies on the way to {str(path)!r}.") from error
    finally:
        os.close(root)


def _walk(root: int, path: Beneath) -> int:
    if not path.parts:
        return os.open(".", _FIND, dir_fd=root)
    try:
        return _by_kernel(root, "/".join(path.parts))
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM):  # older, or forbidden by a sandbox
            raise
    return by_names(root, path.parts)


def _by_kernel(root: int, name: str) -> int:
    flags = os.O_PATH | os.O_CLOEXEC  # with O_NOFOLLOW a link at the end would itself be found
    how = _OpenHow(flags=flags, mode=0, resolve=_NO_MAGIC_LINKS | _NO_SYMLINKS | _BENEATH)
    found: int = _libc.syscall(
        _SYS_OPENAT2, root, os.fsencode(name), ctypes.byref(how), ctypes.sizeof(how)
    )
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)
    return found


def by_names(root: int, parts: tuple[str, ...]) -> int:
    """Walk down from an open directory by one name after the other, through no link."""
    here = os.open(".", _FIND, dir_fd=root)
    for part in parts:
        try:
            below = os.open(part, _FIND, dir_fd=here)
        finally:
            os.close(here)
        here = below
        if stat.S_ISLNK(os.fstat(here).st_mode):
            os.close(here)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), part)
    return here


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
