"""What a notification says in one line, and how urgent it is."""

import pytest

from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.notifications import Alert, Notice, news_of, severity_of
from appliance.core.failure_causes import MAX_CHARACTERS


def notice(news, message="", **traits):
    return Notice(
        **{
            "job": "wsjob-a",
            "type": "execute",
            "user": "ada",
            "session": "job-operator",
            "news": news,
            "message": message,
            "at": "",
            "url": "http://page/wsjob-a",
            **traits,
        }
    )


@pytest.mark.parametrize(
    ("found", "subject"),
    [
        (notice(Phase.CANCELLED), "Execute job wsjob-a of ada was cancelled"),
        (notice(Phase.RUNNING, user=""), "Execute job wsjob-a runs"),
        (
            notice(Phase.FAILED, "ValueError: no", labels={"name": "gpt", "lr": "1e-3"}),
            "Execute job wsjob-a (lr=1e-3, name=gpt) of ada has failed: ValueError: no",
        ),
        (
            notice(Alert.NOT_FINITE, "loss is nan at step 7"),
            "Execute job wsjob-a of ada computes no finite numbers: loss is nan at step 7",
        ),
        (
            notice(Phase.FAILED, "one\r\nBcc: eve@example.com"),
            "Execute job wsjob-a of ada has failed: one Bcc: eve@example.com",
        ),
    ],
)
def test_the_subject_names_job_labels_and_cause_in_one_line(found, subject):
    assert found.subject == subject


def test_nothing_in_a_notice_is_obeyed_by_a_terminal_or_turns_its_direction():
    found = notice(Phase.FAILED, "\x1b]0;x\x07\u202egpj\n\x9b2J", labels={"a": "b"})
    assert found.subject.isprintable()
    assert found.text.endswith(": \\x1b]0;x\\x07\\u202egpj\n\\x9b2J\nhttp://page/wsjob-a")


def test_a_subject_stays_short_whatever_the_labels_and_the_cause():
    labels = {f"key{number}": "v" * 60 for number in range(20)}
    found = notice(Phase.FAILED, "x" * 5_000, labels=labels)
    assert len(found.subject) <= MAX_CHARACTERS
    assert found.subject.startswith("Execute job wsjob-a (key0=")
    assert "x" * 5_000 in found.text


def test_an_alert_is_of_a_job_that_runs_and_as_urgent_as_a_preemption():
    assert notice(Alert.NOT_FINITE).phase is Phase.RUNNING
    assert severity_of(Alert.NOT_FINITE) == severity_of(Phase.QUEUED) == 2
    assert notice(Phase.FAILED).phase is Phase.FAILED


@pytest.mark.parametrize("news", [*Phase, *Alert])
def test_news_is_read_as_it_was_written(news):
    assert news_of(news.value) is news
