"""The coordinator serves a client over a real channel; all other processes are played."""

import signal
import subprocess
import threading
from pathlib import Path

import grpc
import numpy as np
import pytest

from appliance.core.ids import Role
from appliance.wire.requests.cluster_details import gang_size
from protos.appliance import appliance_service_pb2 as pb
from protos.appliance import message_queue_pb2, ws_common_pb2
from protos.appliance.rtfx_pb2 import RtFxProto
from protos.appliance.ws_common_pb2 import StatusCode
from protos.wsc.v1 import management_pb2, pods_pb2
from tests.support.played_job import SECONDS, PlayedJob
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

PROGRAM = "module { func @graph() }"
WEIGHT = np.arange(6, dtype=np.float16).reshape(2, 3)


@pytest.fixture
def compile_job(tmp_path):
    job = PlayedJob(tmp_path, job_type="compile")
    yield job
    job.close()


@pytest.fixture
def job(tmp_path):
    made = PlayedJob(tmp_path, num_systems=2, workers=2)
    yield made
    made.close()


def compile_request(text=PROGRAM, **fields):
    wanted = {"num_csx": 2, "num_workers_per_csx": 2, "batch_size": 4, "compile_dir": "models"}
    return pb.CompileRequest(cirh_content=text, **{**wanted, **fields})


def load(job):
    directory = job.client.UnaryCompile(compile_request()).cache_compile_dir
    return job.client.UnaryLoad(pb.LoadRequest(cache_compile_dir=directory))


def run(job, steps=3, *, checkpoints=()):
    request = pb.RunRequest(num_iterations=steps, activation_freq=1)
    for step in checkpoints:
        request.checkpoint_schedule.intervals.add(start=step - 1, end=step, step=1)
    return job.client.UnaryRun(request)


def weight_messages(values=WEIGHT, name="state.w", dtype=RtFxProto.T_F16):
    first = pb.SendInputRequest(tensor_name=name, has_more=True)
    first.rtfx_proto.dtype = dtype
    first.rtfx_proto.tensor.shape.extend(values.shape)
    yield first
    chunk = pb.SendInputRequest(tensor_name=name)
    chunk.rtfx_proto.CopyFrom(first.rtfx_proto)
    chunk.rtfx_proto.tensor.data = values.tobytes()
    yield chunk


def scalar(name="state.n", value=7):
    tensor = pb.SendDeferredInputRequest.Tensor(tensor_name=name, dtype=RtFxProto.T_I64)
    tensor.scalar_broadcast_tensor.value.dtype = RtFxProto.T_I64
    tensor.scalar_broadcast_tensor.value.scalar.data = np.int64(value).tobytes()
    return pb.SendDeferredInputRequest(tensors=[tensor])


def send_weights(job):
    assert len(list(job.client.SendInputBidirStream(weight_messages()))) == 2
    assert job.client.UnarySendDeferredInput(scalar()).code == StatusCode.WS_RT_SUCCESS


def start(job, steps=3, *, checkpoints=()):
    for reply in (load(job), run(job, steps, checkpoints=checkpoints)):
        assert (reply.code, reply.message) == (StatusCode.WS_RT_SUCCESS, "")
    send_weights(job)
    reply = job.client.UnaryStartStreaming(pb.StartStreamingRequest())
    assert (reply.code, reply.message) == (StatusCode.WS_RT_SUCCESS, "")


def fetch(job, step, name="output_loss"):
    messages = list(
        job.client.GetOutputStream(pb.GetOutputRequest(iteration=step, tensor_name=name))
    )
    if messages[-1].code != StatusCode.WS_RT_SUCCESS:
        return messages[-1].message
    raw = b"".join(message.rtfx_proto.tensor.data for message in messages)
    dtype = {RtFxProto.T_F32: np.float32, RtFxProto.T_F16: np.float16, RtFxProto.T_I64: np.int64}
    first = messages[0].rtfx_proto
    return np.frombuffer(raw, dtype[first.dtype]).reshape(tuple(first.tensor.shape))


def console_lines(job, count):
    """Return the next lines for the client's console; as the client, asks until they have come."""
    topic = pb.MsgQueueRequest(topic=message_queue_pb2.COMPILE, timeout_seconds=1)
    lines = []

    def are_there():
        if line := job.client.UnaryMsgQueue(topic).status.msg:
            lines.append(line)
        return len(lines) == count

    wait_until(are_there, seconds=SECONDS, what=f"{count} lines", seen=lambda: str(lines))
    return lines


def test_a_program_is_compiled_once_and_found_again(compile_job) -> None:
    first = compile_job.client.UnaryCompile(compile_request())
    assert Path(first.cache_compile_dir, "program.mlir").read_text() == PROGRAM
    assert compile_job.client.UnaryCompile(compile_request()) == first
    lines = console_lines(compile_job, 2)
    key = Path(first.cache_compile_dir).name
    assert lines[1] == f'Found existing cached compile with hash: "{key}"'
    assert not list(Path(first.cache_compile_dir).parent.glob(".*"))


def test_a_program_that_cannot_be_divided_gets_fewer_weight_servers_and_says_so(
    compile_job,
) -> None:
    for _ in ("compiled", "found in the cache"):
        details = compile_job.client.UnaryCompile(
            compile_request(max_wgt_servers=3)
        ).cluster_details
        assert gang_size(details).num_shards == 1
        lines = console_lines(compile_job, 2)
        assert lines[1] == (
            "The state is put on 1 instead of 3 MemoryX shards: its 2 tensors are updated in 1 "
            "part, which cannot be divided."
        )


def test_an_unknown_program_waits_for_what_compiling_takes_and_a_known_one_does_not(
    compile_job,
) -> None:
    known = compile_job.client.UnaryCompile(compile_request())
    compile_job.management.may_compile.clear()
    assert compile_job.client.UnaryCompile(compile_request()) == known
    waiting = compile_job.client.UnaryCompile.future(compile_request(f"{PROGRAM} // other"))
    lines = console_lines(compile_job, 3)
    assert lines[2] == "The program is not in the compile cache. job is queueing."
    assert not waiting.done()
    compile_job.management.may_compile.set()
    assert waiting.result(timeout=SECONDS).cache_compile_dir != known.cache_compile_dir


def test_a_compile_that_waits_ends_with_its_job(compile_job) -> None:
    compile_job.management.may_compile.clear()
    waiting = compile_job.client.UnaryCompile.future(compile_request())
    console_lines(compile_job, 1)
    compile_job.coordinator.stop("cancelled by ada")
    with pytest.raises(grpc.RpcError) as caught:
        waiting.result(timeout=SECONDS)
    assert caught.value.details() == "The job ends: cancelled by ada."


def test_garbage_in_place_of_a_program_is_one_clear_error_and_the_next_program_compiles(
    compile_job,
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        compile_job.client.UnaryCompile(compile_request("\0\1garbage"))
    assert caught.value.code() == grpc.StatusCode.INTERNAL
    assert caught.value.details() == "The program has no function @graph. Send a traced step."
    report = compile_job.management.wait_for_phase("FAILED")
    assert report.message == caught.value.details()
    assert compile_job.client.UnaryCompile(compile_request()).cache_compile_dir


def test_more_systems_than_there_are_fail_at_once_with_both_numbers(compile_job) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        compile_job.client.UnaryCompile(compile_request(num_csx=5, batch_size=8))
    assert "asks for 5 systems; the cluster has 2" in caught.value.details()


def test_a_compile_directory_outside_the_root_is_refused(compile_job) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        compile_job.client.UnaryCompile(compile_request(compile_dir="../../elsewhere"))
    assert "lies outside" in caught.value.details()


def test_the_client_is_told_the_build_that_it_insists_on(compile_job) -> None:
    reply = compile_job.client.UnaryStart(pb.StartRequest())
    assert reply.version_info.githash == "abc123"


def test_a_compile_job_ends_when_its_client_is_done(tmp_path) -> None:
    job = PlayedJob(tmp_path, job_type="compile")
    job.client.UnaryDone(pb.DoneRequest())
    job._thread.join(SECONDS)
    assert not job._thread.is_alive()
    job.close()


def test_what_is_not_served_says_so(job) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        list(job.client.SaveWeights(pb.SaveWeightsRequest()))
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert "SaveWeights is not served" in caught.value.details()


def test_a_session_trains_and_its_outputs_and_checkpoint_are_fetched(job) -> None:
    start(job, 3, checkpoints=[2])
    assert [fetch(job, 0), fetch(job, 1)] == [0.5, 1.5]
    np.testing.assert_array_equal(fetch(job, 1, "state.w"), WEIGHT + 2)
    assert fetch(job, 1, "state.n") == 9
    states = job.client.UnaryDataCheckpoint(pb.DataCheckpointRequest(iteration=2))
    assert states.state_dict_serialized == ["0:2", "1:2", "2:2", "3:2"]
    assert fetch(job, 2) == 2.5
    assert job.client.UnaryFinalize(pb.FinalizeRequest()).code == StatusCode.WS_RT_SUCCESS
    assert any(isinstance(call, pods_pb2.ReleaseSnapshotRequest) for call in job.weight.calls)
    commits = [c for c in job.weight.calls if isinstance(c, pods_pb2.CommitIngestRequest)]
    assert [list(commit.resource_names) for commit in commits] == [["state.n", "state.w"]]


def test_systems_are_told_before_they_start_what_one_of_them_has_measured(job) -> None:
    chiefs = [job.pods[Role.CHIEF, system] for system in range(2)]
    problem = "product-nt 256x512x512"
    for chief in chiefs:
        chief.listed = pods_pb2.ListProblemsReply(
            problems=[problem], num_threads=1, machine="EPYC of the test"
        )
    start(job)
    used = pods_pb2.UseImplementationsRequest(session=1, implementations={problem: "openblas"})
    listed = pods_pb2.ListProblemsRequest(session=1)
    measured = pods_pb2.MeasureProblemsRequest(problems=[problem], num_threads=1)
    assert [chief.kernel_calls for chief in chiefs] == [[listed, measured, used], [listed, used]]


def test_input_pods_learn_the_batch_and_the_client_s_request_unread(job) -> None:
    start(job)
    (worker,) = [c for c in job.pods[Role.WORKER, 3].calls if isinstance(c, pods_pb2.LoadRequest)]
    assert pb.RunRequest.FromString(worker.run_request).num_iterations == 3
    assert (worker.batch_size, worker.num_systems, worker.workers_per_system) == (4, 2, 2)
    assert [tensor.input_name for tensor in worker.batch_tensors] == ["input_0"]
    assert not worker.plan


def test_state_moves_to_the_next_session(job) -> None:
    start(job, 2)
    fetch(job, 1)
    job.client.UnaryFinalize(pb.FinalizeRequest())
    job.client.UnaryMoveToPTR(pb.MoveToPTRRequest(tensor_name="state.w", ptid=11))
    job.client.UnaryMoveToPTR(pb.MoveToPTRRequest(tensor_name="state.n", ptid=12))
    (message,) = job.client.GetFromPTRStream(pb.GetFromPTRRequest(ptid=11, keep_in_repo=True))
    kept = np.frombuffer(message.rtfx_proto.tensor.data, np.float16).reshape(2, 3)
    np.testing.assert_array_equal(kept, WEIGHT + 2)
    assert load(job).code == StatusCode.WS_RT_SUCCESS
    run(job, 1)
    for name, number in (("state.w", 11), ("state.n", 12)):
        reply = job.client.UnaryCarryOverFromPTR(
            pb.CarryOverFromPTRRequest(tensor_name=name, ptid=number)
        )
        assert (reply.code, reply.message) == (StatusCode.WS_RT_SUCCESS, "")
    assert job.weight.persistent == {}
    reply = job.client.UnaryStartStreaming(pb.StartStreamingRequest())
    assert (reply.code, reply.message) == (StatusCode.WS_RT_SUCCESS, "")
    assert fetch(job, 0) == 0.5


def test_ingestion_is_confirmed_tensor_by_tensor(job) -> None:
    load(job)
    run(job)
    pair = pb.StartWeightIngestionRequest.IDPair
    request = pb.StartWeightIngestionRequest(
        tensor_id_shard_ids=[pair(tensor_name="state.n"), pair(tensor_name="state.w")]
    )
    confirmations = job.client.StartWeightIngestion(request)
    next(confirmations)
    send_weights(job)
    assert len(list(confirmations)) == 2


def test_bad_weights_are_one_error_each_and_the_session_goes_on(job) -> None:
    load(job)
    run(job)
    cut = list(job.client.SendInputBidirStream(iter([*weight_messages()][:1])))
    assert cut[-1].code != StatusCode.WS_RT_SUCCESS
    assert "'state.w' ended after 0 bytes; tensor<2x3xf16> takes 12" in cut[-1].message
    wrong = weight_messages(WEIGHT.astype(np.float32), dtype=RtFxProto.T_F32)
    (refusal,) = job.client.SendInputBidirStream(wrong)
    assert "T_F32; the program needs T_F16" in refusal.message
    (refusal,) = job.client.SendInputBidirStream(weight_messages(WEIGHT.reshape(3, 2)))
    assert "[3, 2]; the program needs [2, 3]" in refusal.message
    (refusal,) = job.client.SendInputBidirStream(weight_messages(name="state.v"))
    assert "no state tensor 'state.v'" in refusal.message
    reply = job.client.UnaryStartStreaming(pb.StartStreamingRequest())
    assert "2 state tensors have no value" in reply.message
    send_weights(job)
    assert not job.client.UnaryStartStreaming(pb.StartStreamingRequest()).message


def test_calls_out_of_order_are_refused_with_the_jobs_story(job) -> None:
    reply = run(job)
    assert "cannot run while session 0 is idle" in reply.message
    assert job.client.UnaryLoad(pb.LoadRequest(cache_compile_dir="nowhere")).message.startswith(
        "There is no compiled program of yours in 'nowhere'."
    )


def test_a_step_that_keeps_no_state_cannot_be_fetched(job) -> None:
    start(job, 3, checkpoints=[3])
    assert "state after step 2 is not kept" in fetch(job, 1, "state.w")


def test_a_users_error_ends_the_waiting_call_with_his_traceback(job) -> None:
    job.weight.hold.set()
    start(job)
    fetch(job, 0)
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(fetch(job, 2)))
    waiting.start()
    traceback = 'Traceback (most recent call last):\n  File "train.py", line 3\nKeyError: 7'
    # The consequence comes first and the cause at its heels: reports are collected for a moment.
    reports = [
        job.pods[Role.BROADCASTREDUCE, 0].fail("Stream 'gradients-0' lost its writer."),
        job.pods[Role.WORKER, 1].fail(
            "Input worker 1 failed:", is_user_error=True, detail=traceback
        ),
    ]
    for report in reports:
        report.result(SECONDS)
    waiting.join(SECONDS)
    # The call has carried the failure, so the monitor stays quiet for a while.
    reply = job.client.UnaryMonitorError(pb.MonitorErrorRequest(poll_seconds=1))
    assert reply.code == StatusCode.WS_RT_MONITOR_CLEAN
    assert answers == [f"Input worker 1 failed:\n{traceback}"]
    failed = job.management.wait_for_phase("FAILED")
    assert failed.message == answers[0]
    assert [(event.reason, event.pod, event.message) for event in failed.events] == [
        (
            "PodFailed",
            job.name(Role.WORKER, 1),
            "Input worker 1 failed: KeyError: 7 (at train.py:3)",
        )
    ]
    assert all(pod.stopped.wait(SECONDS) for pod in job.pods.values())
    assert run(job).message == answers[0]


def test_the_monitor_tells_one_of_its_polls_if_no_call_did(job) -> None:
    start(job)
    polls = [
        job.client.UnaryMonitorError.future(pb.MonitorErrorRequest(poll_seconds=600))
        for _ in range(2)
    ]
    job.control.Shutdown(
        management_pb2.ShutdownRequest(
            reason="first failed pods: [chief-1]: killed by signal 9",
            is_failure=True,
            pod=job.name(Role.CHIEF, 1),
        )
    )
    done = threading.Semaphore(0)
    for poll in polls:
        poll.add_done_callback(lambda _: done.release())
    assert done.acquire(timeout=SECONDS)
    (told,) = [poll.result() for poll in polls if poll.done()]
    assert told.code == StatusCode.WS_RT_INTERNAL_ERROR
    assert (told.message, told.host_index) == (
        "first failed pods: [chief-1]: killed by signal 9",
        1,
    )
    job.client.UnaryDone(pb.DoneRequest())
    assert done.acquire(timeout=SECONDS)
    assert {poll.result().code for poll in polls} == {
        StatusCode.WS_RT_INTERNAL_ERROR,
        StatusCode.WS_RT_MONITOR_CLEAN,
    }


@pytest.fixture
def sleeper():
    """A process that can be stopped, for a pod that is played in this one."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_a_job_waits_for_a_stopped_pod_and_goes_on_with_it(job, sleeper):
    start(job)
    pod = job.name(Role.CHIEF)
    job.pods[Role.CHIEF, 0].register(sleeper.pid)
    sleeper.send_signal(signal.SIGSTOP)
    job.silent.add((Role.CHIEF, 0))
    silent = job.management.wait_for_event("PodSilent")
    assert (silent.pod, silent.is_warning) == (pod, True)
    assert f"was stopped by a signal; `kill -CONT {sleeper.pid}` lets it go on" in silent.message
    sleeper.send_signal(signal.SIGCONT)
    job.silent.clear()
    assert job.management.wait_for_event("PodAnswers").message == f"{pod} answers again."
    assert fetch(job, 2) == pytest.approx(2.5)
    assert not [report for report in job.management.reports if report.phase == "FAILED"]


def test_a_pod_whose_process_ends_fails_the_job_at_once(job, sleeper):
    start(job)
    job.pods[Role.CHIEF, 0].register(sleeper.pid)
    sleeper.kill()
    report = job.management.wait_for_phase("FAILED")
    assert f"{job.name(Role.CHIEF)} ended while its job needed it" in report.message


def test_a_pod_that_cannot_load_fails_the_job_by_name(job) -> None:
    job.pods[Role.CHIEF, 1].load_error = (grpc.StatusCode.INTERNAL, "out of memory")
    reply = load(job)
    assert f"{job.name(Role.CHIEF, 1)} does not answer: out of memory" in reply.message
    assert job.management.wait_for_phase("FAILED").message == reply.message


def test_a_client_that_leaves_early_does_not_wait_for_the_rest_of_the_steps(job) -> None:
    job.weight.hold.set()
    start(job, 1000)
    fetch(job, 0)
    job.client.UnaryFinalize(pb.FinalizeRequest())
    (finish,) = [c for c in job.weight.calls if isinstance(c, pods_pb2.FinishRequest)]
    assert not finish.wait_for_steps


def test_shutdown_ends_every_wait_and_stops_the_pods(job) -> None:
    job.weight.hold.set()
    start(job)
    waiting = job.client.GetOutputStream(
        pb.GetOutputRequest(iteration=2, tensor_name="output_loss")
    )
    job.control.Shutdown(management_pb2.ShutdownRequest(reason="cancelled by csctl"))
    (last,) = waiting
    assert last.code != StatusCode.WS_RT_SUCCESS
    assert all(pod.stopped.wait(SECONDS) for pod in job.pods.values())
    job._thread.join(SECONDS)
    assert not job._thread.is_alive()


def test_all_pods_are_reported_to_management(job) -> None:
    report = job.management.wait_for_phase("RUNNING")
    assert len(report.pods) == 2 + 2 + 2 + 4
    assert all(pod.is_ready for pod in report.pods)


def test_a_program_for_another_gang_asks_for_another_job(job) -> None:
    same = job.client.UnaryCompile(compile_request())
    reply = job.client.UnaryCheckCompileCompatibility(
        pb.CheckCompileCompatibilityRequest(compile_resp=same)
    )
    assert reply.code == StatusCode.WS_RT_SUCCESS
    other = job.client.UnaryCompile(compile_request(num_csx=1))
    reply = job.client.UnaryCheckCompileCompatibility(
        pb.CheckCompileCompatibilityRequest(compile_resp=other, prev_compile_resp=same)
    )
    assert reply.code == StatusCode.WS_RT_JOB_INCOMPATIBLE


def test_the_service_answers_clock_and_ping(job) -> None:
    job.client.UnaryClockSync(ws_common_pb2.ClockSyncRequest(), timeout=SECONDS)
    job.client.UnaryPing(ws_common_pb2.PingRequest(), timeout=SECONDS)
