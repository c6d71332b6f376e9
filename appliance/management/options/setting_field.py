"""A setting is a field of a dataclass with its default, its flag and its help text.

The command line is made from these fields (`appliance.cli.options.setting_flags`), so that a new
setting is one field here and one place that reads it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

T = TypeVar("T")

_KEY = "setting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a command line has to know of a field.

    Attributes:
        help: What people are told.
        flag: The flag; empty derives it from the field's name.
        shown: The default as people see it; empty shows the value.
        is_file: Whether it is given as a file, of which the field has the content or the place.
    """

    help: str
    flag: str = ""
    shown: str = ""
    is_file: bool = False


# `Any`: what a field of a dataclass is made with has the type of its default.
def setting(
    default: Any,  # noqa: ANN401 - see above
    help_: str,
    *,
    flag: str = "",
    shown: str = "",
    is_file: bool = False,
) -> Any:  # noqa: ANN401 - see above
    """Return a field that a flag of `appliance up` sets; see `Setting`."""
    about = Setting(help=help_, flag=flag, shown=shown, is_file=is_file)
    return field(default=default, metadata={_KEY: about})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedSetting:
    """A setting where it is in a tree of dataclasses.

    Attributes:
        group: Name of the field that holds its dataclass; empty for the root.
        name: Its own name; no two of a tree are alike.
        about: What a command line has to know.
    """

    group: str
    name: str
    type: Any  # a type, or a union of types
    default: object
    about: Setting


def settings_of(root: type) -> Iterator[PlacedSetting]:
    """Yield every setting of a dataclass and of the dataclasses that are its fields."""
    hints = get_type_hints(root)
    for each in fields(root):
        if is_dataclass(hints[each.name]):
            inner = hints[each.name]
            types = get_type_hints(inner)
            yield from (_placed(each.name, own, types) for own in fields(inner) if _is_set(own))
        elif _is_set(each):
            yield _placed("", each, hints)


# `Any`: each further argument has the type of its field.
def from_settings(root: type[T], values: Mapping[str, object], **others: Any) -> T:  # noqa: ANN401 - see above
    """Return a dataclass with the values of its settings, by name, and its other fields."""
    arguments: dict[str, Any] = dict(others)
    groups: dict[str, dict[str, object]] = {}
    for each in settings_of(root):
        place = groups.setdefault(each.group, {}) if each.group else arguments
        place[each.name] = values[each.name]
    hints = get_type_hints(root)
    made = {name: hints[name](**own) for name, own in groups.items()}
    return root(**arguments, **made)


def _is_set(each: Field[Any]) -> bool:
    return _KEY in each.metadata


def _placed(group: str, each: Field[Any], types: dict[str, Any]) -> PlacedSetting:
    return PlacedSetting(
        group=group,
        name=each.name,
        type=types[each.name],
        default=each.default,
        about=each.metadata[_KEY],
    )
