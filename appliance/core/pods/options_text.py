"""A pod's options as text, in its spec, and back: every field by its name.

A spec outlives the management that wrote it, and a fork server or an agent may be of another
release than management. So a missing field has its default, and an unknown one is ignored.
`VERSION` rises when the meaning or the text of a field changes; a reader refuses specs of a later
version than it knows with an error, instead of misreading them.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

from appliance.core.cluster.jobs import JobType
from appliance.core.errors import InternalError
from appliance.core.ids import Role
from appliance.core.plans.shard_count import MemoryNodes
from appliance.core.pods.pod_options import PodOptions, options_type

VERSION = 1
"""0, which is not written, stands for the specs from before there were versions: same texts."""

VERSION_KEY = "options_version"

_TUPLE = tuple[str, ...]
_READERS: Mapping[Any, Callable[[str], object]] = {  # `Any`: types are keys
    str: str,
    int: int,
    float: float,
    Path: Path,
    _TUPLE: lambda text: tuple(filter(None, text.split(","))),
    MemoryNodes: MemoryNodes.parse,
}


def write_options(options: PodOptions) -> Mapping[str, str]:
    """Return the options as texts by the names of their fields; what is None is left out."""
    values = {each.name: getattr(options, each.name) for each in fields(options)}
    texts = {name: _text(value) for name, value in values.items() if value is not None}
    return {VERSION_KEY: str(VERSION), **texts}


def read_options(role: Role, texts: Mapping[str, str]) -> PodOptions:
    """Return the options that `write_options` wrote, or an earlier release's.

    Raises:
        InternalError: They are of a later version, or a text is none of its field.
    """
    version = int(texts.get(VERSION_KEY) or 0)
    if version > VERSION:
        raise InternalError(
            f"A {role.value} pod is told its options in version {version}; this program knows "
            f"versions up to {VERSION}.",
            hint="Give all nodes the release of management.",
        )
    kind = options_type(role, JobType(texts.get("job_type") or JobType.EXECUTE))
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}  # `Any`: each has the type of its field
    for name, type_ in hints.items():
        if text := texts.get(name, ""):
            values[name] = _value(type_, name, text)
    return kind(**values)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return f"{value:.17g}"
    return value.value if isinstance(value, Enum) else str(value)


def _value(type_: Any, name: str, text: str) -> object:  # noqa: ANN401 - a type
    kinds = [each for each in get_args(type_) if each is not NoneType]
    plain = type_ if type_ in _READERS or not kinds else kinds[0]
    try:
        return _READERS[plain](text) if plain in _READERS else plain(text)
    except ValueError as error:
        raise InternalError(f"A pod's option {name} cannot be {text!r}.") from error
