"""Every field of what pods are told is given by management, read by the pod, and kept as text."""

import ast
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.requirements import PodDemand, Requirements
from appliance.core.errors import InternalError
from appliance.core.ids import Role
from appliance.core.plans.plan import Precision
from appliance.core.plans.shard_count import MemoryNodes
from appliance.core.pods.options_text import VERSION, VERSION_KEY, read_options, write_options
from appliance.core.pods.pod_options import (
    OPTIONS_OF_ROLE,
    CoordinatorPodOptions,
    PodOptions,
    SdkPodOptions,
)
from appliance.management.pods import pod_specs
from appliance.management.pods.pod_specs import plan_pods
from tests.unit.management.test_pod_specs import POD_ENVIRONMENT, RUNS, record

ROOT = Path(__file__).parents[2]
KINDS: tuple[type[PodOptions], ...] = (*OPTIONS_OF_ROLE.values(), SdkPodOptions)
PROGRAMS = {
    SdkPodOptions: "workers/sdk",
    OPTIONS_OF_ROLE[Role.COORDINATOR]: "appliance/coordinator",
    OPTIONS_OF_ROLE[Role.WEIGHT]: "workers/memoryx",
    OPTIONS_OF_ROLE[Role.BROADCASTREDUCE]: "workers/swarmx",
    OPTIONS_OF_ROLE[Role.CHIEF]: "workers/csx",
    OPTIONS_OF_ROLE[Role.ACTIVATION]: "workers/input",
    OPTIONS_OF_ROLE[Role.WORKER]: "workers/input",
    OPTIONS_OF_ROLE[Role.DRIVER]: "workers/driver",
}
SHARED = (
    "appliance/core/pods/pod_spec.py",
    "appliance/pods",
    "appliance/streams",
    "appliance/cluster",
    "appliance/observability",
)
NODES_OWN = {"stream_host", "path", "user_variables", "redacted_variables"}
"""Given by the node of a pod, once it knows its address (`PodSpec.at`), and by the launcher that
knows its image and its container (`manifests.fitted`)."""


def by_kind(kinds=KINDS):
    return pytest.mark.parametrize("kind", kinds, ids=lambda kind: kind.__name__)


def attributes_in(directory: str) -> set[str]:
    """Return every attribute that the modules of a directory read."""
    return {
        node.attr
        for path in sorted((ROOT / directory).rglob("*.py")) or [ROOT / directory]
        if not path.stem.endswith(("_pb2", "_pb2_grpc"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


def given() -> Iterator[PodOptions]:
    """Yield what pods of all jobs are told, however the appliance is set up."""
    demands = tuple(PodDemand(role=role, memory_bytes=7) for role in pod_specs.POD_KINDS.values())
    planned = tuple((role, 7) for role in Role)
    requirements = Requirements(num_shards=2, fan_out=2, pods=demands, planned_memory=planned)
    around = replace(
        POD_ENVIRONMENT,
        runs=replace(
            RUNS,
            streams="network",
            precision="exact",
            csx_device="cuda",
            stall_seconds=5.0,
            memoryx_gib=1.0,
            keep_weights_gib=1.0,
        ),
        is_remote=True,
        otlp="http://here",
        stream_identity=Path("/i"),
        stream_secret=b"s",
        tls_cert=Path("/c"),
        tls_key=Path("/k"),
        bind_host="10.0.0.1",
        public_host="here",
        client_config=Path("/f"),
        memory_nodes=MemoryNodes(num_nodes=2, node_bytes=3),
    )
    mapped = replace(around, runs=RUNS, is_remote=False)
    for type_ in JobType:
        job = replace(
            record(type_, num_systems=3, workers=2),
            requirements=requirements,
            systems=("a", "b"),
            service_authority="secret",
            client_release="2.6.0",
        )
        job = replace(job, user=replace(job.user, uid=5, gid=6, name="ada"))
        driver = "{}" if type_ is JobType.DRIVER else ""
        nodes = {f"weight-{index}": "n" for index in range(2)}
        for place in ({}, nodes):
            for pod_context in (around, mapped):
                pods = plan_pods(
                    job, Path("/run/j"), pod_context, place, driver=driver, trace="00-1-2-01"
                )
                yield from (pod.options for pod in pods)


@by_kind()
def test_management_gives_every_field_of_a_role(kind) -> None:
    told, plain = [each for each in given() if type(each) is kind], kind()
    left = {
        each.name
        for each in fields(kind)
        if all(getattr(one, each.name) == getattr(plain, each.name) for one in told)
    }
    # What is as with everybody else, or is told of all nodes by `PodSpec.at`.
    expected = NODES_OWN | (
        {"job_type"} if kind not in (SdkPodOptions, CoordinatorPodOptions) else set()
    )
    assert left - expected - WITHOUT.get(kind.__name__, set()) == set()


WITHOUT = {
    "DriverPodOptions": {"torch_threads", "pod_memory_bytes", "job_type"},
    "SdkPodOptions": {"torch_threads"},
    "WeightPodOptions": {"pod_memory_bytes"},
}
"""Fields of all pods that have no meaning for some: a driver's script and an SDK job's programs
compute with what they like, and the memory of MemoryX is its node group's."""


@by_kind()
def test_a_pod_reads_every_field_that_it_is_told(kind) -> None:
    read = attributes_in(PROGRAMS[kind]).union(*map(attributes_in, SHARED))
    assert {each.name for each in fields(kind)} - read == set()


def test_options_come_back_from_their_text() -> None:
    seen = set()
    for options in given():
        role = next(
            r
            for r, kind in OPTIONS_OF_ROLE.items()
            if isinstance(options, kind)
            or (r is Role.COORDINATOR and isinstance(options, SdkPodOptions))
        )
        assert read_options(role, write_options(options)) == options
        seen.add(type(options))
    assert seen == set(KINDS)


def test_specs_from_before_there_were_versions_are_read() -> None:
    texts = {
        "job_type": "compile",
        "request_path": "/r",
        "compile_root": "/c",
        "service_authority": "secret",
        "user_uid": "",
        "user_gid": "100",
        "wafer_bytes": "",
        "tls_cert": "",
        "precision": "exact",
        "stall_seconds": "630",
        "memory_nodes": "2,5",
        "streams": "ring",
        "torch_threads": "1",
    }
    options = read_options(Role.COORDINATOR, texts)
    assert isinstance(options, CoordinatorPodOptions)
    assert (options.user_uid, options.user_gid, options.tls_cert) == (None, 100, None)
    assert (options.precision, options.wafer_bytes) == (Precision.EXACT, None)
    assert options.memory_nodes == MemoryNodes(num_nodes=2, node_bytes=5)
    chief = read_options(Role.CHIEF, {"pace": "", "device": "cuda", "job_type": "execute"})
    assert (chief.pace, chief.device) == (0.0, "cuda")  # type: ignore[attr-defined]


def test_options_of_a_later_version_are_refused_with_both_versions() -> None:
    with pytest.raises(InternalError, match=f"version {VERSION + 1}; .* up to {VERSION}"):
        read_options(Role.CHIEF, {VERSION_KEY: str(VERSION + 1)})
    with pytest.raises(InternalError, match="option pace cannot be 'fast'"):
        read_options(Role.CHIEF, {"pace": "fast"})


def test_secrets_are_not_shown() -> None:
    for options in given():
        text = repr(options)
        assert "secret" not in text, text
