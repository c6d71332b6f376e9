"""`appliance backup` and `appliance restore`: for whoever runs the appliance, on its machine."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from appliance.cli.data_dir import DataDir
from appliance.cli.errors import clear_errors
from appliance.cli.secret_options import no_database_password
from appliance.core.clock import SystemClock
from appliance.core.errors import UserError
from appliance.management.store.backups import Manifest, make_backup, restore_backup
from appliance.management.store.databases import kept_url
from appliance.management.store.disk import storage_errors
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
    with clear_errors(), storage_errors(directory, url):
        if file != _STANDARD_STREAM:
            target = file.absolute()
            manifest = make_backup(directory, url, target, has_keys=keys, now=now)
            typer.echo(f"{target} is {_described(manifest)}, {target.stat().st_size:,} bytes.")
            return
        if sys.stdout.isatty():
            raise UserError(
                "A backup is not written to a terminal.",
                hint="Send it to a file: appliance backup - > wsc.tar",
            )
        with _work_directory(directory, "backup") as work:
            target = work / "archive"
            manifest = make_backup(directory, url, target, has_keys=keys, now=now)
            size = target.stat().st_size
            with target.open("rb") as archive:
                shutil.copyfileobj(archive, sys.stdout.buffer)
            sys.stdout.buffer.flush()
    typer.echo(f"Written: {_described(manifest)}, {size:,} bytes.", err=True)


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
    with clear_errors(), storage_errors(directory, url), _work_directory(directory, "read") as work:
        source = file.absolute()
        if file == _STANDARD_STREAM:
            if sys.stdin.isatty():
                raise UserError(
                    "A backup is not read from a terminal.",
                    hint="Send a file: appliance restore - < wsc.tar",
                )
            source = work / "standard input"
            with source.open("xb") as archive:
                shutil.copyfileobj(sys.stdin.buffer, archive)
        manifest = restore_backup(source, directory, url, has_keys=keys, replaces=replace)
    typer.echo(f"Restored {_described(manifest)}. Start it with `appliance up`.")
    if not (keys and manifest.has_keys):
        typer.echo(_NO_KEYS)


@contextmanager
def _work_directory(data_dir: Path, purpose: str) -> Iterator[Path]:
    """Yield a directory for an archive that goes through a pipe, on the disk of what is kept.

    The system's own directory for such files may be memory, as it is in the containers.
    """
    place = data_dir if data_dir.is_dir() else None
    with tempfile.TemporaryDirectory(prefix=f".{purpose}-", dir=place) as name:
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
