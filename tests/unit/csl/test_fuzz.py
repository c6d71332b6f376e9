"""Whatever the text says, the compiler answers with a program or diagnostics, in bounded time."""

import random
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appliance.csl.compiler import compile_program
from appliance.csl.syntax import tokenize
from tests.fuzz.csl import MAX_SECONDS, answers, seeds
from tests.support.csl import Files, compile_files, compile_pe
from tests.unit.csl.test_whole_program import LAYOUT, PE

SECONDS = 5
"""CPU seconds that no compilation of a test's size may take."""
STEPS = 20_000

_NAMES = st.sampled_from(["a", "b", "f", "x", "T", "S", "u16", "f32", "color", "type", "void"])
_NUMBERS = st.sampled_from(["0", "1", "3", "-1", "255", "70000", "1.5", "0x1f", "'a'", '"s"'])
_OPERATORS = st.sampled_from(
    ["+", "-", "*", "/", "%", "<<", ">>", "==", "<", "and", "or", "&", "|", "^"]
)
_BUILTINS = st.sampled_from(
    (
        *("as", "zeros", "constants", "bitcast", "range", "get_color", "get_dsd", "type_of", "map"),
        *("fadds", "mov32", "get_int", "import_module", "activate", "comptime_assert", "strcat"),
    )
)


def _expressions() -> st.SearchStrategy[str]:
    leaf = st.one_of(_NAMES, _NUMBERS)

    def deeper(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.builds("({} {} {})".format, inner, _OPERATORS, inner),
            st.builds("{}[{}]".format, inner, inner),
            st.builds("{}.{}".format, _NAMES, _NAMES),
            st.builds("{}({})".format, _NAMES, inner),
            st.builds("@{}({}, {})".format, _BUILTINS, inner, inner),
            st.builds("@{}({})".format, _BUILTINS, inner),
            st.builds("if ({}) {} else {}".format, inner, inner, inner),
            st.builds("[{}]{}{{ {}, {} }}".format, inner, _NAMES, inner, inner),
            st.builds(".{{ .a = {}, .b = {} }}".format, inner, inner),
            st.builds(".{{ {}, {} }}".format, inner, inner),
            st.builds("&{}".format, inner),
            st.builds("{}.*".format, inner),
            st.builds("|i|{{{}}} -> {}[{}]".format, inner, _NAMES, inner),
            st.builds("switch ({}) {{ {} => {}, else => {} }}".format, inner, inner, inner, inner),
        )

    return st.recursive(leaf, deeper, max_leaves=8)


def _statements() -> st.SearchStrategy[str]:
    value = _expressions()
    leaf = st.one_of(
        st.builds("const {} = {};".format, _NAMES, value),
        st.builds("var {}: {} = {};".format, _NAMES, _NAMES, value),
        st.builds("{} = {};".format, value, value),
        st.builds("{} += {};".format, _NAMES, value),
        st.builds("{};".format, value),
        st.builds("return {};".format, value),
        st.sampled_from(["break;", "continue;", "return;"]),
    )

    def deeper(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.builds("if ({}) {{ {} }} else {{ {} }}".format, value, inner, inner),
            st.builds("while ({}) {{ {} }}".format, value, inner),
            st.builds("for (@range(u16, {})) |i| {{ {} }}".format, value, inner),
            st.builds("inline for ({}) |x| {{ {} }}".format, value, inner),
            st.builds("comptime {{ {} }}".format, inner),
            st.builds("{} {}".format, inner, inner),
        )

    return st.recursive(leaf, deeper, max_leaves=6)


def _answers(pe: str, architecture: str) -> None:
    began = time.process_time()
    compilation = compile_pe(pe, architecture=architecture, comptime_steps=STEPS)
    assert (compilation.program is None) == any(
        diagnostic.severity == "error" for diagnostic in compilation.diagnostics
    )
    assert compilation.render() is not None
    assert time.process_time() - began < SECONDS


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    top=st.lists(st.builds("const {} = {};".format, _NAMES, _expressions()), max_size=3),
    body=_statements(),
    architecture=st.sampled_from(["wse2", "wse3"]),
)
def test_programs_of_the_grammar_never_crash_the_compiler(
    top: list[str], body: str, architecture: str
) -> None:
    globals_ = "var a: [4]u16; var b: f32; fn f(x: u16) u16 { return x; } "
    code = f"fn main() void {{ {body} }} comptime {{ @export_symbol(main); {body} }}"
    _answers("\n".join([globals_, *top, code]), architecture)


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=200))
def test_any_text_is_answered(text: str) -> None:
    _answers(text, "wse2")


_WORDS = (
    *(
        "{",
        "}",
        "(",
        ")",
        ";",
        ",",
        ".",
        "0",
        "1",
        "-1",
        "65536",
        "@zeros",
        "f32",
        "u16",
        "comptime",
    ),
    *(
        "if",
        "else",
        "while",
        "true",
        "name",
        "=",
        "==",
        "&",
        "|",
        ".*",
        "[",
        "struct",
        "enum",
        "fn",
    ),
    *("task", "return", '"x"', "[*]", "*", "var", "const", "param", "inline", "for", "@as", "{}"),
    *("@get_dsd", ".{", "1.5", "color", "type", "comptime", "fn"),
)


def _mutated(text: str, chance: random.Random) -> str:
    """One token removed, doubled, exchanged, or put before another."""
    tokens = tokenize(text)[0][:-1]
    token = chance.choice(tokens)
    other = chance.choice([chance.choice(tokens).text, chance.choice(_WORDS)])
    change = chance.choice(["", token.text + " " + token.text, other, other + " " + token.text])
    return text[: token.start] + change + " " + text[token.end :]


@pytest.mark.parametrize("seed", range(8))
def test_damaged_programs_never_crash_the_compiler(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(25):
        files = {
            "layout.csl": LAYOUT,
            "pe.csl": _mutated(PE, chance),
        }
        if chance.random() < 0.4:
            files["layout.csl"] = _mutated(files["layout.csl"], chance)
        began = time.process_time()
        compile_files(files, parameters=(("size", 5),), comptime_steps=STEPS).render()
        assert time.process_time() - began < SECONDS


def test_damaged_files_are_answered_within_their_limits() -> None:
    """A short form of `python -m tests.fuzz.csl 10000`."""
    found = seeds()
    assert len(found) > 20
    made = list(answers(range(150), 18, found))
    assert [answer for answer in made if answer.problem] == []
    assert all(answer.seconds < MAX_SECONDS for answer in made)


def test_right_programs_are_right_before_they_are_damaged() -> None:
    for right in seeds()[:3]:
        result = compile_program(right.main, right.options, Files(dict(right.texts)))
        assert result.program is not None, result.render()
