"""A cluster is described in YAML, and a mistake in it is named."""

import pytest

from appliance.core.cluster.requirements import GroupKind
from appliance.core.errors import UserError
from appliance.management.cluster.cluster_file import describe_cluster, parse_cluster, write_cluster
from appliance.management.cluster.inventory import simulated_cluster

TEXT = """
systems:
  - {count: 2, block: leaf0}
  - {name: systemf9}
node_groups:
  - {count: 2, kind: large, nodes: 12, memory: 1128Gi, cores: 64}
  - {name: small, memory: 183Gi, cores: 32}
nodes:
  - {role: management, memory: 125Gi, cores: 64}
  - {roles: [activation, worker], count: 2, memory: 128Gi, cores: 32}
  - {role: activation, memory: 1024, cores: 1}
pod_memory: {compile: 67Gi, execute: 32Gi}
"""


def test_a_file_describes_systems_nodes_groups_and_memory():
    cluster = parse_cluster(TEXT, source="c.yaml")
    assert [(s.name, s.block) for s in cluster.systems] == [
        ("systemf0", "leaf0"),
        ("systemf1", "leaf0"),
        ("systemf9", ""),
    ]
    assert [(g.name, g.kind, g.num_nodes) for g in cluster.node_groups] == [
        ("nodegroup0", GroupKind.LARGE, 12),
        ("nodegroup1", GroupKind.LARGE, 12),
        ("small", GroupKind.REGULAR, 1),
    ]
    assert [n.name for n in cluster.nodes] == [
        "management-0",
        "activation-0",
        "activation-1",
        "activation-2",
    ]
    assert cluster.nodes[0].memory_bytes == 125 * 2**30
    assert cluster.pod_memory_bytes == {"compile": 67 * 2**30, "execute": 32 * 2**30}


def test_what_is_written_is_read_back():
    cluster = parse_cluster(TEXT, source="c.yaml")
    assert describe_cluster(write_cluster(cluster), source="again") == cluster


def test_the_cluster_of_one_machine_is_read_back_too():
    cluster = simulated_cluster(2)
    assert describe_cluster(write_cluster(cluster), source="again") == cluster


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "c.yaml holds no mapping"),
        ("systems: [{count: 2", "c.yaml is no YAML"),
        ("{}", "describes 0 systems"),
        ("systems: 3", "systems is no list"),
        ("systems: [3]", r"systems\[0\] is 3"),
        ("systems: [{}]\nnode: []", "no key 'node'"),
        ("systems: [{count: 0}]", r"systems\[0\].count is 0; .* from 1 to"),
        ("systems: [{count: true}]", "count is True"),
        ("systems: [{name: A_b}]", "name is 'A_b'"),
        ("systems: [{name: a, count: 2}]", "both a name and a count"),
        ("systems: [{name: a}, {name: a}]", "name 'a' 2 times"),
        ("systems: [{}]\nnodes: [{cores: 1, memory: 1Gi}]", r"nodes\[0\].roles is \[\]"),
        ("systems: [{}]\nnodes: [{role: memory}]", "roles is"),
        ("systems: [{}]\nnodes: [{role: worker, cores: 1}]", "memory is missing"),
        ("systems: [{}]\nnodes: [{role: worker, cores: 1, memory: 3GB}]", "memory is '3GB'"),
        ("systems: [{}]\nnode_groups: [{kind: huge}]", "kind is 'huge'"),
        ("systems: [{}]\npod_memory: {weight: 1Gi}", "no key 'weight'"),
    ],
)
def test_a_mistake_is_named_with_its_place(text, message):
    with pytest.raises(UserError, match=message):
        parse_cluster(text, source="c.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 2000 + "]" * 2000,
        "".join(" " * depth + "a:\n" for depth in range(2000)),
        "systems: " + "9" * 6000,
        "systems: 9999-99-99",
        "systems: 2001-01-01T25:61:61Z",
    ],
    ids=["brackets", "mappings", "digits", "day", "time"],
)
def test_a_text_that_yaml_itself_cannot_take_is_refused_by_name(text):
    with pytest.raises(UserError, match=r"^c\.yaml is no YAML: "):
        parse_cluster(text, source="c.yaml")
