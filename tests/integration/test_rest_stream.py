"""Changes of a running appliance as server-sent events."""

import contextlib
import json
import threading
from collections.abc import Iterator

import grpc
import httpx
import pytest

from protos.wsc.v1 import management_pb2, management_pb2_grpc
from tests.support.appliance_process import running_appliance, wait_for
from tests.support.rest import mint, rest_client


@pytest.fixture(scope="module")
def appliance(tmp_path_factory):
    with running_appliance(tmp_path_factory.mktemp("data"), "--lease-seconds", "900") as running:
        yield running


@pytest.fixture(scope="module")
def rest(appliance):
    with rest_client(appliance) as client:
        yield client


class Listener:
    """Collects the events of a stream in a thread."""

    def __init__(self, client: httpx.Client, path: str, **options) -> None:
        self.events: list[tuple[str, dict, str]] = []
        self.is_over = threading.Event()
        self._stack = contextlib.ExitStack()
        answer = self._stack.enter_context(client.stream("GET", path, **options))
        assert answer.headers["content-type"].startswith("text/event-stream")
        self._answer = answer
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        wait_for(lambda: self.events, what="first event")

    def names(self, topic: str) -> list[dict]:
        return [data for name, data, _ in self.events if name == topic]

    @property
    def last_id(self) -> str:
        return next(mark for _, _, mark in reversed(self.events) if mark)

    def close(self) -> None:
        with contextlib.suppress(httpx.HTTPError, RuntimeError):
            self._answer.close()
        self._thread.join(timeout=120)

    def _listen(self) -> None:
        event: dict[str, str] = {}
        with contextlib.suppress(httpx.HTTPError, httpx.StreamError):
            for line in self._answer.iter_lines():
                field, _, value = line.partition(": ")
                if field:
                    event[field] = value
                elif "event" in event:
                    data = json.loads(event["data"])
                    self.events.append((event["event"], data, event.get("id", "")))
                    event = {}
        self.is_over.set()


@contextlib.contextmanager
def listening(client: httpx.Client, path: str = "stream", **options) -> Iterator[Listener]:
    listener = Listener(client, path, **options)
    try:
        yield listener
    finally:
        listener.close()


def test_changes_come_as_they_happen_and_a_cut_stream_goes_on(appliance, rest):
    with rest_client(appliance) as client, listening(client) as live:
        job = appliance.submit_execute()
        appliance.wait_ready(job)
        wait_for(lambda: live.names("job") and live.names("job")[-1]["phase"] == "RUNNING")
        wait_for(lambda: live.names("queue"), what="a change of the queue")
        cut_at = live.last_id
    waiting = appliance.submit_execute()
    wait_for(lambda: rest.get("queue").json()["total"] == 1)
    rest.patch(f"jobs/{job}", json={"labels": {"seen": "late"}})
    with (
        rest_client(appliance) as client,
        listening(client, headers={"last-event-id": cut_at}) as resumed,
    ):
        wait_for(lambda: {entry["id"] for entry in resumed.names("job")} == {job, waiting})
        wait_for(lambda: resumed.names("queue") and resumed.names("queue")[-1]["num_waiting"] == 1)
        labels = [entry["labels"] for entry in resumed.names("job") if entry["id"] == job]
        assert labels[-1] == {"seen": "late"}
        assert resumed.events[0][0] == "hello"
        rest.post(f"jobs/{waiting}/cancel")
        wait_for(lambda: resumed.names("job")[-1]["phase"] == "CANCELLED")
    rest.post(f"jobs/{job}/cancel")


def test_a_mark_of_another_start_is_answered_with_a_reset(rest):
    with listening(rest, headers={"last-event-id": "0000-17"}) as listener:
        assert listener.events[0][0] == "reset"


def test_a_follower_hears_of_what_it_asked_for_alone(appliance, rest):
    parameters = {"topic": ["job", "session"], "job": "wsjob-of-nobody"}
    with rest_client(appliance) as client, listening(client, params=parameters) as listener:
        rest.post(f"jobs/{appliance.submit_compile()}/cancel")
        rest.patch("sessions/job-operator", json={"shares": 2})
        wait_for(lambda: listener.names("session"))
        assert {name for name, _, _ in listener.events} == {"hello", "session"}


def test_series_are_kept_and_told_as_they_stream(appliance, rest):
    job = appliance.submit_execute()
    appliance.wait_ready(job)
    address = f"unix:{appliance.state.runtime_root}/management.sock"
    with (
        rest_client(appliance) as client,
        listening(client, params={"topic": "progress"}) as listener,
        grpc.insecure_channel(address) as channel,
    ):
        stub = management_pb2_grpc.ManagementStub(channel)
        for step, value in ((1, 4.5), (2, float("nan"))):
            point = management_pb2.SeriesPoint(
                name="output_loss", session=1, step=step, value=value, at_seconds=1e9
            )
            stub.ReportJob(management_pb2.JobReport(job=job, points=[point]))
        wait_for(lambda: listener.names("progress"))
        wait_for(lambda: listener.names("progress")[-1]["step"] == 2)
        assert listener.names("progress")[-1] == {
            "id": job,
            "step": 2,
            "series": {"output_loss": None},
        }
    series = rest.get(f"jobs/{job}/series").json()
    assert [entry["value"] for entry in series["series"]["output_loss"]] == [4.5, None]
    later = rest.get(f"jobs/{job}/series", params={"after": series["next"]}).json()
    assert later == {"series": {}, "titles": {}, "next": series["next"]}


def test_a_log_is_read_from_its_end_and_followed_until_the_job_ends(appliance, rest):
    job = appliance.submit_compile()
    appliance.wait_ready(job)
    pod = f"{job}-coordinator-0"
    assert pod in [log["pod"] for log in rest.get(f"jobs/{job}/logs").json()["items"]]
    path = appliance.data_dir / "jobs" / job / "logs" / "coordinator-0.log"
    with path.open("a") as log:
        log.write("one\ntwo\nthree\n")
    end = rest.get(f"jobs/{job}/logs/{pod}", params={"tail": 2})
    assert end.text == "two\nthree\n"
    assert int(end.headers["x-next-offset"]) == path.stat().st_size
    assert rest.get(f"jobs/{job}/logs/coordinator-0", params={"offset": 1 << 40}).status_code == 400
    assert rest.get(f"jobs/{job}/logs/chief-9").status_code == 404
    at = path.stat().st_size - len("three\n")
    stream = f"jobs/{job}/logs/{pod}/stream"
    with (
        rest_client(appliance) as client,
        listening(client, stream, headers={"last-event-id": str(at)}) as listener,
    ):
        assert listener.names("lines")[0] == {"text": "three\n"}
        with path.open("a") as log:
            log.write("four\n")
        wait_for(lambda: listener.names("lines")[-1]["text"].endswith("four\n"))
        rest.post(f"jobs/{job}/cancel")
        assert listener.is_over.wait(120)
        assert listener.events[-1][0] == "end"


def test_a_stream_ends_with_the_appliance(tmp_path):
    with running_appliance(tmp_path / "data") as appliance:
        token = mint(appliance, "ada", "--uid", "1000")
        with rest_client(appliance, token) as client, listening(client) as listener:
            appliance.down()
            assert listener.is_over.wait(120)
