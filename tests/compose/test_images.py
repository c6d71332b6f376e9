"""No layer of the images that are made here holds a secret."""

import io
import json
import subprocess
import tarfile

import pytest

from tests.support.containers import Compose, Engine
from tests.support.image_layers import Finding, search_images, secret_in

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

IMAGES = tuple(f"wsc-appliance/{name}" for name in ("appliance", "user-node", "input-node"))
MOST_BYTES = {"user-node": 3_000_000_000, "input-node": 3_500_000_000}
KEY = b"-----BEGIN EC PRIVATE KEY-----\n" + b"A" * 64 + b"\n-----END EC PRIVATE KEY-----\n"
TOKEN = b"Bearer eyJhbGciOiJIUzI1NiJ9MTIz.eyJzdWIiOiJhZGEiLCJleHAi.c2lnbmF0dXJlLW9mLWl0"


def archive(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return made.getvalue()


@pytest.mark.parametrize(
    ("path", "content", "what"),
    [
        ("etc/ssl/private/any.pem", KEY, "a private key"),
        ("opt/client/lib/python3.11/site-packages/any.py", KEY, ""),
        ("opt/appliance/lib/python3.11/site-packages/appliance/a.py", KEY, "a private key"),
        ("home/user/.bash_history", TOKEN, "a signed token"),
        ("etc/pip.conf", b"index-url = https://ada:pw@host/simple", "a password in a URL"),
        ("", b'{"Env": ["INDEX=https://ada:pw@host/"]}', "a password in a URL"),
        ("var/lib/wsc-join/join.token", b"x", "a file for a secret, by its name"),
        ("var/lib/wsc-join/join.token", b"", ""),
        ("usr/lib/python3.11/urllib/request.py", b"http://user:password@host/", ""),
        ("usr/lib/python3.11/token.py", b"EOF = 1", ""),
        ("usr/bin/any", b'"-----BEGIN PRIVATE KEY-----" is how it begins', ""),
    ],
)
def test_what_is_a_secret(path: str, content: bytes, what: str) -> None:
    assert secret_in(path, content) == what


def test_a_file_is_found_that_a_later_layer_removes() -> None:
    layers = {
        "1/layer.tar": archive({"tmp/notes": KEY}),
        "2/layer.tar": archive({"tmp/.wh.notes": b""}),
        "config.json": b'{"history": []}',
    }
    search = search_images(io.BytesIO(archive(layers)))
    assert search.findings == [Finding(place="1/layer.tar", path="tmp/notes", what="a private key")]
    assert search.paths == {"tmp/notes", "tmp/.wh.notes"}


@pytest.mark.usefixtures("project")
def test_images_are_small_and_share_the_clients_environment(engine: Engine) -> None:
    found = {
        name: json.loads(engine.docker("image", "inspect", f"wsc-appliance/{name}"))[0]
        for name in MOST_BYTES
    }
    too_large = {n: i["Size"] for n, i in found.items() if i["Size"] >= MOST_BYTES[n]}
    assert not too_large
    first, second = (image["RootFS"]["Layers"] for image in found.values())
    shared = [one for one, other in zip(first, second, strict=False) if one == other]
    assert len(shared) >= 4  # the base, what every image has, what clients call, the client


def test_no_layer_of_the_images_holds_a_secret(project: Compose, engine: Engine) -> None:
    command = ["docker", "save", *IMAGES]
    with subprocess.Popen(command, env=engine.environment, stdout=subprocess.PIPE) as save:
        assert save.stdout is not None
        search = search_images(save.stdout)
    assert save.returncode == 0
    assert search.paths >= {"usr/local/bin/hand-out", "usr/local/bin/get-cerebras-token"}
    assert search.findings == []
