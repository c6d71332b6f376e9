"""Who loses their token while they follow something hears no more of it, by REST and by gRPC."""

import threading

import grpc
import httpx
import pytest

from protos.cluster import cluster_pb2 as pb
from protos.wsc.v1 import logs_pb2
from tests.support.appliance_process import run_command, running_appliance, wait_for
from tests.support.rest import mint, rest_client

SECONDS = 300


class Follower:
    """Reads what comes, in a thread, until it ends."""

    def __init__(self, read) -> None:
        self.heard, self.is_over = [], threading.Event()
        self._thread = threading.Thread(target=self._run, args=(read,), daemon=True)
        self._thread.start()

    def _run(self, read) -> None:
        try:
            for piece in read():
                self.heard.append(piece)
        except (grpc.RpcError, httpx.HTTPError, AssertionError) as error:
            self.heard.append(error)
        finally:
            self.is_over.set()


@pytest.fixture
def appliance(tmp_path):
    with running_appliance(tmp_path / "data", "--tls", "--tokens") as running:
        yield running


def test_a_revoked_token_ends_what_is_being_followed(appliance):
    token = mint(appliance, "ada", "--uid", "1000")
    who = (("auth-token", token),)
    request = pb.CompileJobRequest(compile_dir_relative_path="cached_compile")
    job = appliance.cluster.InitCompileJob(request, metadata=who, timeout=SECONDS).job_id
    log = appliance.data_dir / "jobs" / job / "logs" / "coordinator-0.log"
    wait_for(log.exists, what="the log")
    with log.open("a") as file:
        file.write("first\n")
    stream_log = appliance.channel.unary_stream(
        "/wsc.v1.Logs/StreamLog",
        request_serializer=logs_pb2.StreamLogRequest.SerializeToString,
        response_deserializer=logs_pb2.LogChunk.FromString,
        _registered_method=False,
    )
    wanted = logs_pb2.StreamLogRequest(
        job=job, pod="coordinator-0", is_followed=True, tail_lines=-1
    )
    with rest_client(appliance, token, timeout=SECONDS) as rest:
        followers = [
            Follower(lambda: _lines(rest, f"jobs/{job}/logs/coordinator-0/stream")),
            Follower(lambda: _lines(rest, "stream")),
            Follower(lambda: stream_log(wanted, metadata=who, timeout=SECONDS)),
        ]
        wait_for(
            lambda: all(each.heard for each in followers), seconds=60, what="something of each"
        )
        listed = rest.get("tokens").json()["items"]
        done = run_command(
            *("token", "revoke", listed[0]["id"], "--data-dir", str(appliance.data_dir))
        )
        assert done.returncode == 0, done.stderr

        def are_over() -> bool:
            with log.open("a") as file:
                file.write("more\n")  # there is always something to tell
            return all(each.is_over.is_set() for each in followers)

        wait_for(are_over, what="the end of all streams")
    assert followers[2].heard[-1].code() is grpc.StatusCode.UNAUTHENTICATED


def _lines(rest, path):
    with rest.stream("GET", path) as answer:
        assert answer.status_code == 200, answer.read()
        yield from answer.iter_lines()
