"""Traces of SDK jobs: kept with the job, handed out block by block, and only if they are traces."""

import json
import zlib

import pytest

from appliance.fabric.tracing.trace import read_trace
from appliance.wire.fabric_traces import EVENT_BYTES, TraceFile
from protos.sdk.sdk_common_pb2 import StatusCode
from tests.support.appliance_process import running_appliance, wait_for
from tests.support.rest import rest_client
from tests.support.sdk_jobs import compile_command, example_sources, sdk_job

pytestmark = pytest.mark.slow

COMPILE = compile_command(width=3, height=2, n=8)
RUN = "WSC_FABRIC_TRACE=my.trace cs_python run.py --name out"


@pytest.fixture(scope="module")
def appliance(tmp_path_factory):
    with running_appliance(tmp_path_factory.mktemp("data"), "--systems", "1") as running:
        yield running


def events_of(rest, job: str) -> str:
    return str(rest.get(f"jobs/{job}/events").json())


def test_a_trace_outlives_its_job_and_is_read_block_by_block(appliance, tmp_path):
    with rest_client(appliance) as rest:
        with sdk_job(appliance) as job:
            job.upload_artifact("art", **example_sources())
            assert rest.get(f"jobs/{job.id}/fabric").status_code == 404
            answer = job.run(COMPILE, RUN, target="art")
            assert answer.code == StatusCode.SDK_RT_SUCCESS, answer.message
            mine = job.read("art/my.trace").data.data_chunk
            wait_for(lambda: "SdkTraced" in events_of(rest, job.id), what="the event")
        index = rest.get(f"jobs/{job.id}/fabric").json()
        version = {"version": index["version"]}
        header = rest.get(f"jobs/{job.id}/fabric/header", params=version)
        assert json.loads(zlib.decompress(header.content))["width"] == 3
        (block,) = index["blocks"]
        data = rest.get(f"jobs/{job.id}/fabric/blocks/0", params=version).content
        assert len(zlib.decompress(data)) == EVENT_BYTES * block["num_events"] > 0
        path = tmp_path / "job.trace"
        path.write_bytes(rest.get(f"jobs/{job.id}/fabric/file").content)
        assert path.read_bytes() == mine
        assert len(read_trace(TraceFile(path)).events) == block["num_events"]
        assert rest.get(f"jobs/{job.id}/fabric/blocks/1", params=version).status_code == 404
        old = rest.get(f"jobs/{job.id}/fabric/blocks/0", params={"version": "1-1"})
        assert old.status_code == 409


@pytest.mark.parametrize("labels", [{"fabric-trace": "on"}, {}])
def test_a_jobs_label_and_a_compiled_program_ask_for_traces_too(appliance, labels):
    with sdk_job(appliance, labels=labels) as job, rest_client(appliance) as rest:
        job.upload_artifact("art", **example_sources())
        compile_ = COMPILE if labels else f"{COMPILE} --fabric-trace=100"
        answer = job.run(compile_, "python run.py --name out", target="art")
        assert answer.code == StatusCode.SDK_RT_SUCCESS, answer.message
        (block,) = rest.get(f"jobs/{job.id}/fabric").json()["blocks"]
        assert block["num_events"] > 0


def test_what_a_program_leaves_that_is_no_trace_is_refused_with_a_reason(appliance):
    with sdk_job(appliance) as job, rest_client(appliance) as rest:
        job.upload_artifact("art", **example_sources())
        leave = "mkdir -p $(dirname $WSC_SDK_JOB_TRACE); echo rubbish > $WSC_SDK_JOB_TRACE"
        assert job.run(leave, target="art").code == StatusCode.SDK_RT_SUCCESS
        wait_for(lambda: "SdkTraceRefused" in events_of(rest, job.id), what="the event")
        assert rest.get(f"jobs/{job.id}/fabric").status_code == 404
        assert not list((appliance.data_dir / "jobs" / job.id).glob("*fabric.trace"))


def test_a_run_that_fails_leaves_its_trace_with_the_reason(appliance):
    with sdk_job(appliance) as job, rest_client(appliance) as rest:
        job.upload_artifact("art", **example_sources())
        wrong = "sed -i 's/memcpy.unblock_cmd_stream();//' pe.csl"
        answer = job.run(wrong, COMPILE, RUN, target="art")
        assert answer.code == StatusCode.SDK_COMMAND_ERROR
        version = {"version": rest.get(f"jobs/{job.id}/fabric").json()["version"]}
        header = rest.get(f"jobs/{job.id}/fabric/header", params=version).content
        assert "unblock_cmd_stream" in json.loads(zlib.decompress(header))["end"]
