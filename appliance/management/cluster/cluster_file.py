"""The description of a cluster in YAML: read with clear errors, and written back.

    systems:
      - {count: 4, block: leaf0}            # systemf0 to systemf3
      - {name: systemf9}
    node_groups:                            # MemoryX; kind is regular, large or xlarge
      - {count: 2, kind: large, nodes: 12, memory: 1128Gi, cores: 64}
    nodes:                                  # management, activation, worker, broadcastreduce
      - {role: management, count: 1, memory: 503Gi, cores: 64}
      - {roles: [activation, worker], count: 2, memory: 128Gi, cores: 32}
    pod_memory: {compile: 90Gi, execute: 90Gi}

`count` makes so many alike, named by number; `name` names one. `pod_memory` is what a pod counts
for unless its job says otherwise: compile, execute (coordinators), activation, broadcastreduce,
chief, worker.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from appliance.core.cluster.requirements import NODE_ROLES, GroupKind
from appliance.core.cluster.systems import POD_KINDS, ClusterDescription, Node, NodeGroup, System
from appliance.core.errors import UserError

MAX_ALIKE = 4096
"""At most so many of one entry; more is a slip of the pen."""

_UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
_SECTIONS = ("systems", "node_groups", "nodes", "pod_memory")

# `Any`: what YAML holds is known once it has been checked, which this module is for.
_Entry = Mapping[str, Any]


def parse_cluster(text: str, *, source: str) -> ClusterDescription:
    """Return the cluster that a YAML text describes.

    Args:
        text: The text.
        source: Where it comes from, for messages.

    Raises:
        UserError: It describes none; the message names the entry and what is wrong with it.
    """
    try:
        content = yaml.safe_load(text)
    # The first for a number of too many digits or a day that is none, the second for deep nesting.
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise UserError(f"{source} is no YAML: {' '.join(str(error).split())}.") from error
    return describe_cluster(content, source=source)


def describe_cluster(content: object, *, source: str) -> ClusterDescription:
    """Return the cluster that a mapping describes, as YAML or JSON hold it.

    Raises:
        UserError: It describes none.
    """
    if not isinstance(content, Mapping):
        raise UserError(f"{source} holds no mapping.", hint=f"Its keys are {', '.join(_SECTIONS)}.")
    _refuse_unknown(content, _SECTIONS, source)
    description = ClusterDescription(
        systems=tuple(_systems(_entries(content, "systems", source))),
        nodes=tuple(_nodes(_entries(content, "nodes", source))),
        node_groups=tuple(_groups(_entries(content, "node_groups", source))),
        pod_memory_bytes=_pod_memory(content.get("pod_memory") or {}, source),
    )
    if not description.systems:
        raise UserError(
            f"{source} describes 0 systems; a cluster has at least 1.",
            hint="Write, for example, `systems: [{count: 2}]`.",
        )
    for kind, names in (
        ("systems", [system.name for system in description.systems]),
        (
            "nodes and node_groups",
            [n.name for n in description.nodes] + [g.name for g in description.node_groups],
        ),
    ):
        _refuse_doubles(names, f"{source}: {kind}")
    return description


def write_cluster(description: ClusterDescription) -> dict[str, Any]:
    """Return the mapping that `describe_cluster` reads, one entry for each object."""
    return {
        "systems": [
            {"name": system.name, **({"block": system.block} if system.block else {})}
            for system in description.systems
        ],
        "node_groups": [
            {
                "name": group.name,
                "kind": group.kind.name.lower(),
                "nodes": group.num_nodes,
                "memory": group.memory_bytes,
                "cores": group.num_cores,
            }
            for group in description.node_groups
        ],
        "nodes": [
            {
                "name": node.name,
                "roles": list(node.roles),
                "memory": node.memory_bytes,
                "cores": node.num_cores,
            }
            for node in description.nodes
        ],
        "pod_memory": dict(description.pod_memory_bytes),
    }


def _systems(entries: Sequence[tuple[str, _Entry]]) -> Iterator[System]:
    for name, where, entry in _named(entries, "systemf", ("name", "count", "block")):
        block = entry.get("block", "")
        if not isinstance(block, str):
            raise _wrong(where, "block", block, "the name of a block, such as leaf0")
        yield System(name=name, block=block)


def _groups(entries: Sequence[tuple[str, _Entry]]) -> Iterator[NodeGroup]:
    keys = ("name", "count", "kind", "nodes", "memory", "cores")
    for name, where, entry in _named(entries, "nodegroup", keys):
        kind = str(entry.get("kind", "regular"))
        if kind.upper() not in GroupKind.__members__:
            raise _wrong(where, "kind", kind, "regular, large or xlarge")
        yield NodeGroup(
            name=name,
            kind=GroupKind[kind.upper()],
            num_nodes=_count(where, entry, "nodes", default=1),
            num_cores=_count(where, entry, "cores"),
            memory_bytes=_size(where, "memory", entry.get("memory")),
        )


def _nodes(entries: Sequence[tuple[str, _Entry]]) -> Iterator[Node]:
    allowed = [role for role in NODE_ROLES if role != "memory"]
    counts: dict[str, int] = {}
    for where, entry in entries:
        roles = entry.get("roles", [entry["role"]] if "role" in entry else [])
        # A node that is everything is MemoryX too; nodes that are nothing else are node groups.
        is_known = isinstance(roles, list) and all(role in NODE_ROLES for role in roles)
        if not is_known or set(roles) <= {"memory"}:
            raise _wrong(where, "roles", roles, f"some of {', '.join(allowed)}")
        keys = ("name", "count", "role", "roles", "memory", "cores")
        first = counts.get(roles[0], 0)
        made = list(_named([(where, entry)], f"{roles[0]}-", keys, first=first))
        counts[roles[0]] = first + len(made)
        for name, _, _ in made:
            yield Node(
                name=name,
                roles=tuple(roles),
                num_cores=_count(where, entry, "cores"),
                memory_bytes=_size(where, "memory", entry.get("memory")),
            )


def _pod_memory(content: object, source: str) -> dict[str, int]:
    where = f"{source}: pod_memory"
    if not isinstance(content, Mapping):
        raise UserError(f"{where} holds no mapping.", hint=f"Its keys are {', '.join(POD_KINDS)}.")
    _refuse_unknown(content, tuple(POD_KINDS), where)
    return {kind: _size(where, kind, amount) for kind, amount in content.items()}


def _named(
    entries: Sequence[tuple[str, _Entry]], prefix: str, keys: Sequence[str], *, first: int = 0
) -> Iterator[tuple[str, str, _Entry]]:
    """Yield a name, its place in the file and its entry for each object that entries make."""
    number = first
    for where, entry in entries:
        _refuse_unknown(entry, keys, where)
        if "name" in entry and "count" in entry:
            raise UserError(f"{where} has both a name and a count; a name is for one.")
        if "name" in entry:
            name = entry["name"]
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                hint = "1 to 63 lower-case letters, digits, '-' and '.'"
                raise _wrong(where, "name", name, hint)
            yield name, where, entry
            continue
        for _ in range(_count(where, entry, "count", default=1)):
            yield f"{prefix}{number}", where, entry
            number += 1


def _entries(content: _Entry, key: str, source: str) -> Sequence[tuple[str, _Entry]]:
    found = content.get(key) or []
    if not isinstance(found, list):
        raise UserError(f"{source}: {key} is no list.", hint=f"Write `{key}: [{{...}}]`.")
    entries = [(f"{source}: {key}[{index}]", entry) for index, entry in enumerate(found)]
    for where, entry in entries:
        if not isinstance(entry, Mapping):
            raise UserError(f"{where} is {entry!r}; an entry is a mapping, as in {{count: 2}}.")
    return entries


def _count(where: str, entry: _Entry, key: str, *, default: int | None = None) -> int:
    value = entry.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_ALIKE:
        raise _wrong(where, key, value, f"a whole number from 1 to {MAX_ALIKE}")
    return value


def _size(where: str, key: str, value: object) -> int:
    match = re.fullmatch(r"([0-9]+)([KMGT]i)?", str(value))
    if match is None or isinstance(value, bool):
        raise _wrong(where, key, value, "bytes, or a number with Ki, Mi, Gi or Ti, as in 67Gi")
    return int(match[1]) * _UNITS[match[2] or ""]


def _wrong(where: str, key: str, value: object, wanted: str) -> UserError:
    said = "is missing" if value is None else f"is {value!r}"
    return UserError(f"{where}.{key} {said}; it has to be {wanted}.")


def _refuse_unknown(entry: _Entry, keys: Sequence[str], where: str) -> None:
    for key in entry:
        if key not in keys:
            raise UserError(f"{where} has no key {key!r}.", hint=f"Keys are {', '.join(keys)}.")


def _refuse_doubles(names: Sequence[str], where: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"{where} name {name!r} {names.count(name)} times; names are unique.")
