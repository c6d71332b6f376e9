"""`appliance token ...` and `appliance user ...`: for whoever runs the appliance, on its machine.

They work on the appliance's database, whether it runs or not: whoever may read the data directory
may administer it. A running appliance notices within a second. The database is the one that the
appliance was started with last, or the one that `WSC_DATABASE` names.
"""

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from appliance.cli.errors import clear_errors
from appliance.cli.options.data_dir import DataDir
from appliance.core.clock import SystemClock
from appliance.core.cluster.access import Account, Action, Target, UserRole
from appliance.core.errors import NotFoundError, UserError
from appliance.core.visible_text import visible
from appliance.management.access.authorization import Access, open_access
from appliance.management.access.join_tokens import JoinTokens
from appliance.management.store.databases import open_kept_database
from appliance.settings import read_settings

_SECONDS_PER_DAY = 86400
_ENTRY_POINT = "shell"

token_app = typer.Typer(
    help="Mint, list and revoke the tokens of `appliance up --tls --tokens`.", no_args_is_help=True
)
user_app = typer.Typer(help="Administer the users of the appliance.", no_args_is_help=True)

_Name = Annotated[str, typer.Argument(help="Login name of the user.")]
_Sessions = Annotated[
    list[str] | None, typer.Option("--session", help="Session that a session-admin administers.")
]


@token_app.command("create")
def create_token(
    name: _Name,
    *,
    uid: Annotated[int | None, typer.Option(help="Makes the account if it is new.")] = None,
    gid: Annotated[int | None, typer.Option(help="Primary group; the uid if not given.")] = None,
    role: Annotated[UserRole, typer.Option(help="Of a new account.")] = UserRole.USER,
    session: _Sessions = None,
    label: Annotated[str, typer.Option(help="What the token is for.")] = "",
    days: Annotated[float, typer.Option(help="Its life; 0 for no end.")] = 30.0,
    data_dir: DataDir = None,
) -> None:
    """Print a fresh token, which is shown this once.

    Example: CSAUTH_TOKEN=$(appliance token create ada --uid 1000 --gid 100)
    """
    with _access(data_dir) as access, _change(access, Action.MANAGE_TOKENS, "token", "create"):
        _ensure_account(access, name, uid=uid, gid=gid, role=role, sessions=session or [])
        seconds = int(days * _SECONDS_PER_DAY) if days else None
        typer.echo(access.tokens.mint(name, label=label, seconds=seconds).text)


@token_app.command("node")
def create_join_token(
    *,
    days: Annotated[float, typer.Option(help="Until when nodes may join with it.")] = 365.0,
    data_dir: DataDir = None,
) -> None:
    """Print a token with which `appliance node` may join; it is not kept.

    Example: appliance token node > join.token
    """
    directory = (data_dir or read_settings().data_dir).absolute()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    tokens = JoinTokens(directory, SystemClock())
    typer.echo(tokens.mint(dt.timedelta(days=days)).text)


@token_app.command("list")
def list_tokens(
    name: Annotated[str, typer.Argument(help="Only of this user.")] = "",
    *,
    data_dir: DataDir = None,
) -> None:
    """List tokens; their texts are not kept."""
    with _access(data_dir) as access:
        now = SystemClock().now()
        rows = [("ID", "USER", "CREATED", "EXPIRES", "STATE", "LABEL")]
        for token in access.tokens.list(name):
            state = "valid" if token.is_valid_at(now) else "ended"
            rows.append(
                (
                    token.id,
                    token.user,
                    _day(token.created_at),
                    _day(token.expires_at) if token.expires_at else "never",
                    "revoked" if token.revoked_at else state,
                    token.label,
                )
            )
        _print(rows)


@token_app.command("revoke")
def revoke_token(
    token: Annotated[str, typer.Argument(help="Its id, from the list.")],
    *,
    data_dir: DataDir = None,
) -> None:
    """Revoke a token and the logins that came of it."""
    with _access(data_dir) as access, _change(access, Action.MANAGE_TOKENS, "token", token):
        record = access.tokens.revoke(token)
        typer.echo(f"Token {record.id} of user {record.user} is revoked.")


@user_app.command("create")
def create_user(
    name: _Name,
    *,
    uid: Annotated[int, typer.Option(help="Numeric user id.")],
    gid: Annotated[int | None, typer.Option(help="Primary group; the uid if not given.")] = None,
    role: Annotated[UserRole, typer.Option(help="What they may do.")] = UserRole.USER,
    session: _Sessions = None,
    data_dir: DataDir = None,
) -> None:
    """Make an account.

    Example: appliance user create ada --uid 1000 --role session-admin --session team-a
    """
    with _access(data_dir) as access, _change(access, Action.MANAGE_USERS, "user", name):
        group = uid if gid is None else gid
        account = access.create_account(name, uid=uid, gid=group, role=role, sessions=session or [])
        typer.echo(f"User {account.name} (uid {account.uid}) is a {account.role.value}.")


@user_app.command("list")
def list_users(*, data_dir: DataDir = None) -> None:
    """List accounts."""
    with _access(data_dir) as access:
        rows: list[tuple[str, ...]] = [("NAME", "UID", "GID", "ROLE", "SESSIONS", "BLOCKED")]
        rows += [_account_row(account) for account in access.accounts()]
        _print(rows)


@user_app.command("set-role")
def set_role(
    name: _Name,
    role: Annotated[UserRole, typer.Argument(help="What they may do.")],
    *,
    session: _Sessions = None,
    data_dir: DataDir = None,
) -> None:
    """Change what a user may do."""
    with _access(data_dir) as access, _change(access, Action.MANAGE_USERS, "user", name):
        account = access.change_account(name, role=role, sessions=session)
        typer.echo(f"User {account.name} is a {account.role.value}.")


@user_app.command("block")
def block_user(
    uid: Annotated[int, typer.Argument(help="Numeric user id.")], *, data_dir: DataDir = None
) -> None:
    """Let a user look and end what is theirs, and no more."""
    with _access(data_dir) as access, _change(access, Action.MANAGE_USERS, "user", str(uid)):
        typer.echo(f"User {access.block(uid).name} (uid {uid}) is blocked.")


@user_app.command("unblock")
def unblock_user(
    uid: Annotated[int, typer.Argument(help="Numeric user id.")], *, data_dir: DataDir = None
) -> None:
    """Lift a block."""
    with _access(data_dir) as access, _change(access, Action.MANAGE_USERS, "user", str(uid)):
        typer.echo(f"User {access.unblock(uid).name} (uid {uid}) is not blocked.")


@user_app.command("delete")
def delete_user(name: _Name, *, data_dir: DataDir = None) -> None:
    """Forget a user and their tokens; jobs stay."""
    with _access(data_dir) as access, _change(access, Action.MANAGE_USERS, "user", name):
        access.delete_account(name)
        typer.echo(f"User {name} is forgotten.")


@contextmanager
def _access(data_dir: Path | None) -> Iterator[Access]:
    settings = read_settings()
    directory = (data_dir or settings.data_dir).absolute()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with clear_errors(), closing(open_kept_database(directory, settings.database)) as database:
        yield open_access(directory, database, SystemClock(), needs_token=False)


@contextmanager
def _change(access: Access, action: Action, kind: str, name: str) -> Iterator[None]:
    with access.change(
        access.operator, action, Target(kind=kind, name=name), entry_point=_ENTRY_POINT
    ):
        yield


def _ensure_account(
    access: Access,
    name: str,
    *,
    uid: int | None,
    gid: int | None,
    role: UserRole,
    sessions: list[str],
) -> None:
    try:
        account = access.load_account(name)
    except NotFoundError:
        if uid is None:
            raise UserError(
                f"There is no user {name!r} yet.", hint="Give --uid to make the account."
            ) from None
        group = uid if gid is None else gid
        access.create_account(name, uid=uid, gid=group, role=role, sessions=sessions)
        return
    if uid is not None and uid != account.uid:
        raise UserError(f"User {name!r} has uid {account.uid}, not {uid}.")


def _account_row(account: Account) -> tuple[str, ...]:
    return (
        account.name,
        str(account.uid),
        str(account.gid),
        account.role.value,
        ",".join(account.sessions),
        _day(account.blocked_at) if account.blocked_at else "",
    )


def _day(moment: dt.datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M")


def _print(rows: Sequence[tuple[str, ...]]) -> None:
    shown = [tuple(map(visible, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        typer.echo("  ".join(cells).rstrip())
