"""What a program lets its host read, write and call: the content of `out_rpc.json`."""

import json
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

RPC_FILE = "bin/out_rpc.json"
"""Where a compiled program says it, relative to its directory."""

_NUMPY_TYPES: Mapping[str, type[np.generic]] = {
    "f32": np.float32,
    "f16": np.float16,
    "i32": np.int32,
    "u32": np.uint32,
    "i16": np.int16,
    "u16": np.uint16,
}
_LARGEST = {"f16": "65504", "f32": "3.4028235e+38"}
_INTEGER_RANGES = {
    "i32": (-(1 << 31), (1 << 31) - 1),
    "u32": (0, (1 << 32) - 1),
    "i16": (-(1 << 15), (1 << 15) - 1),
    "u16": (0, (1 << 16) - 1),
}


class HostCallError(RuntimeError):
    """The program on the host asks for something that the device's program does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFunction:
    """A function that the host may call.

    Attributes:
        id: Its number.
        parameters: Name and type of each argument.
    """

    name: str
    id: int
    parameters: tuple[tuple[str, str], ...]

    def words(self, arguments: Sequence[object]) -> tuple[int, ...]:
        """Return arguments as 32-bit words.

        Raises:
            HostCallError: There are more or fewer than it takes, or one is of another type.
        """
        if len(arguments) != len(self.parameters):
            raise HostCallError(
                f"{self.name} takes {len(self.parameters)} argument(s); {len(arguments)} given."
            )
        return tuple(
            _word(value, kind, f"Argument {name!r} of {self.name}")
            for value, (name, kind) in zip(arguments, self.parameters, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSymbols:
    """All that is exported.

    Attributes:
        source: The file that says so, for messages.
        ids: The number of every symbol by name.
        variables: Name of each variable by its number.
        immutable: Numbers of variables that the host may only read.
        functions: Functions by name.
    """

    source: str
    ids: Mapping[str, int]
    variables: Mapping[int, str]
    immutable: frozenset[int]
    functions: Mapping[str, HostFunction]

    @classmethod
    def load(cls, path: Path) -> "HostSymbols":
        """Read `out_rpc.json`.

        Raises:
            HostCallError: It is not there, or not what it should be.
        """
        try:
            entries = json.loads(path.read_text())["rpc_symbols"]
            variables = {each["id"]: each["name"] for each in entries if each["kind"] == "Var"}
            functions = [_function(each) for each in entries if each["kind"] == "Func"]
            return cls(
                source=str(path),
                ids={each["name"]: each["id"] for each in entries},
                variables=variables,
                immutable=frozenset(each["id"] for each in entries if each.get("immutable")),
                functions={each.name: each for each in functions},
            )
        except OSError as error:
            raise HostCallError(
                f"There is no compiled program here: {path}: {error.strerror}."
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise HostCallError(f"{path} does not list a program's symbols: {error!r}.") from error

    def id_of(self, name: str) -> int:
        """Return the number of a symbol; raises `HostCallError` if the program exports none."""
        if name not in self.ids:
            raise HostCallError(
                f"The program exports no symbol {name!r}; it exports {_listed(self.ids)}."
            )
        return self.ids[name]

    def variable(self, number: int, *, is_written: bool) -> str:
        """Return the name of a variable; raises `HostCallError` if that number cannot be copied."""
        if number not in self.variables:
            raise HostCallError(
                f"{number} is not the number of a variable; get_id returns that of "
                f"{_listed(self.variables.values())}."
            )
        name = self.variables[number]
        if is_written and number in self.immutable:
            raise HostCallError(f"Symbol {name!r} is exported for reading only.")
        return name

    def function(self, name: str) -> HostFunction:
        """Return a function; raises `HostCallError` if the program exports none of that name."""
        if name not in self.functions:
            raise HostCallError(
                f"The program exports no function {name!r}; it exports {_listed(self.functions)}."
            )
        return self.functions[name]


# `dict`: one object of the JSON file, whose fields `load` checks by using them.
def _function(entry: dict) -> HostFunction:  # type: ignore[type-arg]
    parameters = tuple((each["name"], each["type"]) for each in entry.get("inputs", ()))
    return HostFunction(name=entry["name"], id=entry["id"], parameters=parameters)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _word(value: object, kind: str, what: str) -> int:
    if kind not in _NUMPY_TYPES:
        raise HostCallError(f"{what} has type {kind}, which the host cannot pass.")
    wanted = _NUMPY_TYPES[kind]
    if isinstance(value, bool | np.bool_):
        raise HostCallError(f"{what} is {value!r}; it must be of type {kind}.")
    if isinstance(value, np.generic) and not isinstance(value, float):
        return _word_of_scalar(value, wanted, kind, what)
    if kind in _INTEGER_RANGES and isinstance(value, int):
        least, most = _INTEGER_RANGES[kind]
        if not least <= value <= most:
            raise HostCallError(f"{what} is {value}; type {kind} holds {least} to {most}.")
        return value & (0xFFFF if kind.endswith("16") else 0xFFFFFFFF)
    if kind not in _INTEGER_RANGES and isinstance(value, float | int):
        return _bits(_rounded(value, wanted, kind, what))
    raise HostCallError(f"{what} is {value!r}; it must be of type {kind}.")


def _rounded(value: float | int, wanted: type[np.generic], kind: str, what: str) -> np.generic:
    """The nearest number of a float type; an error where that is infinite and the value is not."""
    try:
        with np.errstate(over="ignore"):
            found = wanted(value)
    except OverflowError:
        found = wanted(math.inf)
    if np.isinf(found) and not (isinstance(value, float) and math.isinf(value)):
        shown = f"{value:.9g}" if isinstance(value, float) else f"of {value.bit_length()} bits"
        largest = _LARGEST[kind]
        raise HostCallError(f"{what} is {shown}; type {kind} holds -{largest} to {largest}.")
    return found


def _word_of_scalar(value: np.generic, wanted: type[np.generic], kind: str, what: str) -> int:
    if type(value) is not wanted:
        raise HostCallError(f"{what} has type {value.dtype}; it must be {np.dtype(wanted)}.")
    return _bits(value)


def _bits(value: np.generic) -> int:
    return int(struct.unpack("<I", value.tobytes().ljust(4, b"\0"))[0])
