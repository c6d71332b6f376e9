"""Nothing that a caller names, and nothing that is put in the way, leads out of a root."""

import os
import socket
from pathlib import Path

import pytest

from appliance.core.errors import UserError
from appliance.files import beneath
from appliance.files.beneath import Beneath, is_file, open_file, read_file


@pytest.fixture(params=["by the kernel", "by names"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root with a file in it, and a secret beside it, as old and as new kernels walk."""
    if request.param == "by names":

        def too_old(root: int, name: str) -> int:
            raise OSError(38, "Function not implemented")

        monkeypatch.setattr(beneath, "_by_kernel", too_old)
    (tmp_path / "secret").write_text("secret")
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "a" / "file").write_text("ours")
    return root


def named(text: str, root: Path) -> Beneath:
    return Beneath.parse(text, root, what="path")


@pytest.mark.parametrize("text", ["a/file", "./a//file", "{root}/a/file"])
def test_a_file_is_read_by_a_relative_or_an_absolute_path(root: Path, text: str) -> None:
    assert read_file(named(text.format(root=root), root)) == b"ours"


@pytest.mark.parametrize(
    "text",
    [
        *("..", "../secret", "a/../../secret", "/", "/etc/passwd", "/proc/self/environ"),
        *("{root}/../secret", "{root}x/secret", "{root}/../../etc/passwd"),
        *("a/file\0", "\ud800", "a" * 5000),
    ],
)
def test_text_that_leads_out_or_is_no_path_becomes_none(root: Path, text: str) -> None:
    with pytest.raises(UserError, match=r"lies outside|is no path"):
        named(text.format(root=root), root)


@pytest.mark.parametrize("part", ["", ".", "..", "a/b", "/", "a\0"])
def test_no_path_can_be_made_around_the_check(root: Path, part: str) -> None:
    with pytest.raises(UserError):
        Beneath(root=root, parts=(part,))
    with pytest.raises(UserError):
        named("a", root) / part


@pytest.mark.parametrize("target", ["../secret", "/proc/self/root/etc", "a"])
def test_a_link_is_never_taken_at_the_end_or_in_the_middle(root: Path, target: str) -> None:
    (root / "link").symlink_to(target)

    for text in ("link", "link/file", "link/passwd"):
        with pytest.raises(UserError, match="A link lies on the way"):
            open_file(named(text, root))
        assert not is_file(named(text, root))


def test_a_link_that_is_put_in_the_way_after_the_check_is_not_taken(root: Path) -> None:
    path = named("a/file", root)
    assert is_file(path)
    (root / "a").rename(root / "aside")
    (root / "a").symlink_to(root.parent)
    (root.parent / "file").write_text("secret")

    with pytest.raises(UserError, match="A link lies on the way"):
        read_file(path)


def test_only_ordinary_files_are_opened(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "socket"))
    for name in ("pipe", "socket", "a"):  # a pipe would wait for its writer
        with pytest.raises(UserError, match="no ordinary file"):
            open_file(named(name, root))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_not_even_opened(root: Path) -> None:
    try:
        os.mknod(root / "tty", 0o20600, os.makedev(5, 0))
    except PermissionError:
        pytest.skip("this container may not make devices")
    with pytest.raises(UserError, match="no ordinary file"):
        open_file(named("tty", root))


def test_what_is_not_there_is_told_as_such(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_file(named("a/other", root))
    with pytest.raises(NotADirectoryError):
        open_file(named("a/file/below", root))
