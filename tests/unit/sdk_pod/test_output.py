"""What the client is told of a program's output, and what lies in the job's log."""

import subprocess
import sys

from workers.sdk.commands import Output

TALK = "import os; os.write(1, b'out\\n'); os.write(2, b'err\\n')"


def collected(log, code: str, *, max_bytes: int) -> Output:
    output = Output(log, max_bytes)
    with output:
        command = [sys.executable, "-c", code]
        out, err = output.writer("out"), output.writer("err")
        process = subprocess.Popen(command, stdout=out, stderr=err)
        output.read()
        process.wait(60)
    return output


def test_both_streams_are_kept_and_told_apart(tmp_path):
    output = collected(tmp_path / "log", TALK, max_bytes=1000)
    assert output.text(only="out") == "out\n"
    assert sorted(output.text().split()) == ["err", "out"]
    assert sorted((tmp_path / "log").read_text().split()) == ["err", "out"]


def test_an_error_stands_behind_all_that_was_printed_before_it(tmp_path):
    code = """
import os
for n in range(5000):
    os.write(1, b"out %d\\n" % n)
    os.write(2, b"err %d\\n" % n)
"""
    output = collected(tmp_path / "log", code, max_bytes=1 << 20)
    place = {line: at for at, line in enumerate(output.text().splitlines())}
    assert len(place) == 10_000
    assert [n for n in range(5000) if place[f"out {n}"] > place[f"err {n}"]] == []


def test_the_end_of_a_long_output_is_kept_and_all_of_it_logged(tmp_path):
    code = "for i in range(200000): print(i)"
    output = collected(tmp_path / "log", code, max_bytes=100_000)
    text = output.text()
    assert text.startswith("[the first part is in the job's log")
    assert text.endswith("199999\n")
    assert len(text) < 250_000
    assert (tmp_path / "log").read_text().startswith("0\n1\n2\n")
