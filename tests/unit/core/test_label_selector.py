"""Selectors: what each of kubectl's forms means, and what is none of them."""

import pytest

from appliance.core.errors import UserError
from appliance.core.queries.label_selector import LabelRequirement, parse_selector

LABELS = {"model": "gpt", "seed": "1", "empty": ""}


@pytest.mark.parametrize(
    ("text", "is_true"),
    [
        ("model=gpt", True),
        ("model==gpt", True),
        ("model = gpt", True),
        ("model=bert", False),
        ("empty=", True),
        ("seed=", False),
        ("none=", False),
        ("model!=gpt", False),
        ("model != bert", True),
        ("none!=gpt", True),
        ("empty!=", False),
        ("seed in (1,2)", True),
        ("seed in ( 2 , 1 )", True),
        ("seed in (2)", False),
        ("seed in(1)", True),
        ("empty in (,1)", True),
        ("none in (1)", False),
        ("seed notin (1,2)", False),
        ("seed notin (2)", True),
        ("none notin (1)", True),
        ("seed", True),
        ("empty", True),
        ("none", False),
        ("!seed", False),
        ("! none", True),
        ("in in (in)", False),
        ("seed in (1,2),model=gpt,!none", True),
        ("seed in (1,2),model=gpt,!empty", False),
    ],
)
def test_a_selector_means_what_it_means_to_kubectl(text, is_true):
    wanted = parse_selector([text])
    assert all(each.accepts(LABELS) for each in wanted) is is_true
    assert parse_selector([",".join(each.text for each in wanted)]) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "a=1,",
        ",a=1",
        "a=1,,b=2",
        "=1",
        "!=1",
        "!",
        "!!a",
        "!a=1",
        "a=b=c",
        "a===b",
        "a=>1",
        "a>1",
        "a<1",
        "a~1",
        "a b",
        "a in",
        "a in 1,2",
        "a in ()x",
        "a in (1",
        "a in 1)",
        "a in (1),(2)",
        "a in ((1))",
        "a isin (1)",
        "a not in (1)",
        "a IN (1)",
        "(a in (1))",
        "a exists",
        "-a=1",
        "a=b-",
        "a=*",
        "a=1\n",
        "a=" + "x" * 64,
    ],
)
def test_what_is_no_selector_is_refused_with_its_words(text):
    with pytest.raises(UserError, match="is not understood") as caught:
        parse_selector([text])
    assert text in caught.value.message
    assert "key notin (a,b)" in caught.value.hint


def test_selectors_add_up_and_what_comes_twice_counts_once():
    wanted = parse_selector(["a=1", "b", "a=1,b"])
    assert wanted == (LabelRequirement(key="a", values=("1",)), LabelRequirement(key="b"))


def test_two_values_of_one_label_are_a_slip():
    with pytest.raises(UserError, match="'a' is to be '1' and '2'"):
        parse_selector(["a=1", "a in (2)"])


def test_a_selector_that_is_too_long_is_refused_before_it_is_read():
    values = ",".join(str(number) for number in range(3000))
    assert len(parse_selector([f"seed in ({values})"])[0].values) == 3000
    for texts in (["," * 20_000], ["a" * 10_000, "b" * 10_000], [f"a in ({values},{values})"]):
        with pytest.raises(UserError, match="characters; 16,384 are the most"):
            parse_selector(texts)
