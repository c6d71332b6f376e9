import json

import pytest
import yaml

from csctl.output.documents.document import as_json, to_document, to_list
from csctl.output.documents.output_formats import as_yaml
from protos.csctl.resources_pb2 import NodeGroupRoleStatus, NodeGroupStatus, NodeInfo
from tests.support.csctl import add_pods, make_job


def test_a_job_document_has_the_documented_keys() -> None:
    document = to_document(make_job("wsjob-a", systems=("s0",), labels={"model": "gpt"}))

    assert document["meta"]["name"] == "wsjob-a"
    assert document["meta"]["type"] == "job"
    assert document["meta"]["labels"] == {"model": "gpt"}
    assert document["meta"]["createTime"] == "2026-03-04T11:00:00Z"
    assert document["spec"]["user"]["uid"] == 60001
    assert document["spec"]["volumeMounts"] == []
    assert document["status"]["phase"] == "RUNNING"
    assert document["status"]["systems"] == ["s0"]


def test_the_first_phase_and_empty_lists_are_written_out() -> None:
    document = to_document(make_job("wsjob-a", phase="CREATED"))

    assert document["status"]["phase"] == "CREATED"
    assert document["status"]["systems"] == []
    assert document["meta"]["labels"] == {}


def test_a_field_with_a_priority_shows_from_that_debug_level_on() -> None:
    job = make_job("wsjob-a")
    add_pods(job, "weight", 1)
    job.meta.field_priority["status.replicas"] = 2
    job.meta.field_priority["status.nothing.there"] = 1

    assert "replicas" not in to_document(job, debug=1)["status"]
    assert len(to_document(job, debug=2)["status"]["replicas"]) == 1
    assert "fieldPriority" not in to_document(job)["meta"]


def test_json_and_yaml_say_the_same() -> None:
    document = to_list([make_job("wsjob-a"), make_job("wsjob-b")])

    assert json.loads(as_json(document)) == document == yaml.safe_load(as_yaml(document))
    assert [item["meta"]["name"] for item in document["items"]] == ["wsjob-a", "wsjob-b"]


@pytest.mark.parametrize(
    ("told", "number"),
    [("P2 (299)", 299), ("P0 (0)", 0), ("150", 150), ("", ""), ("soon", "soon")],
)
def test_a_priority_is_a_number(told: str, number: int | str) -> None:
    job = make_job("wsjob-a", labels={"priority": told})
    job.spec.priority = told
    document = to_document(job)
    assert document["spec"]["priority"] == number
    assert document["meta"]["labels"]["priority"] == told


@pytest.mark.parametrize(
    ("told", "number"),
    [("24098Mi", 24098 * 2**20), ("1Ti", 2**40), ("3Gi", 3 * 2**30), ("7Ki", 7168), ("", "")],
)
def test_memory_is_a_number_of_bytes(told: str, number: int | str) -> None:
    node = NodeInfo(memory_capacity=told, memory_allocatable=told, memory_use_percentage=12.5)
    document = to_document(node)
    assert document["memoryCapacity"] == document["memoryAllocatable"] == number
    assert document["memoryUsePercentage"] == 12.5
    group = NodeGroupStatus(role_status={"memory": NodeGroupRoleStatus(memory_capacity=told)})
    assert to_document(group)["roleStatus"]["memory"]["memoryCapacity"] == number
