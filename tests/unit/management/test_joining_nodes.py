"""Jobs while nodes come and go: they wait and are told for what."""

from appliance.management.cluster.cluster_model import ClusterModel
from appliance.management.reconciler.scheduling.dispatcher import snapshot_of
from appliance.scheduler.fair_share import UsageLedger
from appliance.scheduler.policy import Policy
from tests.support.management import make_model, opened_state
from tests.support.scheduling import admitted, compile_, cycle, execute
from tests.unit.management.test_pod_placement import view

HEAD = view("head", "management", "memory", "broadcastreduce")
SYSTEM = view("csx-0", "activation")
INPUT = view("input", "worker")


def snapshot(state, *joined):
    make_model(state, num_systems=2)
    facts = ClusterModel(state, lambda: joined).facts
    usage = UsageLedger(Policy().half_life_seconds)
    return snapshot_of(facts, (), now_seconds=0.0, usage=usage, policy=Policy())


def test_an_execute_job_waits_for_a_role_that_no_node_has_and_a_compile_does_not(tmp_path):
    with opened_state(tmp_path) as state:
        outcome = cycle(snapshot(state, HEAD, SYSTEM), [execute("run", 1), compile_("compile")])
        assert set(admitted(outcome)) == {"compile"}
        away = "out of service: systemf0, systemf1 (no node with role worker has joined)"
        assert away in outcome.waits["run"].reason
        outcome = cycle(snapshot(state, HEAD, SYSTEM, INPUT), [execute("run", 1)])
        assert set(admitted(outcome)) == {"run"}


def test_a_job_too_large_for_the_nodes_that_are_there_waits_for_others(tmp_path):
    with opened_state(tmp_path) as state:
        outcome = cycle(snapshot(state, HEAD, SYSTEM, INPUT), [compile_("large", memory_gib=64)])
        assert outcome.decisions == ()
        assert "nodes out of service" in outcome.waits["large"].reason
