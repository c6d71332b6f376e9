"""Walks over a program, record by record, and refuses the first that is not right."""

import dataclasses
from dataclasses import replace
from typing import Any

from appliance.core.errors import UserError
from appliance.csl.program import CodeClass, Function, Position, Program
from appliance.fabric.verification.relations import RELATIONS
from appliance.fabric.verification.rules import (
    RULES,
    AtMost,
    Below,
    Between,
    Free,
    OneOf,
    Rule,
    Scope,
)

_PLAIN = (int, float, str, bytes, type(None))


def check_program(program: Program) -> None:
    """Refuse a program with a number that points at nothing, or that the machine cannot hold.

    Raises:
        UserError: It has one; the message says where.
    """
    counts = {"files": len(program.files), "registers": 0, "blocks": 0}
    _check(program, Scope(program=program, counts=counts))


def _check(value: Any, scope: Scope) -> None:  # noqa: ANN401 - any value of a program
    if isinstance(value, _PLAIN):
        return
    if isinstance(value, tuple) and not isinstance(value, Position):
        for each in value:
            _check(each, scope)
    elif isinstance(value, Position) or dataclasses.is_dataclass(value):
        _check_record(value, _within(value, scope))


def _within(record: object, scope: Scope) -> Scope:
    """Return the scope of what a record holds."""
    if isinstance(record, CodeClass):
        held = {name: len(getattr(record, name)) for name in ("functions", "fifos", "variables")}
        return replace(scope, source=record, counts={**scope.counts, **held})
    if isinstance(record, Function):
        held = {name: len(getattr(record, name)) for name in ("registers", "blocks")}
        return replace(scope, function=record, counts={**scope.counts, **held})
    return scope


def _check_record(record: Any, scope: Scope) -> None:  # noqa: ANN401 - a dataclass
    kind = type(record)
    rules = RULES.get(kind, {})
    for name in _names(record):
        value = getattr(record, name)
        rule = rules.get(name)
        if rule is not None and not _obeys(value, rule, scope):
            raise _refusal(scope, record, f"has {name} {str(value)[:60]}{_allowed(rule, scope)}")
        if not isinstance(value, _PLAIN):
            _check(value, scope)
    relation = RELATIONS.get(kind)
    wrong = relation(scope, record) if relation is not None else ""
    if wrong:
        raise _refusal(scope, record, f"has {wrong}")


_NAMES: dict[type, tuple[str, ...]] = {Position: Position._fields}


def _names(record: Any) -> tuple[str, ...]:  # noqa: ANN401 - a dataclass
    """Return the fields of a record; asked once of each class."""
    kind = type(record)
    if kind not in _NAMES:
        _NAMES[kind] = tuple(field.name for field in dataclasses.fields(record))
    return _NAMES[kind]


def _obeys(value: Any, rule: Rule, scope: Scope) -> bool:  # noqa: ANN401 - any value of a field
    if isinstance(rule, Free) or value is None:
        return True
    if isinstance(rule, AtMost):
        return len(value) <= rule.length
    if isinstance(value, tuple):
        return all(_obeys(each, rule, scope) for each in value)
    if isinstance(rule, OneOf):
        return value in rule.values
    if isinstance(rule, Below):
        return bool(0 <= value < scope.counts[rule.count])
    return bool(rule.low <= value <= rule.high)


def _allowed(rule: Rule, scope: Scope) -> str:
    match rule:
        case Between():
            return f"; it is from {rule.low:,} to {rule.high:,}"
        case Below():
            return f"; there are {scope.counts[rule.count]:,} {rule.count}"
        case OneOf():
            return f"; it is one of {', '.join(sorted(map(str, rule.values)))}"
        case AtMost():
            return f"; it has at most {rule.length:,}"
        case Free():
            return ""


def _refusal(scope: Scope, record: object, what: str) -> UserError:
    places = []
    if scope.source is not None:
        places.append(f"the code of {scope.source.file[:60]!r}")
    if scope.function is not None:
        places.append(f"function {scope.function.name[:60]!r}")
    inside = f" in {', '.join(places)}" if places else ""
    return UserError(
        f"The program cannot be run: a {type(record).__name__}{inside} {what[:300]}.",
        hint="Its file was changed, or cslc has a bug: compile it again with this version's cslc.",
    )
