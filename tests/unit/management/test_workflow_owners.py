"""Nobody gets at what a workflow of somebody else keeps, nor changes its jobs."""

from functools import partial

import pytest

from appliance.core.cluster.access import UserRole
from appliance.core.cluster.records import User
from appliance.core.errors import ForbiddenError
from appliance.core.ids import JobId, WorkflowId
from appliance.management.access.allowances import Allowances
from appliance.management.access.workflow_owners import WorkflowOwners
from appliance.management.jobs.job_service import JobService
from appliance.management.rpc.access_edge import Gate
from appliance.management.store.state import State
from appliance.storage.engine.database import Database
from appliance.wire.caller import caller
from appliance.wire.connections.accepted import Accepted
from protos.appliance.common_config_pb2 import DebugArgs
from protos.cluster import cluster_pb2 as pb
from tests.support.management import new_job
from tests.unit.management.test_access import make_access

SERVICE = "/cluster.cluster_mgmt_pb.ClusterManagement"
ADA, EVE = User(uid=1000, gid=100, name="ada"), User(uid=1001, gid=101, name="eve")
FLOW = WorkflowId("wflow-of-ada")


@pytest.fixture
def database(tmp_path):
    database = Database.open_sqlite(tmp_path / "state.db")
    yield database
    database.close()


@pytest.fixture
def state(database, clock):
    state = State.over(database, clock)
    state.sessions.ensure()
    return state


@pytest.fixture
def ask(state, database, clock):
    """Return what asks the gate whether a user may make a call."""
    access = make_access(database, clock, needs_token=True)
    tokens = {}
    for user in (ADA, EVE):
        access.create_account(user.name, uid=user.uid, gid=user.gid, role=UserRole.USER)
        tokens[user] = access.tokens.mint(user.name).text
    gate = Gate(access, state, None, Allowances(clock), None)

    def ask(user, method, request, workflow=""):
        metadata = (("auth-token", tokens[user]), ("workflow-id", workflow))
        entered = gate.enter_call(f"{SERVICE}/{method}", caller(metadata), Accepted(uid=0))
        with entered.hold:
            gate.decide(entered, partial(getattr, request), entry_point="grpc", detail=method)

    return ask


def naming(request_type, workflow):
    debug_args = DebugArgs()
    debug_args.debug_mgr.workflow_id = workflow
    return request_type(debug_args=debug_args)


REQUESTS = {
    "InitCompileJob": pb.CompileJobRequest,
    "InitExecuteJob": pb.ExecuteJobRequest,
    "InitSdkCompileJob": pb.SdkCompileJobRequest,
    "InitSdkExecuteJob": pb.SdkExecuteJobRequest,
}


@pytest.mark.parametrize("method", REQUESTS)
def test_no_job_gets_into_a_workflow_of_somebody_else(state, ask, method):
    state.workflows.ensure(FLOW, session="job-operator", user=ADA, reserves_resources=True)
    by_request, unnamed = naming(REQUESTS[method], FLOW), REQUESTS[method]()
    for request, by_metadata in ((by_request, ""), (unnamed, FLOW), (by_request, "wflow-of-eve")):
        with pytest.raises(ForbiddenError, match=f"may not use workflow {FLOW}"):
            ask(EVE, method, request, by_metadata)
        ask(ADA, method, request, by_metadata)
    ask(EVE, method, unnamed, "wflow-of-eve")


def test_who_names_a_new_workflow_first_has_it_before_it_is_kept(ask):
    ask(ADA, "InitExecuteJob", naming(pb.ExecuteJobRequest, FLOW))
    with pytest.raises(ForbiddenError, match=FLOW):
        ask(EVE, "InitExecuteJob", naming(pb.ExecuteJobRequest, FLOW))


@pytest.mark.parametrize(
    ("method", "request_type"),
    [
        ("ReserveJobResources", pb.ReserveJobResourcesRequest),
        ("ReleaseJobResources", pb.ReleaseJobResourcesRequest),
    ],
)
def test_a_job_that_got_into_another_users_workflow_does_not_reserve_there(
    state, ask, method, request_type
):
    """As jobs of before this rule may have."""
    state.workflows.ensure(FLOW, session="job-operator", user=ADA)
    state.jobs.create(new_job("wsjob-e", workflow=FLOW, user=EVE))
    state.jobs.create(new_job("wsjob-a", workflow=FLOW, user=ADA))
    with pytest.raises(ForbiddenError, match=f"workflow {FLOW}"):
        ask(EVE, method, request_type(job_id="wsjob-e"))
    ask(ADA, method, request_type(job_id="wsjob-a"))


def test_a_priority_is_for_ones_own_jobs_of_a_workflow(state):
    state.jobs.create(new_job("wsjob-e", workflow=FLOW, user=EVE))
    state.jobs.create(new_job("wsjob-a", workflow=FLOW, user=ADA))
    jobs = JobService.__new__(JobService)
    jobs._state = state
    found = jobs.of_workflow(state.jobs.load(JobId("wsjob-e")))
    assert [job.id for job in found] == ["wsjob-e"]


def test_two_who_name_a_new_workflow_at_once_are_not_both_the_first():
    owners = None

    def find(workflow):
        """Be so slow that the other one is through."""
        if not asked:
            asked.append(workflow)
            assert owners.owner_of(workflow, EVE) == EVE

    asked = []
    owners = WorkflowOwners(find)
    assert owners.owner_of(FLOW, ADA) == EVE
