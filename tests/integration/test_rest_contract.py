"""REST and gRPC against what nobody should send: no 5xx, and the appliance goes on serving."""

import json
import os
import random
import shutil
import subprocess
import sys

import grpc
import httpx
import pytest
from google.protobuf import descriptor_pool, message_factory

from appliance.core.access_rules.methods import METHODS as RULES
from protos.cluster import cluster_pb2
from protos.csadm import csadm_pb2  # noqa: F401 - puts its messages into the pool
from protos.csctl import api_pb2, resources_pb2
from protos.wsc.v1 import (  # noqa: F401
    drivers_pb2,
    events_pb2,
    logs_pb2,
    maintenance_pb2,
    queue_pb2,
    runs_pb2,
)
from tests.fuzz.rest import cases
from tests.support.appliance_process import USER, running_appliance
from tests.support.rest import rest_client

SCALE = float(os.environ.get("FUZZ_SCALE", "1"))
"""`make fuzz` sends more."""
NUM_MESSAGES = int(10_000 * SCALE)
NUM_REQUESTS = int(1_500 * SCALE)
NUM_IN_FLIGHT = 200
NUM_BETWEEN_CANCELS = 2000
"""Messages after which the jobs that they have made are cancelled; each may be a process."""
_STREAMS = {"HeartbeatV2", "PollIngressV2", "PollIngress", "ListJobs", "StreamLog"}
_SURVIVORS = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,  # of streams, which we end
    grpc.StatusCode.RESOURCE_EXHAUSTED,
}


@pytest.fixture(scope="module")
def appliance(tmp_path_factory):
    data = tmp_path_factory.mktemp("data")
    with running_appliance(data, "--systems", "2", "--lease-seconds", "900") as running:
        yield running


def test_no_request_makes_rest_fail(appliance, tmp_path):
    """Schemathesis makes requests of the interface's own description, right and wrong ones."""
    root = appliance.state.rest_url
    job = appliance.submit_execute()
    appliance.wait_ready(job)
    (tmp_path / "schemathesis.toml").write_text(f'[parameters]\n"path.job_id" = "{job}"\n')
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{root}/api/v1/openapi.json"),
        *("--checks", "not_a_server_error,content_type_conformance,response_schema_conformance"),
        *("--phases", "fuzzing", "--mode", "all", "--max-examples", "8"),
        *("--seed", "1", "--generation-database", "none", "--request-timeout", "120"),
        *("--suppress-health-check", "all", "--exclude-path-regex", "stream$", "--workers", "1"),
    ]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "NO_COLOR": "1"}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    with rest_client(appliance) as rest:
        assert rest.get("jobs").status_code == 200


def test_texts_that_nobody_should_send_never_make_rest_fail(tmp_path_factory):
    """Lone surrogates, numbers without end and paths upwards, in every place of every route."""
    with (
        running_appliance(tmp_path_factory.mktemp("nasty"), "--systems", "2") as appliance,
        rest_client(appliance, transport=httpx.HTTPTransport(retries=3)) as rest,
    ):
        root = appliance.state.rest_url
        document = rest.get("openapi.json").json()
        job = appliance.submit_compile()
        failed = {}
        for case in cases(document, job, NUM_REQUESTS, seed=11):
            answer = rest.request(
                case.method, f"{root}{case.url}", content=case.content, headers=case.headers
            )
            if answer.status_code >= 500 and answer.status_code != 503:
                route = f"{case.method} {case.url.partition('?')[0]}"[:120]
                failed.setdefault(route, (case, answer.text[:300]))
        assert failed == {}
        assert rest.get("jobs").status_code == 200
        assert "Traceback" not in appliance.log()


def test_fuzzed_calls_leave_the_appliance_serving(appliance):
    rng = random.Random(7)
    job = appliance.submit_compile()
    methods = sorted(name for name in RULES if name.rpartition("/")[2] not in _STREAMS)
    pending, codes = [], set()
    for number in range(NUM_MESSAGES):
        method = methods[number % len(methods)]
        data = _fuzz(rng, method, job)
        call = appliance.channel.unary_unary(method, _registered_method=False)
        metadata = USER if rng.random() < 0.8 else (("auth-uid", f"{rng.random()}"),)
        pending.append(call.future(data, metadata=metadata, timeout=300))
        if len(pending) >= NUM_IN_FLIGHT or number == NUM_MESSAGES - 1:
            codes |= {future.code() for future in pending}
            pending.clear()
        if number % NUM_BETWEEN_CANCELS == NUM_BETWEEN_CANCELS - 1:
            _cancel(appliance, jobs={each for each in _unfinished(appliance) if each != job})
    for method in sorted(_STREAMS):
        for _ in range(20):
            codes.add(_stream(appliance, rng, method, job))
    assert _failures(appliance.log()) == {}
    assert codes <= _SURVIVORS, codes - _SURVIVORS
    assert appliance.cluster.GetServerConfig(cluster_pb2.GetServerConfigRequest())
    _restore(appliance)
    fresh = appliance.submit_compile()
    assert appliance.wait_ready(fresh)[-1].is_ready


def _restore(appliance) -> None:
    """Take back what an administrator may do, and the fuzzed calls of one have done."""
    without_limits = {
        "is_paused": False,
        **dict.fromkeys(("num_systems", "max_node_groups", "max_executes", "max_compiles")),
    }
    with rest_client(appliance) as rest:
        rest.patch("sessions/job-operator", json=without_limits).raise_for_status()
    _cancel(appliance, _unfinished(appliance))


def _unfinished(appliance) -> set[str]:
    wanted = api_pb2.GetRequest(type="jobs", accept=api_pb2.PROTOBUF_METHOD)
    jobs = resources_pb2.JobList.FromString(appliance.csctl.Get(wanted).raw).items
    phases = resources_pb2.JobStatus.Phase
    ended = (phases.SUCCEEDED, phases.FAILED, phases.CANCELLED)
    return {job.meta.name for job in jobs if job.status.phase not in ended}


def _cancel(appliance, jobs: set[str]) -> None:
    for job in jobs:
        request = cluster_pb2.CancelJobRequest(
            job_id=job, job_status=cluster_pb2.JOB_STATUS_CANCELLED
        )
        appliance.cluster.CancelJobV2(request, timeout=300)


def _failures(log: str) -> dict[str, str]:
    """Return the defects that the appliance has logged: the end of a traceback by method."""
    lines = [json.loads(line) for line in log.splitlines() if '"Call failed"' in line]
    return {line["method"]: line.get("traceback", "")[-600:] for line in lines}


def _stream(appliance, rng: random.Random, method: str, job: str) -> grpc.StatusCode:
    name = next(each for each in RULES if each.endswith(f"/{method}"))
    data = _fuzz(rng, name, job)
    if method == "HeartbeatV2":
        call = appliance.channel.stream_stream(name)(iter([data]), timeout=120)
    else:
        call = appliance.channel.unary_stream(name)(data, timeout=0.5)
    try:
        for _ in call:
            pass
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def _fuzz(rng: random.Random, method: str, job: str) -> bytes:
    """Return random bytes, or a message that is valid but for some changed bytes, or valid."""
    if rng.random() < 0.3:
        return rng.randbytes(rng.randrange(200))
    data = bytearray(_message(rng, method, job))
    if data and rng.random() < 0.5:
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def _message(rng: random.Random, method: str, job: str) -> bytes:
    service, name = method.removeprefix("/").split("/")
    found = descriptor_pool.Default().FindServiceByName(service).methods_by_name[name]
    message = message_factory.GetMessageClass(found.input_type)()
    _fill(rng, message, job, depth=0)
    return message.SerializeToString()


def _fill(rng: random.Random, message, job: str, *, depth: int) -> None:
    for field in message.DESCRIPTOR.fields:
        if rng.random() < 0.4 or (field.containing_oneof and rng.random() < 0.5):
            continue
        if field.message_type is not None:
            if depth < 3 and not field.is_repeated:
                _fill(rng, getattr(message, field.name), job, depth=depth + 1)
            continue
        value = _value(rng, field, job)
        if field.is_repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)


def _value(rng: random.Random, field, job: str):
    kind = field.cpp_type
    if kind == field.CPPTYPE_STRING:
        is_bytes = field.type == field.TYPE_BYTES
        text = job if rng.random() < 0.3 and not is_bytes else _text(rng)
        return text.encode() if is_bytes else text
    if kind == field.CPPTYPE_BOOL:
        return rng.random() < 0.5
    if kind in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return rng.choice((0.0, -1.5, 1e300, float("nan"), float("inf")))
    if kind == field.CPPTYPE_ENUM:
        return rng.choice(field.enum_type.values).number
    is_signed = kind in (field.CPPTYPE_INT32, field.CPPTYPE_INT64)
    is_wide = kind in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64)
    bits = (63 if is_wide else 31) + (0 if is_signed else 1)
    return rng.choice((0, 1, 7, (1 << bits) - 1, -1 if is_signed else 2))


def _text(rng: random.Random) -> str:
    alphabet = "abc019-_./=%'\"; \u00e9\u4e2d\n"
    choices = ("", "jobs", "systemf0", "p1", "../..", "job-operator", "x" * 3000)
    if rng.random() < 0.5:
        return rng.choice(choices)
    return "".join(rng.choice(alphabet) for _ in range(rng.randrange(30)))


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool (Debian: prometheus) is missing")
def test_metrics_are_named_as_prometheus_wants_them(appliance):
    job = appliance.submit_execute()
    appliance.wait_ready(job)
    with rest_client(appliance) as rest:
        rest.get("jobs")
        text = rest.get(f"{appliance.state.rest_url}/metrics").text
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    for name in ("wsc_queue_jobs", "wsc_grpc_calls_total", "wsc_rest_request_seconds_bucket"):
        assert f"\n{name}{{" in text
    assert f'wsc_job_info{{wsjob="{job}"' in text or f'wsjob="{job}"' in text
