"""`appliance backup` and `appliance restore`: for whoever runs the appliance, on its machine."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from appliance.cli.errors import clear_errors
from appliance.cli.options.data_dir import DataDir
from appliance.cli.options.secret_options import no_database_password
from appliance.core.clock import SystemClock
from appliance.core.errors import UserError
from appliance.management.store.backups import Manifest, make_backup, restore_backup
from appliance.management.store.databases import kept_url
from appliance.management.store.storage_errors import storage_errors
from appliance.settings import read_settings

_STANDARD_STREAM = Path("-")
_File = Annotated[
    Path, typer.Argument(help="The backup: one file; - for standard output or input.")
]
_Database = Annotated[
    str,
    typer.Option(
        help="URL of the database.",
        show_default="that of the last start",
        callback=no_database_password,
    ),
]
_NO_KEYS = (
    "Keys and certificates stay as they are in the data directory; without those of the backup, "
    "tokens and configurations that users have may be good for nothing."
)


def backup(
    file: _File,
    *,
    keys: Annotated[
        bool, typer.Option(help="Keys and certificates, too: whoever reads them is anybody.")
    ] = True,
    data_dir: DataDir = None,
    database: _Database = "",
) -> None:
    """Write a backup of the appliance, which may be running, to a new file or standard output.

    It holds jobs, events, users, tokens' digests, sessions and systems as they are at one moment,
    and keys; not the logs and work directories of jobs, nor the compile cache.

    Example: appliance backup /backups/wsc-$(date +%F).tar
    """
    directory, url = _place(data_dir, database)
    now = SystemClock().now()
    with clear_errors(), storage_errors(directory, url), _to_write(file, directory) as target:
        manifest = make_backup(directory, url, target, has_keys=keys, now=now)
        size = target.stat().st_size
    is_piped = file == _STANDARD_STREAM
    subject = "Written:" if is_piped else f"{target} is"
    typer.echo(f"{subject} {_described(manifest)}, {size:,} bytes.", err=is_piped)


def restore(
    file: _File,
    *,
    keys: Annotated[bool, typer.Option(help="Put back keys and certificates, too.")] = True,
    replace: Annotated[
        bool, typer.Option("--replace", help="Even where there is a database already.")
    ] = False,
    data_dir: DataDir = None,
    database: _Database = "",
) -> None:
    """Put a backup in the place of what the appliance keeps; it must be down.

    A SQLite file that is there is moved aside. Jobs that ran when the backup was made have failed.
    A backup of a SQLite file can go into a PostgreSQL database, but not the other way.

    Example: appliance restore /backups/wsc-2026-11-01.tar --replace
    """
    directory, url = _place(data_dir, database)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with clear_errors(), storage_errors(directory, url), _to_read(file, directory) as source:
        manifest = restore_backup(source, directory, url, has_keys=keys, replaces=replace)
    typer.echo(f"Restored {_described(manifest)}. Start it with `appliance up`.")
    if not (keys and manifest.has_keys):
        typer.echo(_NO_KEYS)


@contextmanager
def _to_write(file: Path, data_dir: Path) -> Iterator[Path]:
    """Yield where a backup is to be made; one for standard output is sent once it is whole."""
    if file != _STANDARD_STREAM:
        yield file.absolute()
        return
    if sys.stdout.isatty():
        raise UserError(
            "A backup is not written to a terminal.",
            hint="Send it to a file: appliance backup - > wsc.tar",
        )
    with _work_directory(data_dir) as work:
        yield work / "backup"
        with (work / "backup").open("rb") as archive:
            shutil.copyfileobj(archive, sys.stdout.buffer)
        sys.stdout.buffer.flush()


@contextmanager
def _to_read(file: Path, data_dir: Path) -> Iterator[Path]:
    """Yield where a backup lies; one from standard input is received as a whole first."""
    if file != _STANDARD_STREAM:
        yield file.absolute()
        return
    if sys.stdin.isatty():
        raise UserError(
            "A backup is not read from a terminal.",
            hint="Send a file: appliance restore - < wsc.tar",
        )
    with _work_directory(data_dir) as work:
        with (work / "standard input").open("xb") as archive:
            shutil.copyfileobj(sys.stdin.buffer, archive)
        yield work / "standard input"


@contextmanager
def _work_directory(data_dir: Path) -> Iterator[Path]:
    """Yield a directory on the disk of what is kept: in containers the system's is memory."""
    place = data_dir if data_dir.is_dir() else None
    with tempfile.TemporaryDirectory(prefix=".backup-", dir=place) as name:
        yield Path(name)


def _place(data_dir: Path | None, database: str) -> tuple[Path, str]:
    settings = read_settings()
    directory = (data_dir or settings.data_dir).absolute()
    return directory, database or settings.database or kept_url(directory)


def _described(manifest: Manifest) -> str:
    keys = "with keys" if manifest.has_keys else "without keys"
    return (
        f"a backup of {manifest.made_at} ({manifest.engine}, revision {manifest.revision}, {keys})"
    )
