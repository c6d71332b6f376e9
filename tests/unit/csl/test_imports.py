"""Where imported files are looked for."""

import pytest

from tests.support.csl import check_error, check_error_in, compile_files

MAIN = "layout.csl"
LAYOUT = 'layout { @set_rectangle(1, 1); @set_tile_code(0, 0, "kernel/pe.csl", .{}); }'
SAY = "comptime { @comptime_print(%s); }"
USERS = {
    "import": 'const m = @import_module("util.csl");' + SAY % "m.where",
    "import without an ending": 'const m = @import_module("util");' + SAY % "m.where",
    "import of an import": 'const m = @import_module("deep/more.csl");' + SAY % "m.sub.where",
    "JSON": 'const m = @import_comptime_value(comptime_string, "util.json");' + SAY % "m",
}
MORE = 'const sub = @import_module("util.csl");'
PLACES = ("kernel/deep", "kernel", "", "lib", "lib2")


def files(use: str, places: tuple[str, ...]) -> dict[str, str]:
    """A program whose file `util` lies in some places, and says in which."""
    ending = "json" if use == "JSON" else "csl"
    text = '"PLACE"' if use == "JSON" else 'const where = "PLACE";'
    made = {MAIN: LAYOUT, "kernel/pe.csl": USERS[use], "kernel/deep/more.csl": MORE}
    for place in places:
        path = f"{place}/util.{ending}" if place else f"util.{ending}"
        made[path] = text.replace("PLACE", place or "main")
    return made


@pytest.mark.parametrize("use", USERS)
@pytest.mark.parametrize("first", range(len(PLACES)))
def test_a_file_is_looked_for_in_order(use: str, first: int) -> None:
    beside = "kernel/deep" if use == "import of an import" else "kernel"
    order = [beside, *PLACES[2:]]
    places = tuple(place for place in PLACES[first:] if place in order)
    found = compile_files(files(use, places), import_paths=("lib", "lib2"))
    assert found.program is not None, found.render()
    assert found.printed[0].endswith(f": {places[0] or 'main'}")


def test_the_code_of_a_pe_is_looked_for_like_an_import() -> None:
    texts = {MAIN: LAYOUT.replace("kernel/pe.csl", "pe.csl"), "lib/pe.csl": ""}
    assert compile_files(texts, import_paths=("lib",)).program is not None
    assert compile_files(texts).program is None


def test_a_file_beside_the_main_one_is_another_than_one_beside_the_importing_file() -> None:
    """Two files of one name: each importer gets its own, as one module each."""
    texts = {
        MAIN: LAYOUT,
        "kernel/pe.csl": (
            'const a = @import_module("util.csl"); const b = @import_module("deep/more.csl");'
            " comptime { @comptime_print(a.where, b.sub.where); }"
        ),
        "kernel/deep/more.csl": MORE,
        "kernel/deep/util.csl": 'const where = "deep";',
        "util.csl": 'const where = "main";',
    }
    assert compile_files(texts).printed[0].endswith("main, deep")


@pytest.mark.parametrize(
    "call", ['@import_module($$"util.csl")', '@import_comptime_value(u16, $$"util.csl")']
)
def test_a_file_that_is_nowhere_is_an_error_with_the_places(call: str) -> None:
    texts = {MAIN: LAYOUT, "kernel/pe.csl": f"const m = {call}; comptime {{ const k = m; }}"}
    places = "looked for kernel/util.csl, util.csl, lib/util.csl"
    check_error_in(texts, f"there is no file 'util.csl'; {places}", import_paths=("lib",))


def test_an_absolute_path_is_looked_for_there_only() -> None:
    texts = {
        MAIN: LAYOUT,
        "kernel/pe.csl": 'const m = @import_module($$"/util.csl");',
        "lib/util.csl": "",
    }
    check_error_in(texts, "there is no file '/util.csl'", import_paths=("lib",))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("memcpy_multi/get_params", "import <memcpy/get_params> with '.width' and '.height'"),
        ("memcpy_multi/memcpy", "and <memcpy/memcpy> with what its 'get_params(x)' returns"),
        ("memcpy_multi/memcpy_switches", "import <memcpy/memcpy_switches>"),
    ],
)
def test_a_library_of_an_earlier_release_says_what_to_import_instead(path: str, text: str) -> None:
    check_error(f'const m = @import_module($$"<{path}>"); comptime {{ m; }}', text)
