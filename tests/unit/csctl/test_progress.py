"""How far a job is, as csctl says it."""

import datetime as dt

from google.protobuf.timestamp_pb2 import Timestamp

from csctl.output.documents.document import to_document
from csctl.output.jobs import job_columns
from csctl.output.runs.progress import progress_line
from csctl.output.runs.sessions import session_columns
from csctl.output.table import render
from protos.wsc.v1.events_pb2 import RunSession
from tests.support.csctl import NOW, make_job

PROPERTIES = {
    "run_session": "1",
    "steps_completed": "375",
    "steps_planned": "600",
    "step_seconds": "0.4",
    "remaining_seconds": "120.4",
}


def test_a_running_job_says_how_far_it_is_and_how_long_it_takes() -> None:
    assert progress_line(PROPERTIES) == "Progress: step 375 of 600, 2 min to go"
    assert progress_line({"message": "x"}) == ""


def test_the_wide_list_has_the_progress_of_each_job() -> None:
    job = make_job("wsjob-a")
    job.meta.properties.update(PROPERTIES)
    header, row, other = render(
        job_columns(NOW), [job, make_job("wsjob-b")], wide=True
    ).splitlines()
    at = header.index("PROGRESS")
    assert row[at:].startswith("step 375 of 600, 2 min to go")
    assert other[at:].startswith("n/a")
    assert "PROGRESS" not in render(job_columns(NOW), [job])


def test_several_sessions_are_told_apart() -> None:
    line = progress_line({**PROPERTIES, "run_session": "2", "num_run_sessions": "2"})
    assert line.startswith("Progress: session 2 of 2 so far: step 375 of 600")
    started, ended = Timestamp(), Timestamp()
    started.FromDatetime(NOW - dt.timedelta(seconds=90))
    ended.FromDatetime(NOW)
    one = RunSession(
        session=1,
        is_training=True,
        num_steps=600,
        completed_steps=600,
        step_seconds=0.4,
        started=started,
        ended=ended,
    )
    row = render(session_columns(NOW), [one]).splitlines()[1]
    assert row.split() == ["1", "train", "step", "600", "of", "600", "400", "ms", "1m30s"]


def test_numbers_are_numbers_in_documents_and_texts_stay_texts() -> None:
    job = make_job("wsjob-a")
    job.meta.properties.update({**PROPERTIES, "message": "17", "execution": "pipelined"})
    properties = to_document(job)["meta"]["properties"]
    assert properties["steps_completed"] == 375
    assert properties["remaining_seconds"] == 120.4
    assert properties["message"] == "17"
    assert properties["execution"] == "pipelined"
    session = to_document(RunSession(session=1, num_steps=600, readings={"wall_seconds": 2.5}))
    assert session["numSteps"] == 600
    assert session["completedSteps"] == 0
    assert session["readings"] == {"wall_seconds": 2.5}
