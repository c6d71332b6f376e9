"""Which job a submission that comes again gets."""

import pytest

from appliance.management.jobs.submissions import REPEAT_SECONDS, RepeatedCalls, digest_of
from appliance.wire.caller import caller
from appliance.wire.requests.submissions import compile_submission, execute_submission
from protos.appliance.common_config_pb2 import JobMode
from protos.cluster.cluster_pb2 import CompileJobRequest
from tests.support.appliance_process import USER, execute_request
from tests.support.management import new_job

FIRST = caller(USER)
REPEAT = caller((*USER, ("grpc-previous-rpc-attempts", "1")))


@pytest.fixture
def repeats(state):
    return RepeatedCalls(state)


def keep(state, name, digest="d"):
    job = state.jobs.create(new_job(name, request_digest=digest))
    state.leases.grant(job.id, seconds=600)
    return job


def test_a_repeat_gets_the_newest_job_of_the_same_request(state, repeats):
    for name in ("wsjob-a", "wsjob-b"):
        keep(state, name)
    keep(state, "wsjob-c", digest="another")
    assert repeats.find_first("d", REPEAT).id == "wsjob-b"
    assert repeats.find_first("e", REPEAT) is None


def test_a_first_attempt_gets_a_job_of_its_own(state, repeats):
    keep(state, "wsjob-a")
    assert repeats.find_first("d", FIRST) is None


def test_a_job_of_an_attempt_that_is_yet_to_be_committed_is_found(state, repeats):
    with state.database.batch():
        with state.database.step():
            keep(state, "wsjob-a")
        with state.database.step():
            assert repeats.find_first("d", REPEAT).id == "wsjob-a"


def test_a_job_that_its_client_knows_of_is_not_the_one_that_is_sought(state, repeats):
    keep(state, "wsjob-a")
    repeats.client_knows("wsjob-a")
    assert repeats.find_first("d", REPEAT) is None


def test_a_job_that_is_too_old_is_not_the_one_that_is_sought(state, repeats, clock):
    keep(state, "wsjob-a")
    clock.advance(REPEAT_SECONDS + 1)
    assert repeats.find_first("d", REPEAT) is None


def test_the_digest_is_of_the_request_and_of_who_sends_it_and_not_of_the_attempt():
    request = execute_request(2, 1)
    request.debug_args.debug_mgr.labels.update({f"key{number}": "x" for number in range(20)})
    digest = digest_of(execute_submission(request), FIRST)
    assert digest_of(execute_submission(type(request).FromString(wire(request))), REPEAT) == digest
    assert digest_of(execute_submission(execute_request(1, 1)), FIRST) != digest
    other = caller((*USER[1:], ("auth-uid", "1001")))
    assert digest_of(execute_submission(request), other) != digest
    in_workflow = caller((*USER, ("workflow-id", "wflow-1")))
    assert digest_of(execute_submission(request), in_workflow) != digest


def test_a_compile_job_is_not_taken_for_an_execute_job():
    request = CompileJobRequest(job_mode=JobMode(job=JobMode.COMPILE))
    one = digest_of(compile_submission(request), FIRST)
    assert one != digest_of(execute_submission(execute_request(1, 1)), FIRST)


def wire(request):
    """Return a request as bytes whose maps are in another order than they were written in."""
    copy = type(request).FromString(request.SerializeToString())
    labels = dict(copy.debug_args.debug_mgr.labels)
    copy.debug_args.debug_mgr.labels.clear()
    for key in reversed(labels):
        copy.debug_args.debug_mgr.labels[key] = labels[key]
    return copy.SerializeToString()
