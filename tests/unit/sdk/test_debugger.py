"""`cs_debug`: a run stands still where one says, and shows what there is."""

from pathlib import Path

import pytest

from appliance.csl.program import Program
from appliance.fabric.commands import Launch
from appliance.fabric.errors import FabricError
from appliance.fabric.tracing.memory import symbols_of
from appliance.sdk import cs_debug
from appliance.sdk.container import write_container
from appliance.sdk.host.debugger.debug_commands import COMMANDS
from tests.support.csl import compile_files
from tests.support.csl_coverage import ROWS
from tests.support.csl_coverage.rows import Row
from tests.support.csl_debugged import CODE, FILES, debugged, line_of

LOOP, ADD, STORE = line_of("add(@as(i32, i));"), line_of("total += by;"), line_of("out[0] = total;")


@pytest.fixture(scope="module", name="program")
def _program() -> Program:
    found = compile_files(FILES, memcpy=True)
    assert found.program is not None, found.render()
    return found.program


def test_a_breakpoint_stops_at_each_visit_of_its_line(program: Program) -> None:
    commands = [f"break pe.csl:{STORE}", *["continue", "print total"] * 4, "continue"]
    _, typed = debugged(program, *commands)
    assert [line for line in typed.said if line.startswith("total = ")] == [
        f"total = i32 {value}" for value in (2, 2, 3, 5)
    ]
    assert [line.startswith("Breakpoint 1, cycle") for line in typed.said].count(True) == 4


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ("add", ADD),
        ("main", line_of("  add(2);")),
        ("done", line_of("flag = false;")),
        ("mark", line_of("flag = false;")),
        (f"pe.csl:{STORE}", STORE),
        (f"pe.csl:{line_of('fn main')}", line_of("  add(2);")),
        (f"pe.csl:{line_of('task done')}", line_of("flag = false;")),
    ],
)
def test_a_breakpoint_is_at_a_function_or_the_next_line_with_code(
    program: Program, where: str, line: int
) -> None:
    _, typed = debugged(program, f"break {where}", "continue", "pe")
    assert f"(pe.csl:{line}" in typed.after("pe")[0]


def test_code_of_a_function_that_is_part_of_another_is_named_so(program: Program) -> None:
    _, typed = debugged(program, "break mark", "continue", "pe")
    line = line_of("flag = false;")
    assert typed.after("pe")[0] == f"PE (0, 0) mark (pe.csl:{line}, inlined in done)"


def visited(said: list[str]) -> list[int]:
    """The lines at which the run stood still, behind its beginning."""
    places = [line for line in said if line.startswith("PE (0, 0) ") and ":" in line]
    return [int(place.rpartition(":")[2].rstrip(")").split(",")[0]) for place in places]


def test_steps_go_through_lines_and_into_calls(program: Program) -> None:
    _, typed = debugged(program, "break main", "continue", *["step"] * 4)
    call = line_of("  add(2);")
    assert visited(typed.said) == [call, ADD, line_of("if (total"), STORE, line_of("for (@range")]


def test_next_goes_over_calls(program: Program) -> None:
    _, typed = debugged(program, "break main", "continue", *["next"] * 3)
    assert not {ADD, STORE} & set(visited(typed.said))
    assert visited(typed.said)[:2] == [line_of("  add(2);"), line_of("for (@range")]


def test_a_backtrace_has_every_call(program: Program) -> None:
    _, typed = debugged(program, "break add", "continue", "continue", "backtrace")
    assert typed.after("backtrace") == [f"#0  add (pe.csl:{ADD})", f"#1  main (pe.csl:{LOOP})"]


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("grid", "[2][3]f32 0.5 1 1.5 2 2.5 3"),
        ("grid[1, 2]", "f32 3"),
        ("grid[0]", "f32 0.5 1 1.5"),
        ("grid[0, 1:3]", "f32 1 1.5"),
        ("half", "[2]f16 0.25 -2"),
        ("flag", "bool true"),
        ("total", "i32 0"),
        ("pair", "{ .left = i16 1, .right = i16 -1 }"),
        ("pair.right", "i16 -1"),
        ("pairs", "[2][2]" + " ".join(["{ .left = i16 1, .right = i16 -1 }"] * 4)),
        ("pairs[0, 1]", "{ .left = i16 1, .right = i16 -1 }"),
        ("pairs[0].left", "i16 1 i16 1"),
        ("bits", "{ .low = u3 5, .high = i5 -3, .half = f16 1.5, .on = bool true }"),
        ("bits.high", "i5 -3"),
        ("nest.n", "i8 -2"),
        ("nest.pair", "{ .pair.left = i16 3, .pair.right = i16 4 }"),
        ("nest.row", "[3]u16 1 2 3"),
        ("nest.bits.half", "f16 -0.5"),
        ("nest.bits.on", "bool false"),
        ("both", "{ .word = u32 15872, .half = f16 1.5 }"),
    ],
)
def test_memory_is_shown_by_its_type(program: Program, expression: str, shown: str) -> None:
    _, typed = debugged(program, f"print {expression}")
    assert typed.after(f"print {expression}") == [f"{expression} = {shown}"]


def test_a_trace_says_of_what_structs_are_made(program: Program) -> None:
    symbols = next(found for found in symbols_of(program) if found)
    by_name = {each["name"].rpartition(".")[2]: each for each in symbols}
    high, half = by_name["bits"]["fields"][1:3]
    assert high == dict(name=".high", offset=0, bytes=4, shift=3, type="i5", is_array=False)
    assert (half["shift"], half["type"]) == (8, "f16")
    row = next(each for each in by_name["nest"]["fields"] if each["name"] == ".row")
    assert (row["bytes"], row["type"], row["is_array"]) == (6, "u16", True)
    assert "fields" not in by_name["grid"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("print nothing", "no symbol 'nothing'"),
        ("print grid[4]", "has the shape [2, 3]"),
        ("print grid[x]", "an index that is no number"),
        ("print nest.none", "has no field '.none'; it has .n, .pair.left,"),
        ("print total.a", "has no field '.a'; it has none"),
        ("print pairs[2].left", "has the shape [2, 2]"),
        ("print 2 + 2", "is no symbol"),
        ("break nowhere", "There is no code at 'nowhere'"),
        ("break pe.csl:9999", "There is no code"),
        ("break", "Say where"),
        ("break main 5,5", "There is no PE (5, 5)"),
        ("break main all", "is no set of PEs"),
        ("pe 3", "is no PE"),
        ("pe 1,0", "There is no PE (1, 0): the program has 1 x 1"),
        ("delete 4", "There is no breakpoint 4"),
        ("until x", "this takes a cycle"),
        ("watch out[1]", "leave out the index"),
        ("list other.csl:3", "no source file 'other.csl'"),
        ("dump", "Name the file"),
        ("x", "this takes an address"),
        ("x 0xffff 4", "go beyond"),
        ("fly", "There are break, watch"),
    ],
)
def test_what_cannot_be_done_is_said(program: Program, command: str, words: str) -> None:
    _, typed = debugged(program, command)
    (answer,) = typed.after(command)
    assert answer.startswith("error: ")
    assert words in answer


def test_a_watchpoint_stops_behind_each_write_and_names_its_line(program: Program) -> None:
    _, typed = debugged(program, "watch out", *["continue", "print out[0]"] * 3)
    stops = [line for line in typed.said if line.startswith("Watchpoint 1: ")]
    assert [f"by add (pe.csl:{STORE})" in line for line in stops[1:]] == [True] * 3
    shown = [line for line in typed.said if line.startswith("out[0] = ")]
    assert shown == [f"out[0] = i32 {value}" for value in (2, 3, 5)]


def test_a_run_goes_on_to_a_cycle(program: Program) -> None:
    _, typed = debugged(program, "until 30", "until +5", "until 10")
    assert typed.after("until 30")[0] == "Cycle 30."
    assert typed.after("until +5")[0] == "Cycle 35."
    assert "It is cycle 35 already" in typed.after("until 10")[0]


def test_states_of_tasks_are_shown(program: Program) -> None:
    _, typed = debugged(program, "tasks", "break done", "continue", "tasks", "symbols gri", "info")
    assert any("local task 9 (done): waits for its activation" in line for line in typed.said)
    assert any("local task 9 (done): running" in line for line in typed.said)
    assert "24 bytes  grid" in typed.after("symbols gri")[0]
    assert typed.after("info") == ["1  done"]


def test_source_lines_are_listed_and_go_on(program: Program) -> None:
    _, typed = debugged(program, f"list pe.csl:{ADD}", "list")
    first = typed.after(f"list pe.csl:{ADD}")
    assert first[5] == f"{ADD:>5}  {CODE.splitlines()[ADD - 1]}"
    assert typed.after("list")[0].startswith(f"{ADD + 6:>5}")


def test_a_run_that_fails_stands_still_where_it_did() -> None:
    wrong = CODE.replace("grid[1, 2] = 9.0;", "@assert(total > 100);")
    program = compile_files({**FILES, "pe.csl": wrong}, memcpy=True).program
    assert program is not None
    with pytest.raises(FabricError, match="@assert does not hold"):
        debugged(program, "continue", "print total", sources={"pe.csl": wrong})


def test_every_command_has_help(program: Program) -> None:
    _, typed = debugged(program, "help", "help watch")
    assert len(typed.after("help")) == len(COMMANDS)
    assert typed.after("help watch")[0].startswith("watch SYMBOL")


_OF_MAIN = [row for row in ROWS if row.calls == (Launch("main"),) and not row.refused]
ROWS_OF_CYCLES = [row for row in _OF_MAIN if "wse2" in row.architectures][::6]


@pytest.mark.parametrize("row", ROWS_OF_CYCLES, ids=lambda row: row.name)
def test_stops_change_neither_results_nor_cycles(row: Row) -> None:
    """A breakpoint on every line of the program's code, each passed by `continue`."""
    program = compile_files(row.texts(), memcpy=True, **row.options).program
    assert program is not None
    plain, _ = debugged(program, sources=row.texts())
    count = row.texts()["pe.csl"].count("\n") + 1
    breaks = [f"break pe.csl:{line}" for line in range(1, count + 1)]
    stopped, typed = debugged(program, *breaks, *["continue"] * 2000, sources=row.texts())
    assert stopped.cycle() == plain.cycle()
    assert stopped.read_symbol(0, 0, "out") == plain.read_symbol(0, 0, "out")
    assert any(line.startswith("Breakpoint ") and ", cycle" in line for line in typed.said)


def test_a_core_file_is_opened_later_with_the_same_commands(
    program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_container(program, tmp_path / "out", sources=FILES)
    core, commands = tmp_path / "core", tmp_path / "commands"
    debugged(program, "break done", "continue", f"dump {core}")
    commands.write_text("print grid[1]\nprint pair\nstep\ntasks\nlist pe.csl:3\nx 0x100 2\nquit\n")
    arguments = ["--core", str(core), "-x", str(commands), str(tmp_path / "out")]
    assert cs_debug.main(arguments) == 0
    said = capsys.readouterr().out
    assert "grid[1] = f32 2 2.5 9" in said
    assert "pair = { .left = i16 7, .right = i16 -1 }" in said
    assert said.count("error: A core file has memory alone; this needs a run.") == 2
    assert "param memcpy_params;" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--core", "{0}/none", "{0}/out"], "cannot be read"),
        (["--core", "{0}/commands", "{0}/out"], "is no core file"),
        (["--batch", "run.py"], "give it with -x FILE"),
        (["-x", "{0}/none", "run.py"], "cannot be read"),
        ([], "required"),
    ],
)
def test_a_wrong_command_line_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    (tmp_path / "commands").write_text("quit")
    assert cs_debug.main([each.format(tmp_path) for each in arguments]) == 2
    assert words in capsys.readouterr().err
