"""Makes the flags of a command, such as `appliance up`, from the fields of a settings dataclass."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from appliance.management.options.setting_field import PlacedSetting, settings_of

Command = TypeVar("Command", bound=Callable[..., None])


def with_settings(
    root: type, *, callbacks: Mapping[str, Callable[[str], str]]
) -> Callable[[Command], Command]:
    """Return a decorator that gives a command a flag for each setting, after its own.

    Args:
        root: The dataclass whose settings they are.
        callbacks: Validators of flags, by the name of the setting.
    """

    def decorate(command: Command) -> Command:
        own = inspect.signature(command)
        named = [each for each in own.parameters.values() if each.kind is not each.VAR_KEYWORD]
        flags = [_parameter(each, callbacks.get(each.name)) for each in settings_of(root)]
        signature = own.replace(parameters=sorted([*named, *flags], key=lambda each: each.kind))
        command.__signature__ = signature  # type: ignore[attr-defined]  # how Typer reads it
        return command

    return decorate


def _parameter(each: PlacedSetting, callback: Callable[[str], str] | None) -> inspect.Parameter:
    return inspect.Parameter(
        each.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None if each.about.is_file else each.default,
        annotation=Annotated[_type_of(each), _option(each, callback)],
    )


# `Any`: a type, or a union of types.
def _type_of(each: PlacedSetting) -> Any:  # noqa: ANN401 - see above
    return Path | None if each.about.is_file else each.type


def _option(each: PlacedSetting, callback: Callable[[str], str] | None) -> Any:  # noqa: ANN401 - Typer's own
    about = each.about
    return typer.Option(
        *_names(each), help=about.help, show_default=about.shown or True, callback=callback
    )


def _names(each: PlacedSetting) -> Iterator[str]:
    """Yield the flag; without the one that negates it, as every switch is off by default."""
    yield each.about.flag or f"--{each.name.replace('_', '-')}"
