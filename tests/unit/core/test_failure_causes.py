"""The line that a job's failure is read by."""

import pytest

from appliance.core.failure_causes import MAX_CHARACTERS, cause_of, last_words

SITE = "/opt/client/lib/python3.11/site-packages/cerebras/pytorch/utils/data/data_pipe.py"
WORKER = f"""Input worker 0 failed in UnaryGetOutput:
Traceback (most recent call last):
  File "{SITE}", line 112, in __iter__
    yield next(gen)
          ^^^^^^^^^
  File "/home/ada/data.py", line 12, in __iter__
    raise ValueError("sample 17 has 7 values; 8 are needed")
ValueError: sample 17 has 7 values; 8 are needed"""
CHAINED = """Traceback (most recent call last):
  File "/home/ada/data.py", line 3, in read
    x = y[0]
KeyError: 0

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/home/ada/train.py", line 40, in <module>
    main()
  File "/usr/lib/python3.11/json/decoder.py", line 337, in decode
    raise RuntimeError(
RuntimeError: the shard cannot be read
it has no header"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("cancelled by ada", "cancelled by ada"),
        (
            WORKER,
            "Input worker 0 failed in UnaryGetOutput: ValueError: sample 17 has 7 values; 8 are "
            "needed (at /home/ada/data.py:12)",
        ),
        (CHAINED, "RuntimeError: the shard cannot be read (at /home/ada/train.py:40)"),
        (CHAINED[: CHAINED.rindex("RuntimeError:")].replace("KeyError: 0", ""), None),
        ("first line\nsecond line", "first line"),
        ("Traceback (most recent call last):\n", "Traceback (most recent call last):"),
        (
            f'Traceback (most recent call last):\n  File "{SITE}", line 1, in f\nKeyboardInterrupt',
            "KeyboardInterrupt",
        ),
    ],
)
def test_a_cause_is_one_line_and_the_whole_text_is_kept_if_it_says_more(text, line):
    cause = cause_of(text)
    if line is not None:
        assert cause.line == line
    assert "\n" not in cause.line
    assert cause.detail == ("" if cause.line == text.strip() else text.strip())


@pytest.mark.parametrize("length", [MAX_CHARACTERS, MAX_CHARACTERS + 1, 10_000])
def test_a_long_cause_keeps_its_beginning_and_its_place(length):
    text = f'Traceback (most recent call last):\n  File "/a.py", line 7, in f\nE: {"x" * length}'
    line = cause_of(text).line
    assert len(line) <= MAX_CHARACTERS
    assert line.startswith("E: xxx")
    assert line.endswith("(at /a.py:7)")


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("", ""),
        ("step 1\nstep 2\n\n", "step 2"),
        (
            f"step 1\n{CHAINED}\n",
            "RuntimeError: the shard cannot be read (at /home/ada/train.py:40)",
        ),
        ("sh: 1: nosuch: not found\n", "sh: 1: nosuch: not found"),
    ],
)
def test_the_last_words_of_a_program_are_its_last_error_or_its_last_line(output, words):
    assert last_words(output) == words


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "no such kernel\n'run 7' ended with exit code 7.",
            "'run 7' ended with exit code 7: no such kernel",
        ),
        ("a\nb\n\n'run' was ended by signal 9.\n", "'run' was ended by signal 9: b"),
        ("'run' ended with exit code 7.", "'run' ended with exit code 7."),
        ("one\nit ended with exit code 7. So it is.", "one"),
    ],
)
def test_a_program_is_told_with_its_end_and_its_last_words(text, line):
    assert cause_of(text).line == line
