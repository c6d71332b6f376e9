import pytest

from csctl.output.jobs import job_columns, priority_text, reason
from protos.csctl.resources_pb2 import Job
from tests.support.csctl import NOW, make_job


def cell(job: Job, header: str) -> str:
    return next(column.cell(job) for column in job_columns(NOW) if column.header == header)


def test_the_columns_are_the_documented_ones() -> None:
    headers = [column.header for column in job_columns(NOW) if not column.is_wide]

    assert " ".join(headers) == (
        "SESSION NAME TYPE PRIORITY AGE DURATION PHASE SYSTEMS USER LABELS WORKFLOW DASHBOARD"
    )


def test_duration_counts_from_the_start_to_now_or_to_the_end() -> None:
    assert cell(make_job("a", started_ago=90), "DURATION") == "1m30s"
    assert cell(make_job("a", started_ago=90, ended_ago=30), "DURATION") == "1m"


def test_a_job_that_never_started_has_no_duration() -> None:
    assert cell(make_job("a", phase="QUEUED"), "DURATION") == "n/a"


def test_a_user_without_a_name_shows_as_uid() -> None:
    assert cell(make_job("a", user="", uid=42), "USER") == "42"
    assert cell(Job(), "USER") == ""


def test_labels_are_sorted_and_systems_joined() -> None:
    job = make_job("a", labels={"b": "2", "a": "1"}, systems=("s0", "s1"))

    assert cell(job, "LABELS") == "a=1,b=2"
    assert cell(job, "SYSTEMS") == "s0,s1"


def test_the_wide_list_has_the_kubernetes_namespace_beside_the_session() -> None:
    job = make_job("a", session="research")
    job.meta.properties["namespace"] = "team-research"
    assert (cell(job, "SESSION"), cell(job, "NAMESPACE")) == ("research", "team-research")
    assert cell(make_job("a"), "NAMESPACE") == "n/a"


@pytest.mark.parametrize(
    ("text", "want"), [("299", "P2 (299)"), ("0", "P0 (0)"), ("P1 (199)", "P1 (199)"), ("", "")]
)
def test_a_bare_priority_value_gets_its_bucket(text: str, want: str) -> None:
    assert priority_text(text) == want


def test_the_reason_is_what_it_waits_for_or_else_its_message_or_last_condition() -> None:
    job = make_job("a")
    job.status.conditions.add(type="QUEUED", message="no system is free")
    job.status.conditions.add(type="SCHEDULED")
    assert reason(job) == ""
    job.status.conditions.add(type="FAILED", message="pod a-weight-0 ended with code 137")
    assert reason(job) == "pod a-weight-0 ended with code 137"
    job.meta.properties["message"] = "out of memory"
    assert reason(job) == "out of memory"
    job.status.lock.job_pending_status.pending_reason = "waits for 1 system"
    assert reason(job) == "waits for 1 system"
