from enum import StrEnum
from pathlib import Path
from typing import Annotated

import click
import pytest

from csctl.command_line.params import ExplainedCommand, argument, option, parameters_of, values_of


class Shade(StrEnum):
    DARK = "dark"
    LIGHT = "light"


def paint(  # noqa: PLR0917 - a command
    names: Annotated[list[str], argument("NAME...", help="What to paint.")],
    shade: Annotated[Shade, option("-s", "--shade", help="How.")] = Shade.DARK,
    coats: Annotated[int, option(min=1, max=3, help="How often.")] = 1,
    tin: Annotated[Path | None, option(help="From where.")] = None,
    tags: Annotated[list[str] | None, option("--tag", help="Marks.")] = None,
    dry: Annotated[bool, option("--dry", help="Only say so.")] = False,
    name: Annotated[str, option("--name", help="Of the picture.")] = "",
) -> None:
    """Paint."""


def parse(*words: str) -> dict[str, object]:
    parameters = parameters_of(paint)
    context = ExplainedCommand("paint", params=parameters).make_context("paint", list(words))
    return values_of(context.params, parameters)


def test_defaults_come_from_the_signature() -> None:
    assert parse("wall") == {
        "names": ["wall"],
        "shade": Shade.DARK,
        "coats": 1,
        "tin": None,
        "tags": [],
        "dry": False,
        "name": "",
    }


def test_values_have_the_types_of_the_signature() -> None:
    given = parse("a", "b", "-s", "light", "--coats", "3", "--tin", "x", "--tag", "p", "--dry")

    assert given == {
        "names": ["a", "b"],
        "shade": Shade.LIGHT,
        "coats": 3,
        "tin": Path("x"),
        "tags": ["p"],
        "dry": True,
        "name": "",
    }
    assert isinstance(given["shade"], Shade)


@pytest.mark.parametrize("words", [("wall", "--coats", "4"), ("wall", "-s", "red"), ()])
def test_what_the_signature_does_not_allow_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(click.UsageError):
        parse(*words)


def test_the_help_names_defaults_and_explains_arguments() -> None:
    made = ExplainedCommand("paint", params=parameters_of(paint))
    text = made.get_help(click.Context(made))

    assert "[default: dark]" in text
    assert "What to paint." in text


@pytest.mark.parametrize(
    "words", [("--name", ""), ("--name=",), ("--tag", "a", "--tag", ""), ("--tin", "")]
)
def test_an_empty_value_is_an_unset_variable_and_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(click.UsageError, match="is empty"):
        parse("wall", *words)


def test_a_default_may_be_empty() -> None:
    assert parse("wall")["name"] == ""
