"""Every option that management gives a pod is read by that pod, and every one read is given."""

import ast
import importlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.pods import CLIENT_CONFIG_OPTION, MEMORY_OPTION
from appliance.core.cluster.requirements import PodDemand, Requirements
from appliance.core.ids import Role
from appliance.management.pods import pod_specs
from appliance.management.pods.pod_specs import plan_pods
from tests.unit.management.test_gang import RUNS, SURROUNDINGS, record

ROOT = Path(__file__).parents[2]
SDK = "sdk"
"""Stands for the role of an SDK job's pod, which has another program than coordinators have."""
PROGRAMS: dict[str, str] = {
    SDK: "workers/sdk",
    Role.COORDINATOR: "appliance/coordinator",
    Role.WEIGHT: "workers/memoryx",
    Role.BROADCASTREDUCE: "workers/swarmx",
    Role.CHIEF: "workers/csx",
    Role.ACTIVATION: "workers/input",
    Role.WORKER: "workers/input",
    Role.DRIVER: "workers/driver",
}
SHARED = ("appliance/pods", "appliance/user_code", "appliance/streams", "appliance/cluster")
SHARED += ("appliance/observability", "appliance/wire", "appliance/core")
COMMON = {"job_type", "num_systems", "workers_per_system", "num_shards", "request_path"}
COMMON |= {"precision", "user_uid", "user_gid", "streams", "stall_seconds"}
"""Given to all pods of a job alike, whether they ask or not."""


def constants(module: str) -> dict[str, object]:
    return vars(importlib.import_module(module))


def read_in(directory: str) -> set[str]:
    """Return the options that the modules of a directory look up in a spec."""
    found: set[str] = set()
    for path in sorted((ROOT / directory).rglob("*.py")):
        if path.stem.endswith(("_pb2", "_pb2_grpc")):
            continue
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for key in keys_of(ast.parse(path.read_text())):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                found.add(key.value)
            elif isinstance(key, ast.Name) and key.id.isupper():
                found.add(str(constants(module)[key.id]))
    return found


def keys_of(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield what `options[...]` and `options.get(...)` are asked for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and is_options(node.value):
            yield node.slice
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and is_options(node.func.value)
        ):
            yield node.args[0]


def is_options(node: ast.expr) -> bool:
    return "options" in (getattr(node, "id", ""), getattr(node, "attr", ""))


def given(role: str) -> set[str]:
    """Return the options of a role's pods, of whatever job and however the appliance is set up."""
    demand = PodDemand(role="management", memory_bytes=1)
    requirements = Requirements(num_shards=2, pods=(demand,))
    keys: set[str] = {MEMORY_OPTION}
    networked = replace(RUNS, streams="network")
    for type_ in JobType:
        job = replace(record(type_, num_systems=2, workers=1), requirements=requirements)
        pods = plan_pods(
            job,
            Path("/run/j"),
            replace(SURROUNDINGS, runs=networked, is_remote=True, otlp="http://here"),
            driver="{}" if type_ is JobType.DRIVER else "",
        )
        for pod in pods:
            if (SDK if type_.is_sdk else pod.role) == role:
                keys |= set(pod.at("10.0.0.1").options)
    return keys


@pytest.fixture(autouse=True)
def traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every job is traced."""
    monkeypatch.setattr(pod_specs, "place_of_job", lambda _: ("00-1-2-01", ""))


def shared() -> set[str]:
    return set().union(*map(read_in, SHARED)) | {CLIENT_CONFIG_OPTION}


@pytest.mark.parametrize("role", list(PROGRAMS))
def test_a_pod_reads_no_option_that_nobody_gives_it(role: str) -> None:
    assert sorted(read_in(PROGRAMS[role]) - given(role)) == []


@pytest.mark.parametrize("role", list(PROGRAMS))
def test_a_pod_is_given_no_option_that_it_does_not_read(role: str) -> None:
    assert sorted(given(role) - read_in(PROGRAMS[role]) - shared() - COMMON) == []


def test_what_is_common_to_all_pods_is_read_by_some() -> None:
    read = shared().union(*map(read_in, PROGRAMS.values()))
    assert sorted(COMMON - read) == []
