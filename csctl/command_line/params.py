"""Options and arguments, declared in the signature of a command's function.

    def show(invocation: Invocation, name: Annotated[str, argument("NAME", help="Which.")]) -> None:

click parses; this module only says what to parse. A declaration holds what a signature cannot: the
option's names, its help and its limits; type and default come from the signature.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from appliance.core.errors import UserError

Completer: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What a signature cannot say of a parameter.

    Attributes:
        help: One sentence.
        param_decls: The option's names; none takes `--` and the parameter's own name.
        metavar: What the value is called in the help.
        min: Smallest number; None sets no limit.
        max: Largest number; None sets no limit.
        show_default: Whether the help names the default.
        is_argument: Whether it is an argument and no option.
        complete: Proposes values to the shell.
        is_free: Whether words that look like options are taken as they are.
        parse: Makes the value of the text; None as the type says.
    """

    help: str
    param_decls: tuple[str, ...] = ()
    metavar: str | None = None
    min: int | None = None
    max: int | None = None
    show_default: bool = True
    is_argument: bool = False
    complete: Completer | None = None
    is_free: bool = False
    parse: Callable[[str], object] | None = None


def option(
    *names: str,
    help: str,
    metavar: str | None = None,
    min: int | None = None,
    max: int | None = None,
    show_default: bool = True,
    parse: Callable[[str], object] | None = None,
    complete: Completer | None = None,
) -> Declaration:
    """Declare an option; see `Declaration`."""
    return Declaration(
        help=help,
        param_decls=names,
        metavar=metavar,
        min=min,
        max=max,
        show_default=show_default,
        parse=parse,
        complete=complete,
    )


def argument(
    metavar: str,
    *,
    help: str,
    complete: Completer | None = None,
    is_free: bool = False,
) -> Declaration:
    """Declare an argument; a list takes all that are left; see `Declaration`."""
    return Declaration(
        help=help, metavar=metavar, is_argument=True, complete=complete, is_free=is_free
    )


class EnumChoice(click.Choice[str]):
    """One of the values of an enumeration."""

    def __init__(self, enumeration: type[StrEnum]) -> None:
        super().__init__([str(member.value) for member in enumeration])
        self._enumeration = enumeration

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> StrEnum:
        """Return the member of that value."""
        return self._enumeration(super().convert(str(value), param, ctx))


class _PathType(click.Path):
    """A path, which is not empty: Python would take that for the working directory."""

    # `Any`: as click has it.
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """Return the path."""
        if value == "":
            self.fail("the path is empty; is a variable of your shell unset?", param, ctx)
        return super().convert(value, param, ctx)


class _Parsed(click.ParamType[Any]):
    """A value that a function makes of its text.

    Args:
        parse: It; raises `UserError`.
    """

    name = "text"

    def __init__(self, parse: Callable[[str], object]) -> None:
        self._parse = parse

    # `Any`: as click has it.
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """Return the value."""
        try:
            return self._parse(str(value))
        except UserError as error:
            self.fail(str(error), param, ctx)


class ExplainedCommand(click.Command):
    """A command whose help explains its arguments too."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments, then the options."""
        rows = [
            (each.make_metavar(ctx), vars(each)["explanation"])
            for each in self.params
            if isinstance(each, click.Argument)
        ]
        if rows:
            with formatter.section("Arguments"):
                formatter.write_dl(rows)
        super().format_options(ctx, formatter)


def parameters_of(function: Callable[..., object], *, skip: int = 0) -> list[click.Parameter]:
    """Return what click is to parse for a function.

    Args:
        function: Its parameters are `Annotated` with `option(...)` or `argument(...)`.
        skip: Leading parameters that are not parsed.
    """
    declared = list(inspect.signature(function).parameters.values())[skip:]
    return [_parameter(each) for each in declared]


def _parameter(declared: inspect.Parameter) -> click.Parameter:
    kind, info = get_args(declared.annotation)
    inner, is_list = _plain(kind)
    has_default = declared.default is not inspect.Parameter.empty
    if getattr(info, "is_argument", False):
        return _argument(declared.name, info, inner, is_list=is_list, is_required=not has_default)
    return _option(
        declared.name, info, inner, declared.default if has_default else None, is_list=is_list
    )


def _refuse_empty(ctx: click.Context, param: click.Parameter, value: object) -> object:
    """Return an option's value, but refuse an empty one: a variable of the shell is not set."""
    given = value if param.multiple and isinstance(value, tuple) else (value,)
    source = ctx.get_parameter_source(str(param.name))
    if source is ParameterSource.COMMANDLINE and "" in given:
        raise click.BadParameter(
            "the value is empty; leave the option out, or set the variable of your shell.",
            ctx,
            param,
        )
    return value


def _plain(kind: Any) -> tuple[type, bool]:  # noqa: ANN401 - an annotation
    """Return the type of one value, and whether there may be several."""
    if get_origin(kind) in (Union, UnionType):
        kind = next(each for each in get_args(kind) if each is not NoneType)
    if get_origin(kind) is list:
        return get_args(kind)[0], True
    return kind, False


def _option(
    name: str, info: Declaration, kind: type, default: object, *, is_list: bool
) -> click.Option:
    if isinstance(default, StrEnum):
        default = str(default.value)  # click would show the member's name
    names = [*(info.param_decls or (f"--{name.replace('_', '-')}",)), name]
    if kind is bool:
        return click.Option(names, is_flag=True, default=bool(default), help=info.help)
    return click.Option(
        names,
        type=_type(kind, info),
        default=None if is_list else default,
        multiple=is_list,
        metavar=info.metavar,
        help=info.help,
        show_default=info.show_default and default not in (None, ""),
        callback=_refuse_empty,
        shell_complete=info.complete,
    )


def _argument(
    name: str, info: Declaration, kind: type, *, is_list: bool, is_required: bool
) -> click.Argument:
    made = click.Argument(
        [name],
        type=click.UNPROCESSED if info.is_free else _type(kind, info),
        nargs=-1 if is_list else 1,
        required=is_required,
        metavar=info.metavar,
        shell_complete=info.complete,
    )
    vars(made)["explanation"] = info.help
    return made


def _type(kind: type, info: Declaration) -> click.ParamType[Any]:
    if info.parse is not None:
        return _Parsed(info.parse)
    if issubclass(kind, StrEnum):
        return EnumChoice(kind)
    if issubclass(kind, Path):
        return _PathType(path_type=Path)
    is_limited = info.min is not None or info.max is not None
    if kind is int:
        return click.IntRange(info.min, info.max) if is_limited else click.INT
    if kind is float:
        return click.FloatRange(info.min, info.max) if is_limited else click.FLOAT
    return click.STRING


def values_of(
    given: Mapping[str, object], parameters: Sequence[click.Parameter]
) -> dict[str, object]:
    """Return parsed values as functions expect them: several are a list, none an empty one."""
    several = {each.name for each in parameters if each.nargs == -1 or each.multiple}
    return {
        name: list(value) if name in several and isinstance(value, tuple) else value
        for name, value in given.items()
    }
