"""Compiled programs by what they were made of: nobody gets what another only claims."""

import hashlib
import os

import pytest

from appliance.files.kept_files import sealed
from workers.sdk.cache import ProgramCache
from workers.sdk.files import Upload

OPTIONS = ["layout.csl", "--arch=wse2", "-o", "out"]


def upload(**files: bytes) -> Upload:
    """Return an upload under the name that the client gives it."""
    made = Upload(is_source=True)
    for name, content in files.items():
        made.names.append(name)
        made.contents.update(content)
        made.digests[name] = hashlib.sha256(content).digest()
    whole = made.contents.copy()
    whole.update(" ".join(OPTIONS).encode())
    made.target = f"cs_{whole.hexdigest()}"
    return made


@pytest.fixture
def cache(tmp_path):
    return ProgramCache(tmp_path, 1000, 1 << 20)


def test_a_program_is_found_again_by_its_user_alone(cache, tmp_path):
    """Whoever compiles may change the sources behind the upload: the hash is right all the same."""
    assert cache.find(upload(a=b"one")) is None
    cache.keep(upload(a=b"one"), b"poisoned")
    assert cache.find(upload(a=b"one")) == b"poisoned"
    assert ProgramCache(tmp_path, 1001, 1 << 20).find(upload(a=b"one")) is None


def test_the_same_text_in_files_of_other_names_is_another_program(cache):
    cache.keep(upload(a=b"one", b=b"two"), b"compiled")
    assert cache.find(upload(a=b"onet", b=b"wo")) is None
    assert cache.find(upload(a=b"one", c=b"two")) is None


def test_what_was_used_longest_ago_goes_first(tmp_path):
    small = ProgramCache(tmp_path, 1000, int(2.5 * len(sealed(b"0" * 10))))
    for age, name in enumerate(("a", "b")):
        small.keep(upload(x=name.encode()), b"0" * 10)
        for path in tmp_path.iterdir():
            os.utime(path, (age, path.stat().st_mtime - 100))
    assert small.find(upload(x=b"a"))
    small.keep(upload(x=b"c"), b"0" * 10)
    assert [small.find(upload(x=name)) is not None for name in (b"a", b"b", b"c")] == [
        True,
        False,
        True,
    ]


def test_files_of_the_cache_are_ours_alone(cache, tmp_path):
    cache.keep(upload(a=b"one"), b"compiled")
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
