"""Shared libraries of x86-64 Linux: what one needs of others, and one whose functions only fail.

Only what the loader reads is read and written: the dynamic section, dynamic symbols and their
versions. Source of the formats: System V ABI, gabi 4.1, chapters 4 and 5; for the GNU extension of
symbol versions LSB Core 3.1, section 10.7. Nothing but the standard library, since this runs before
anything is installed.
"""

import mmap
import struct
from dataclasses import dataclass, field
from pathlib import Path

_DYNAMIC, _DYNSYM, _VERNEED, _VERSYM = 6, 11, 0x6FFFFFFE, 0x6FFFFFFF
_NEEDED, _SONAME, _RPATH, _RUNPATH = 1, 14, 15, 29
_WEAK = 2
_FIRST_NAMED_VERSION = 2
_PAGE = 0x1000
_FAILING = b"\xb8\x01\x00\x00\x00\xc3"
"""`mov eax, 1; ret`: 1 is an error in every interface of CUDA's libraries."""


@dataclass(frozen=True)
class Needs:
    """What a library needs and offers.

    Attributes:
        libraries: File names of libraries that are loaded with it.
        directories: Where they are looked for first.
        versioned: Names of functions by (library, version) that they must come from.
        unversioned: Names that any library may offer.
        offered: Names that it offers itself.
    """

    libraries: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    versioned: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    unversioned: set[str] = field(default_factory=set)
    offered: set[str] = field(default_factory=set)


def read_needs(path: Path) -> Needs:
    """Return what a library needs and offers; ValueError if it is no library of x86-64."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path} is no 64-bit little-endian ELF file.")
        return _Reader(data).read()


class _Reader:
    """Reads one library through its section headers."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        start, size, count = (
            struct.unpack_from("<Q", data, 40)[0],
            *struct.unpack_from("<HH", data, 58),
        )
        self._sections = [
            struct.unpack_from("<IIQQQQIIQQ", data, start + index * size) for index in range(count)
        ]

    def read(self) -> Needs:
        libraries: list[str] = []
        directories: list[str] = []
        for tag, value, strings in self._dynamic():
            if tag == _NEEDED:
                libraries.append(self._text(strings, value))
            elif tag in (_RPATH, _RUNPATH):
                directories += self._text(strings, value).split(":")
        needs = Needs(libraries=tuple(libraries), directories=tuple(directories))
        self._read_symbols(needs)
        return needs

    def _section(self, kind: int) -> tuple[int, ...] | None:
        return next((section for section in self._sections if section[1] == kind), None)

    def _text(self, strings: int, offset: int) -> str:
        start = strings + offset
        return self._data[start : self._data.find(b"\0", start)].decode()

    def _dynamic(self) -> list[tuple[int, int, int]]:
        section = self._section(_DYNAMIC)
        if section is None:
            return []
        strings = self._sections[section[6]][4]
        raw = self._data[section[4] : section[4] + section[5]]
        return [(tag, value, strings) for tag, value in struct.iter_unpack("<qQ", raw)]

    def _versions(self) -> dict[int, tuple[str, str]]:
        """Return library and version by the number that symbols carry."""
        section = self._section(_VERNEED)
        found: dict[int, tuple[str, str]] = {}
        if section is None:
            return found
        strings, at = self._sections[section[6]][4], section[4]
        for _ in range(section[7]):
            _, count, file, first, following = struct.unpack_from("<HHIII", self._data, at)
            part = at + first
            for _ in range(count):
                _, _, number, name, step = struct.unpack_from("<IHHII", self._data, part)
                found[number] = (self._text(strings, file), self._text(strings, name))
                part += step
            at += following
        return found

    def _read_symbols(self, needs: Needs) -> None:
        section, numbers = self._section(_DYNSYM), self._section(_VERSYM)
        if section is None:
            return
        strings, versions = self._sections[section[6]][4], self._versions()
        raw = self._data[section[4] : section[4] + section[5]]
        for index, (name, info, _, home, _, _) in enumerate(struct.iter_unpack("<IBBHQQ", raw)):
            if not name:
                continue
            text = self._text(strings, name)
            if home:
                needs.offered.add(text)
            elif info >> 4 != _WEAK:
                number = 0
                if numbers is not None:
                    number = struct.unpack_from("<H", self._data, numbers[4] + 2 * index)[0]
                if number < _FIRST_NAMED_VERSION:
                    needs.unversioned.add(text)
                else:
                    needs.versioned.setdefault(versions[number], set()).add(text)


def failing_library(soname: str, functions: dict[str, str]) -> bytes:
    """Return a shared library whose functions all return 1.

    Args:
        soname: Its name.
        functions: Version of each function by its name; empty for one without a version.
    """
    strings = _Strings()
    own = strings.offset(soname)
    # The first version is the library itself; none of its functions is asked for under that one,
    # so that a version of the same name, as CUDA's libraries have, is another.
    versions = [soname, *sorted({version for version in functions.values() if version})]
    rows = [(strings.offset(name), name, version) for name, version in sorted(functions.items())]
    definitions = _version_definitions(versions, strings)

    num_symbols = 1 + len(rows)
    symbols_at = _aligned(64 + 56 * 4)
    hash_at = _aligned(symbols_at + 24 * num_symbols)
    numbers_at = _aligned(hash_at + 4 * (2 + 2 * num_symbols))
    definitions_at = _aligned(numbers_at + 2 * num_symbols)
    strings_at = _aligned(definitions_at + len(definitions))
    code_at = _aligned(strings_at + len(strings.data))
    code_end = code_at + len(_FAILING)
    dynamic_at = _aligned(code_end, _PAGE)
    dynamic = b"".join(
        struct.pack("<qQ", tag, value)
        for tag, value in (
            (_SONAME, own),
            (4, hash_at),
            (5, strings_at),
            (6, symbols_at),
            (10, len(strings.data)),
            (11, 24),
            (0x6FFFFFF0, numbers_at),
            (0x6FFFFFFC, definitions_at),
            (0x6FFFFFFD, len(versions)),
            (0, 0),
        )
    )
    out = bytearray(dynamic_at + len(dynamic))
    header = (b"\x7fELF\x02\x01\x01" + bytes(9), 3, 62, 1, 0, 64, 0, 0, 64, 56, 4, 64, 0, 0)
    struct.pack_into("<16sHHIQQQIHHHHHH", out, 0, *header)
    segments = (  # code; data; dynamic section; a stack that is not executable
        (1, 5, 0, code_end, _PAGE),
        (1, 6, dynamic_at, len(dynamic), _PAGE),
        (2, 6, dynamic_at, len(dynamic), 8),
        (0x6474E551, 6, 0, 0, 16),
    )
    for index, (kind, flags, at, size, step) in enumerate(segments):
        segment = (kind, flags, at, at, at, size, size, step)
        struct.pack_into("<IIQQQQQQ", out, 64 + 56 * index, *segment)
    for index, (offset, _, version) in enumerate(rows, 1):
        symbol = (offset, 0x12, 0, 1, code_at, len(_FAILING))  # a global function
        struct.pack_into("<IBBHQQ", out, symbols_at + 24 * index, *symbol)
        number = 2 + versions[1:].index(version) if version else 1
        struct.pack_into("<H", out, numbers_at + 2 * index, number)
    _write_hashes(out, hash_at, [name for _, name, _ in rows])
    out[definitions_at : definitions_at + len(definitions)] = definitions
    out[strings_at : strings_at + len(strings.data)] = strings.data
    out[code_at:code_end] = _FAILING
    out[dynamic_at:] = dynamic
    return bytes(out)


class _Strings:
    """A string table."""

    def __init__(self) -> None:
        self.data = bytearray(b"\0")
        self._known: dict[str, int] = {}

    def offset(self, text: str) -> int:
        if text not in self._known:
            self._known[text] = len(self.data)
            self.data += text.encode() + b"\0"
        return self._known[text]


def _version_definitions(versions: list[str], strings: _Strings) -> bytes:
    out = b""
    for index, version in enumerate(versions):
        is_own, is_last = index == 0, index == len(versions) - 1
        out += struct.pack(
            "<HHHHIII", 1, int(is_own), index + 1, 1, _hash(version), 20, 0 if is_last else 28
        )
        out += struct.pack("<II", strings.offset(version), 0)
    return out


def _write_hashes(out: bytearray, at: int, names: list[str]) -> None:
    count = 1 + len(names)
    buckets, chain = [0] * count, [0] * count
    for index, name in enumerate(names, 1):
        bucket = _hash(name) % count
        chain[index], buckets[bucket] = buckets[bucket], index
    struct.pack_into(f"<{2 + 2 * count}I", out, at, count, count, *buckets, *chain)


def _hash(name: str) -> int:
    """Return the hash of a name; System V ABI, chapter 5, "Hash Table"."""
    value = 0
    for character in name.encode():
        value = (value << 4) + character
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high
    return value & 0xFFFFFFFF


def _aligned(offset: int, step: int = 16) -> int:
    return -(-offset // step) * step
