from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from appliance.management.logs.log_files import tail_offset


@given(st.binary(max_size=200), st.integers(0, 10))
def test_the_tail_of_a_log_is_its_last_lines(tmp_path_factory, text: bytes, count: int) -> None:
    path: Path = tmp_path_factory.mktemp("logs") / "log"
    path.write_bytes(text)
    lines = text.split(b"\n")
    whole = [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])

    first = max(len(whole) - count, 0)

    assert text[tail_offset(path, count) :] == b"".join(whole[first:])


def test_a_tail_longer_than_one_block_is_found(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"%07d\n" % number for number in range(100_000)))

    assert path.read_bytes()[tail_offset(path, 50_000) :].startswith(b"0050000\n")
