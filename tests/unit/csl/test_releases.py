# ruff: noqa: E501 - rows of a table
"""Each release of the language has its own parts: `--sdk-version` says whose program it is."""

import pytest

from appliance.csl.releases import ANY, PARTS, RELEASES
from tests.support.csl import check_error, compile_pe

LOOP = "fn main() void { var n: u16 = 0; while (n < 3) { n += 1; } } comptime { @export_symbol(main); }\n"
CAME = [
    ("1.2", "const m = $$@import_module(\"<control>\");", "<control>"),
    ("1.2", "const m = $$@import_module(\"<simprint>\");", "<simprint>"),
    ("1.2", "fn f() void { $$inline for (@range(u16, 2)) |i| { _ = i; } } comptime { f(); }", "inline for"),
    ("1.3", "const m = $$@import_module(\"<dsd_ops>\");", "<dsd_ops>"),
    ("1.3", "inline fn $$f() u16 { return 3; } const a = f(); comptime { _ = a; }", "inline fn"),
    ("1.3", "fn f() u16 { return $$L: { break :L 3; }; } const a = f(); comptime { _ = a; }", "a label"),
    ("1.3", "fn f() void { L: while (true) { $$break :L; } } comptime { f(); }", "a label"),
    ("1.4", "const a = $$@fp16(); comptime { _ = a; }", "@fp16"),
    ("1.4", "const a: $$cb16 = 1.0; comptime { _ = a; }", "cb16"),
    ("2.10", "const m = $$@import_module(\"<types>\");", "<types>"),
    ("2.10", "const m = $$@import_module(\"<string>\");", "<string>"),
    ("2.10", "const a: $$u7 = 1; comptime { _ = a; }", "an integer of any width"),
    ("2.10", "const T = $$packed struct { a: u8 }; const a = T{ .a = 1 }; comptime { _ = a; }", "packed"),
    ("2.10", "const T = $$union { a: u8, b: i8 }; const a = T{ .a = 1 }; comptime { _ = a; }", "union"),
    ("2.10", "const a = $$@get_sr(1); comptime { _ = a; }", "@get_sr"),
    ("2.10", "const T = $$anyopaque; comptime { _ = T; }", "anyopaque"),
]  # fmt: skip
WENT = [
    ("1.1", "const a = $$@get_color_id(@get_color(3)); comptime { @comptime_assert(a == 3); }", "write '@get_int'"),
    ("1.4", "const a = $$@concat_structs(.{ .x = 1 }, .{ .y = 2 }); comptime { _ = a; }", "nest the structs"),
    ("1.4", "fn f(s: $$comptime_struct) u16 { return s.n; } const a = f(.{ .n = 3 }); comptime { _ = a; }", "use no type"),
]  # fmt: skip


def _compiles(source: str, release: str) -> None:
    found = compile_pe(LOOP + source.replace("$$", ""), dialect=release)
    assert found.program is not None, found.render()


@pytest.mark.parametrize(("since", "source", "what"), CAME)
def test_what_came_later_is_refused_with_the_release_that_has_it(
    since: str, source: str, what: str
) -> None:
    first = RELEASES.index(since)
    for release in RELEASES[:first]:
        text = f"'{what}' came with SDK {since}; the program is of {release}"
        check_error(LOOP + _marked(source), text, dialect=release)
    for release in (*RELEASES[first:], ANY):
        _compiles(source, release)


def _marked(source: str) -> str:
    """The mark before the argument of `@import_module`, which is what the compiler points at."""
    return source.replace("$$@import_module(", "@import_module($$")


@pytest.mark.parametrize(("until", "source", "instead"), WENT)
def test_what_a_release_removed_is_refused_with_what_to_write(
    until: str, source: str, instead: str
) -> None:
    last = RELEASES.index(until)
    for release in (*RELEASES[: last + 1], ANY):
        _compiles(source, release)
    for release in RELEASES[last + 1 :]:
        check_error(LOOP + source, "is no longer supported in CSL; " + instead, dialect=release)


@pytest.mark.parametrize("release", [*RELEASES, ANY])
@pytest.mark.parametrize(
    ("source", "instead"),
    [
        ("task t() void {} comptime { $$@bind_task(t, @get_color(3)); }", "@bind_local_task"),
        ("const m = @import_module($$\"<memcpy_multi/get_params>\");", "import <memcpy/get_params>"),
        ("const m = @import_module($$\"<memcpy_multi/memcpy>\");", "<memcpy/memcpy>"),
    ],
)  # fmt: skip
def test_what_went_before_1_1_is_refused_by_all(release: str, source: str, instead: str) -> None:
    check_error(LOOP + source, instead, dialect=release)


def test_a_part_of_one_machine_is_looked_at_where_it_runs() -> None:
    """As in the release itself, what a known condition leaves out may be of a later one."""
    source = 'const a = if (@is_arch("wse3")) @get_sr(1) else 2; comptime { _ = a; }'
    _compiles(source, "1.1")


def test_our_libraries_use_what_they_need() -> None:
    _compiles('const m = @import_module("<malloc>", .{ .buffer_num_words = 8 });', "1.1")


def test_every_part_says_what_to_write_or_when_it_came() -> None:
    for what, part in PARTS.items():
        assert part.instead or part.since != RELEASES[0], what
