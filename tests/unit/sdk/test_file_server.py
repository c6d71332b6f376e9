"""Files of an SDK job, read and written by a program of its user."""

import io
import os
import socket
import subprocess
import sys
import tarfile

import pytest

from appliance.sdk.servers import frames


class Server:
    """A file server as a process."""

    def __init__(self, root):
        self.ours, theirs = socket.socketpair()
        with theirs:
            command = [
                sys.executable,
                "-m",
                "appliance.sdk.servers.file_server",
                str(theirs.fileno()),
            ]
            self.process = subprocess.Popen([*command, str(root)], pass_fds=[theirs.fileno()])

    def ask(self, payload=b"", **request):
        frames.send(self.ours, request, payload)
        answer = frames.receive(self.ours, max_payload_bytes=1 << 30)
        assert answer is not None
        return answer.header, answer.payload

    def close(self):
        self.ours.close()
        assert self.process.wait(30) == 0


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "files"
    root.mkdir()
    return root


@pytest.fixture
def server(root):
    server = Server(root)
    yield server
    server.close()


def archive(**members: bytes) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as made:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            made.addfile(info, io.BytesIO(content))
    return target.getvalue()


def extract(server, name, **limits):
    bounds = {"max_bytes": 1000, "max_files": 10, **limits}
    return server.ask(op="extract", path=name, into="there", **bounds)[0]


def test_a_file_is_written_in_parts_and_read_back(server):
    server.ask(b"one ", op="write", path="a/b.txt", append=False)
    server.ask(b"two", op="write", path="a/b.txt", append=True)
    assert server.ask(op="read", path="a/b.txt", max_bytes=100) == ({"name": "b.txt"}, b"one two")


def test_a_directory_is_read_as_the_same_archive_every_time(server, root):
    server.ask(b"x", op="write", path="d/x.txt", append=False)
    os.symlink("/etc/passwd", root / "d" / "link")
    first = server.ask(op="read", path="d", max_bytes=10_000)
    assert first[0] == {"name": "d.tar.gz"}
    with tarfile.open(fileobj=io.BytesIO(first[1])) as found:
        assert found.getnames() == ["d", "d/x.txt"]


def test_what_is_too_large_for_one_message_is_refused_with_both_numbers(server):
    server.ask(b"12345", op="write", path="large", append=False)
    header, _ = server.ask(op="read", path="large", max_bytes=4)
    assert header == {"error": "large has 5 bytes; one message carries 4."}


def test_what_is_not_there_or_no_file_is_refused(server, root):
    os.mkfifo(root / "pipe")
    assert server.ask(op="read", path="nothing", max_bytes=9)[0] == {
        "error": "nothing: No such file or directory"
    }
    assert "neither a file nor" in server.ask(op="read", path="pipe", max_bytes=9)[0]["error"]


def test_an_archive_is_unpacked_beneath_its_directory(server, root):
    server.ask(archive(**{"s/a.txt": b"abc"}), op="write", path="ok.tar.gz", append=False)
    assert extract(server, "ok.tar.gz") == {"name": "ok.tar.gz"}
    assert (root / "there" / "s" / "a.txt").read_bytes() == b"abc"


@pytest.mark.parametrize("name", ["../out.txt", "/tmp/out-of-it.txt", "a/../../out.txt"])
def test_an_archive_that_leads_out_is_refused(server, root, name):
    server.ask(archive(**{name: b"abc"}), op="write", path="bad.tar.gz", append=False)
    assert "leads out of the directory" in extract(server, "bad.tar.gz")["error"]
    assert not (root / "out.txt").exists()
    assert not os.path.exists("/tmp/out-of-it.txt")


def special(kind: bytes, name: str, leads_to: str = "", mode: int = 0o644) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as made:
        file = tarfile.TarInfo("s/file")
        file.mode = mode
        made.addfile(file)
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, leads_to
        made.addfile(info)
    return target.getvalue()


@pytest.mark.parametrize(
    ("kind", "leads_to"),
    [
        (tarfile.SYMTYPE, "/etc/passwd"),
        (tarfile.SYMTYPE, "../../out"),
        (tarfile.LNKTYPE, "../out"),
        (tarfile.LNKTYPE, "/etc/passwd"),
        (tarfile.FIFOTYPE, ""),
        (tarfile.CHRTYPE, ""),
    ],
)
def test_a_link_out_of_an_archive_or_a_device_is_refused(server, root, kind, leads_to):
    server.ask(special(kind, "s/l", leads_to), op="write", path="link.tar.gz", append=False)
    assert extract(server, "link.tar.gz")["error"].startswith("s/l ")
    assert not (root / "there" / "s" / "l").exists()


def test_a_file_behind_a_link_that_was_there_before_is_refused(server, root, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "there").mkdir()
    os.symlink(outside, root / "there" / "elsewhere")
    made = archive(**{"elsewhere/f": b"abc"})
    server.ask(made, op="write", path="through.tar.gz", append=False)
    assert "leads out" in extract(server, "through.tar.gz")["error"]
    assert not list(outside.iterdir())


def test_links_within_an_archive_and_programs_are_unpacked(server, root):
    for name, kind, leads_to in (
        ("s/l1", tarfile.SYMTYPE, "file"),
        ("s/l2", tarfile.LNKTYPE, "s/file"),
    ):
        made = special(kind, name, leads_to, mode=0o4755)
        server.ask(made, op="write", path="links.tar.gz", append=False)
        assert extract(server, "links.tar.gz") == {"name": "links.tar.gz"}
    assert os.readlink(root / "there" / "s" / "l1") == "file"
    assert (root / "there" / "s" / "l2").stat().st_mode & 0o7777 == 0o755


def test_an_archive_larger_than_allowed_is_refused_before_it_is_unpacked(server, root):
    server.ask(archive(big=b"0" * 2000), op="write", path="big.tar.gz", append=False)
    assert "more than 1000 bytes" in extract(server, "big.tar.gz")["error"]
    many = {f"f{index}": b"" for index in range(20)}
    server.ask(archive(**many), op="write", path="many.tar.gz", append=False)
    assert "10 files" in extract(server, "many.tar.gz")["error"]
    assert not (root / "there" / "big").exists()


def test_what_is_no_archive_is_refused(server):
    server.ask(b"not an archive", op="write", path="no.tar.gz", append=False)
    assert "error" in extract(server, "no.tar.gz")
