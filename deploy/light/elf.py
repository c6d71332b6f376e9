"""Shared libraries of x86-64 Linux: what one needs of others, and ones that stand in for others.

Only what the loader reads is read and written: the dynamic section, dynamic symbols and their
versions. Source of the formats: System V ABI, gabi 4.1, chapters 4 and 5; for the GNU extension of
symbol versions LSB Core 3.1, section 10.7. Nothing but the standard library, since this runs before
anything is installed.
"""

import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

_DYNAMIC, _DYNSYM, _VERNEED, _VERSYM = 6, 11, 0x6FFFFFFE, 0x6FFFFFFF
_NEEDED, _SONAME, _RPATH, _RUNPATH = 1, 14, 15, 29
_WEAK = 2
_FIRST_NAMED_VERSION = 2
_RELATIVE = 8
_PAGE = 0x1000
_FAILING = b"\xb8\x01\x00\x00\x00\xc3"
"""`mov eax, 1; ret`: 1 is an error in every interface of CUDA's libraries."""
_POINTING = b"\x48\x8d\x05%s\xc3"
"""`lea rax, [rip + ...]; ret`: the address of some zeros, which may be written."""
_TYPE, _VTABLE = "_ZTI", "_ZTV"
"""How names of a C++ type's description and table of functions begin (Itanium C++ ABI, 5.1.4)."""
_TYPE_BYTES = 32


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
    return _Library(soname, functions).write(lambda _: _FAILING)


def inert_library(soname: str, names: set[str]) -> bytes:
    """Return a shared library of C++ that can be loaded, and does nothing.

    Its functions return the address of zeros, which is what some that are called while a library is
    loaded have to: a reference to a variable. Descriptions of types have their names.

    Args:
        soname: Its name.
        names: Functions and types, as the linker knows them.
    """
    return _Library(soname, dict.fromkeys(names, ""), data_bytes=_PAGE).write(
        lambda to_data: _POINTING % struct.pack("<i", to_data)
    )


class _Library:
    """A library that is to be written: symbols, their versions, one piece of code, some zeros."""

    def __init__(self, soname: str, names: dict[str, str], *, data_bytes: int = 0) -> None:
        self._strings = _Strings()
        self._own = self._strings.offset(soname)
        # The first version is the library itself; none of its functions is asked for under that
        # one, so that a version of the same name, as CUDA's libraries have, is another.
        self._versions = [soname, *sorted({version for version in names.values() if version})]
        self._rows = [
            (self._strings.offset(name), name, version) for name, version in sorted(names.items())
        ]
        self._types = [name for _, name, _ in self._rows if name.startswith(_TYPE)]
        self._type_names = [self._strings.offset(name[len(_TYPE) :]) for name in self._types]
        self._data_bytes = data_bytes
        self._definitions = _version_definitions(self._versions, self._strings)
        self._lay_out()

    def _lay_out(self) -> None:
        num_symbols = 1 + len(self._rows)
        self._symbols_at = _aligned(64 + 56 * 4)
        self._hash_at = _aligned(self._symbols_at + 24 * num_symbols)
        self._numbers_at = _aligned(self._hash_at + 4 * (2 + 2 * num_symbols))
        self._definitions_at = _aligned(self._numbers_at + 2 * num_symbols)
        self._strings_at = _aligned(self._definitions_at + len(self._definitions))
        self._moves_at = _aligned(self._strings_at + len(self._strings.data))
        self._code_at = _aligned(self._moves_at + 24 * len(self._types))
        self._dynamic_at = _aligned(self._code_at + 16, _PAGE)
        self._data_at = _aligned(self._dynamic_at + 16 * 13)
        self._types_at = self._data_at + self._data_bytes
        self._end = self._types_at + _TYPE_BYTES * len(self._types)

    def write(self, code_for: Callable[[int], bytes]) -> bytes:
        """Return the file.

        Args:
            code_for: Returns the code of all functions, from how far the zeros are behind what
                follows its first instruction of seven bytes.
        """
        code = code_for(self._data_at - self._code_at - 7)
        out = bytearray(self._end)
        self._write_header(out, self._code_at + len(code))
        self._write_symbols(out, len(code))
        _write_hashes(out, self._hash_at, [name for _, name, _ in self._rows])
        for index, name in enumerate(self._type_names):
            place = self._types_at + _TYPE_BYTES * index + 8  # behind the table of functions
            move = (place, _RELATIVE, self._strings_at + name)
            struct.pack_into("<QQq", out, self._moves_at + 24 * index, *move)
        for at, part in (
            (self._definitions_at, self._definitions),
            (self._strings_at, self._strings.data),
            (self._code_at, code),
            (self._dynamic_at, self._dynamic()),
        ):
            out[at : at + len(part)] = part
        return bytes(out)

    def _dynamic(self) -> bytes:
        tags = {
            _SONAME: self._own,
            4: self._hash_at,
            5: self._strings_at,
            6: self._symbols_at,
            10: len(self._strings.data),
            11: 24,
            0x6FFFFFF0: self._numbers_at,
            0x6FFFFFFC: self._definitions_at,
            0x6FFFFFFD: len(self._versions),
        }
        if self._types:
            tags |= {7: self._moves_at, 8: 24 * len(self._types), 9: 24}
        return b"".join(struct.pack("<qQ", tag, value) for tag, value in (*tags.items(), (0, 0)))

    def _write_header(self, out: bytearray, code_end: int) -> None:
        header = (b"\x7fELF\x02\x01\x01" + bytes(9), 3, 62, 1, 0, 64, 0, 0, 64, 56, 4, 64, 0, 0)
        struct.pack_into("<16sHHIQQQIHHHHHH", out, 0, *header)
        dynamic_bytes = len(self._dynamic())
        segments = (  # code; data; dynamic section; a stack that is not executable
            (1, 5, 0, code_end, _PAGE),
            (1, 6, self._dynamic_at, self._end - self._dynamic_at, _PAGE),
            (2, 6, self._dynamic_at, dynamic_bytes, 8),
            (0x6474E551, 6, 0, 0, 16),
        )
        for index, (kind, flags, at, size, step) in enumerate(segments):
            segment = (kind, flags, at, at, at, size, size, step)
            struct.pack_into("<IIQQQQQQ", out, 64 + 56 * index, *segment)

    def _write_symbols(self, out: bytearray, code_bytes: int) -> None:
        for index, (offset, name, version) in enumerate(self._rows, 1):
            symbol = (offset, 0x12, 0, 1, self._code_at, code_bytes)  # a global function
            if name in self._types:
                place = self._types_at + _TYPE_BYTES * self._types.index(name)
                symbol = (offset, 0x11, 0, 1, place, 16)  # a global object
            elif name.startswith(_VTABLE):
                symbol = (offset, 0x11, 0, 1, self._data_at, self._data_bytes)
            struct.pack_into("<IBBHQQ", out, self._symbols_at + 24 * index, *symbol)
            number = 2 + self._versions[1:].index(version) if version else 1
            struct.pack_into("<H", out, self._numbers_at + 2 * index, number)


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
