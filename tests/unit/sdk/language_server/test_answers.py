"""What an editor is told of a program: a table of places."""

import pytest

from appliance.core.errors import UserError
from appliance.csl.analysis import analyse_alone
from appliance.csl.builtins.registry import names_of_builtins
from appliance.csl.diagnostics import Severity
from appliance.csl.libraries import library_names
from appliance.csl.options import CompileOptions
from appliance.sdk.language_server.builtin_pages import builtin_pages
from appliance.sdk.language_server.coloring import KINDS, colored
from appliance.sdk.language_server.completion import completion
from appliance.sdk.language_server.declarations import named_at
from appliance.sdk.language_server.hover import hover
from appliance.sdk.language_server.outline import outline
from appliance.sdk.language_server.renaming import places_of, renamed
from appliance.sdk.language_server.signatures import signature_at
from appliance.sdk.language_server.workspace import Workspace
from tests.support.csl import Files
from tests.support.csl_coverage import ROWS
from tests.support.csl_editor import FILES, PE, TOOLS, at, opened, path_in

PATH = path_in("pe.csl")


@pytest.fixture(scope="module", name="program")
def _program() -> Workspace:
    return opened()


@pytest.mark.parametrize(
    ("place", "file", "declaration"),
    [
        ("@zeros([^n]f32)", "pe.csl", "param ^n"),
        ("&^y;", "pe.csl", "var ^y"),
        ("^add(1.0", "pe.csl", "fn ^add"),
        (".right = ^by", "pe.csl", "fn add(^by"),
        ("pair.^right", "pe.csl", "u16, ^right"),
        ("tools.^half", "tools.csl", "fn ^half"),
        (".{ .^size = n }", "tools.csl", "param ^size"),
        ('"^tools.csl"', "tools.csl", ""),
        ("^Pair{", "pe.csl", "const ^Pair"),
        ("@export_symbol(^main", "pe.csl", "fn ^main"),
    ],
)
def test_a_definition_is_found(program: Workspace, place: str, file: str, declaration: str) -> None:
    found = named_at(program, PATH, at(PE, place))
    assert found is not None
    assert found.path == path_in(file)
    if declaration:
        assert found.declared is not None
        assert found.declared.start == at(FILES[file], declaration)


def test_a_param_that_a_layout_gives_is_that_of_the_code(program: Workspace) -> None:
    layout = path_in("layout.csl")
    found = named_at(program, layout, at(FILES["layout.csl"], ".^n = n"))
    assert found is not None
    assert found.declared is not None
    assert (found.path, found.declared.start) == (PATH, at(PE, "param ^n"))


@pytest.mark.parametrize(
    ("place", "parts"),
    [
        ("param ^n", ["param n: u16;", "type `u16`", "value `8`"]),
        ("param ^x", ["value `0` on the PEs of (0, 0)", "value `1` on the PEs of (1, 0)"]),
        ("param ^memcpy_params", ["What memcpy needs."]),
        ("^y_dsd = ", ["8 elements of y"]),
        ("@^fadds", ["a + b of f32", "2 elements a cycle", "8 elements take 5 cycles"]),
        ("@^zeros", ["all are zero", "type `[8]f32`"]),
        ("^add(1.0", ["fn add(by: f32) void", "Adds one to each element."]),
        ("math.^sqrt", ["fn sqrt", "Of the library `<math>`"]),
        ("^y[0] = ", ["var y = @zeros([n]f32);", "type `[8]f32`"]),
        (".left = ^x", ["type `u16`"]),
        ("unblock^_cmd_stream", ["fn unblock_cmd_stream() void"]),
    ],
)
def test_a_hover_tells_declaration_type_value_and_cost(
    program: Workspace, place: str, parts: list[str]
) -> None:
    text = hover(program, PATH, at(PE, place)) or ""
    assert [part for part in parts if part not in text] == []


@pytest.mark.parametrize(
    ("place", "has", "lacks"),
    [
        ("tools.^half", {"half", "size"}, {"add", "fn"}),
        ("memcpy.^unblock", {"unblock_cmd_stream"}, {"main"}),
        ("pair.^right", {"left", "right"}, {"y"}),
        ("@^fadds", {"@fadds", "@get_dsd"}, {"fadds", "@intrinsic"}),
        ("^add(1.0", {"add", "y", "u16", "while", "EAST", "memcpy"}, {"pair", "by", "@as"}),
        ("@fadds(y_dsd, ^y_dsd", {"by", "pair"}, set()),
        ('"<^math>', {"<math>", "<memcpy/memcpy>", "<tile_config/teardown>"}, {"<kernels/fft>"}),
    ],
)
def test_a_completion_offers_what_may_stand_there(
    program: Workspace, place: str, has: set[str], lacks: set[str]
) -> None:
    labels = {each.label for each in completion(program, PATH, at(PE, place))}
    assert has <= labels
    assert not lacks & labels


@pytest.mark.parametrize(
    ("place", "label", "active"),
    [
        ("@fadds(^y_dsd", "@fadds(destination, a, b, config?) bool", 0),
        ("@fadds(y_dsd, y_dsd, ^pair", "@fadds(destination, a, b, config?) bool", 2),
        ("tools.half(^math", "fn half(value: f32) f32", 0),
        ("add(^1.0", "fn add(by: f32) void", 0),
        ("mem1d_dsd, .{ ^.tensor", "@get_dsd(kind: type, properties) dsd", 1),
    ],
)
def test_a_signature_shows_the_argument_that_is_written(
    program: Workspace, place: str, label: str, active: int
) -> None:
    found = signature_at(program, PATH, at(PE, place))
    assert found is not None
    assert (found.label, found.active) == (label, active)


def test_outside_of_calls_there_is_no_signature(program: Workspace) -> None:
    assert signature_at(program, PATH, at(PE, "fn main() void {^")) is None


@pytest.mark.parametrize(("file", "mark"), [("tools.csl", "fn ^half"), ("pe.csl", "tools.^half")])
def test_references_go_through_imports(program: Workspace, file: str, mark: str) -> None:
    found = places_of(program, path_in(file), at(FILES[file], mark))
    shown = [(place.path, place.start) for place in found]
    places = [
        (path_in("pe.csl"), at(PE, "tools.^half")),
        (path_in("tools.csl"), at(TOOLS, "fn ^half")),
    ]
    assert shown == places


def test_a_new_name_takes_the_place_of_the_old_one_everywhere(program: Workspace) -> None:
    places = renamed(program, PATH, at(PE, "^add(1.0"), "increase")
    assert [place.start for place in places] == [at(PE, "fn ^add"), at(PE, "^add(1.0")]


@pytest.mark.parametrize(
    ("place", "name", "words"),
    [
        ("^add(1.0", "y", "means something else already"),
        ("^add(1.0", "while", "is no name of CSL"),
        ("^add(1.0", "2x", "is no name of CSL"),
        ("param ^n", "m", "whoever gives it a value names it"),
        ("fn ^main", "start", "exported under its name"),
        ("math.^sqrt", "root", "is of the library <math>"),
        ("pair.^right", "r", "is a field"),
        ("f32) ^void", "x", "no name of this program"),
    ],
)
def test_a_new_name_that_would_break_the_program_is_refused(
    program: Workspace, place: str, name: str, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        renamed(program, PATH, at(PE, place), name)


def test_the_outline_has_declarations_and_blocks_in_order(program: Workspace) -> None:
    names = [(each.declared.kind, each.declared.name) for each in outline(program, PATH)]
    assert names[:2] == [("param", "memcpy_params"), ("param", "n")]
    assert names[-3:] == [("fn", "add"), ("fn", "main"), ("block", "comptime")]


def test_words_are_colored_by_what_they_are(program: Workspace) -> None:
    file = program.parsed(PATH)
    assert file is not None
    kinds = {token.text: KINDS[kind] for token, kind in colored(file)}
    wanted = {"param": "keyword", "u16": "type", "n": "parameter", "add": "function"}
    wanted |= {"@zeros": "macro", "half": "property", "y": "variable", "1.0": "number"}
    assert {word: kinds[word] for word in wanted} == wanted


def test_errors_of_a_program_are_told_by_file() -> None:
    broken = PE.replace("add(1.0);", "add(1.0);\n  nothing();\n  y = true;")
    files = {**FILES, "pe.csl": broken, "tools.csl": TOOLS.replace("0.5", "nope")}
    told = opened(files).analyse(PATH)
    assert ["nope" in each.text for each in told[path_in("tools.csl")]] == [True]
    assert len(told[PATH]) == 2
    assert told[path_in("layout.csl")] == []


def test_all_errors_of_the_syntax_are_told_at_once() -> None:
    broken = PE.replace("add(1.0);", "add(1.0;\n  y[0] = ;").replace("var y =", "var =")
    found = opened({**FILES, "pe.csl": broken}, commands=()).analyse(PATH)
    assert len(found[PATH]) == 3


def test_questions_are_answered_while_a_file_has_errors() -> None:
    program = opened()
    broken = PE.replace("add(1.0);", "tools.")
    program.texts[PATH] = broken
    labels = [each.label for each in completion(program, PATH, at(broken, "tools.^\n"))]
    assert labels == ["size", "half"]
    broken = program.texts[PATH] = PE.replace("add(1.0);", "add(")
    signature = signature_at(program, PATH, at(broken, "add(^\n"))
    assert signature is not None
    assert signature.parameters == ("by: f32",)
    named = named_at(program, PATH, at(broken, "^y[0]"))
    assert named is not None
    assert named.declared is not None


def test_a_setting_that_is_no_command_is_refused() -> None:
    program = opened({}, commands=("cslc --fabric-dims=x layout.csl",))
    with pytest.raises(UserError, match="fabric-dims"):
        program.analyse(PATH)


def test_every_builtin_and_no_other_has_a_page() -> None:
    assert set(builtin_pages()) == names_of_builtins()


def test_every_library_is_offered() -> None:
    assert {"memcpy/memcpy", "memcpy/get_params", "math", "collectives_2d/pe"} <= set(
        library_names()
    )


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["wse2", "wse3"])
def test_code_that_is_right_has_no_errors_without_its_program(architecture: str) -> None:
    """The code of each program of docs/csl-coverage.md, whose params nobody gives."""
    wrong = {}
    for row in ROWS:
        if row.refused or architecture not in row.architectures:
            continue
        options = CompileOptions(architecture=architecture, **row.options)  # type: ignore[arg-type]
        found = analyse_alone("pe.csl", options, Files(row.texts()))
        errors = [each for each in found.diagnostics if each.severity is Severity.ERROR]
        if errors:
            wrong[row.name] = errors[0].render()
    assert wrong == {}


def test_code_alone_is_checked_as_far_as_it_does_not_depend_on_its_program() -> None:
    """`n` and what follows from it are unknown; `main` is reached though its export is not."""
    wrong = PE.replace("y[0] = tools", "y[n] = 0.0; var z: u16 = true; y[1] = tools")
    wrong = wrong.replace("add(1.0)", "add(1.0); y[n] = n; nothing()")
    found = opened({"pe.csl": wrong, "tools.csl": TOOLS}, commands=()).analyse(PATH)
    texts = [each.text for each in found[PATH]]
    assert ["nothing" in texts[0], "'bool'" in texts[1]] == [True, True]
    assert len(texts) == 2
