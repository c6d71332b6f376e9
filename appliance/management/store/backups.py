"""Backups of an appliance: its database and, optionally, its keys, in one file; and their restore.

A backup is a tar archive. Its first member, `manifest.json`, names the contents, their version, and
the digest of every other member; nothing is restored before all digests are checked. It holds
secrets (tokens' key, environments of detached runs), so only its owner may read it.

What is not in it: logs and work directories of jobs, the compile cache, exports. Users have their
own copies of the first; the others are made again.
"""

import datetime as dt
import hashlib
import json
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path

from appliance.core.errors import ConflictError, UserError
from appliance.files.kept_files import replace_file, sync_directory
from appliance.management.store.databases import UNFINISHED, keep_url, sqlite_path
from appliance.management.store.instance import Instance
from appliance.management.store.keys import KEYS
from appliance.storage.engine.database_copies import (
    TableCopy,
    check_revision,
    copy_server,
    copy_sqlite,
    move_to_server,
    restore_server,
    restore_sqlite,
)

FORMAT = 1
SQLITE, POSTGRESQL = "sqlite", "postgresql"

_MANIFEST = "manifest.json"
_MAX_MANIFEST_BYTES = 1 << 20
_DATABASE = "state.db"
_TABLES, _KEYS = "tables", "keys"
_KEY_FILES = tuple(key.name for key in KEYS)
_KEY_DIRECTORIES = ("tls",)
_MEMBER = re.compile(r"(state\.db|tables/[a-z_]+|keys/(tls/)?[A-Za-z0-9_-]+\.[a-z]+)")
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A file of a backup.

    Attributes:
        num_bytes: Its size.
        sha256: Its digest.
    """

    num_bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> "Member":
        """Return what a file is."""
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return cls(num_bytes=path.stat().st_size, sha256=digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a backup says of itself.

    Attributes:
        format: Version of the archive's layout.
        appliance: Version of the appliance that made it.
        engine: `sqlite` or `postgresql`.
        revision: Of the database's schema.
        made_at: When, as ISO 8601.
        members: Its files by their names.
        tables: Tables of a server's database, in the order in which they are filled.
    """

    format: int
    appliance: str
    engine: str
    revision: str
    made_at: str
    members: dict[str, Member]
    tables: tuple[TableCopy, ...] = field(default=())

    @property
    def has_keys(self) -> bool:
        """Whether keys and certificates are in it."""
        return any(name.startswith(f"{_KEYS}/") for name in self.members)

    def to_json(self) -> bytes:
        """Return the text of the manifest."""
        return json.dumps(asdict(self), indent=1).encode()

    @classmethod
    def from_json(cls, data: bytes, source: Path) -> "Manifest":
        """Return what `to_json` wrote.

        Raises:
            UserError: It is no manifest, or of a newer version.
        """
        try:
            fields = json.loads(data)
            number = fields["format"]
            if number == FORMAT:
                fields["members"] = {
                    name: Member(**each) for name, each in fields["members"].items()
                }
                fields["tables"] = tuple(
                    TableCopy(name=each["name"], columns=tuple(each["columns"]))
                    for each in fields["tables"]
                )
                return cls(**fields)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _no_backup(source, "its manifest cannot be read") from error
        raise UserError(
            f"The backup {source} has format {number!r}; this version reads format {FORMAT}.",
            hint="Restore it with the version of the appliance that made it, or a newer one.",
        )


def make_backup(
    data_dir: Path, url: str, target: Path, *, has_keys: bool, now: dt.datetime
) -> Manifest:
    """Write a backup of an appliance, which may be running, to a file that is not there yet.

    Args:
        data_dir: The data directory.
        url: Database; empty for the file in the data directory.
        target: The backup; readable by its owner alone, and there only once it is whole.
        has_keys: Whether keys and certificates are to be in it.

    Raises:
        UserError: There is such a file already, or no appliance to make a backup of.
        ClusterError: The database is damaged, or does not answer.
    """
    if target.exists():
        raise UserError(f"There is a file {target} already.", hint="Choose another name.")
    with tempfile.TemporaryDirectory(prefix=".backup-", dir=target.parent) as name:
        directory = Path(name)
        path = sqlite_path(data_dir, url)
        tables: Sequence[TableCopy] = ()
        if path is None:
            (directory / _TABLES).mkdir()
            revision, tables = copy_server(url, directory / _TABLES)
        elif not path.exists():
            raise UserError(f"There is no appliance in {data_dir}: it has no {path.name}.")
        else:
            revision = copy_sqlite(path, directory / _DATABASE)
        if has_keys:
            _copy_keys(data_dir, directory / _KEYS)
        files = sorted(each for each in directory.rglob("*") if each.is_file())
        manifest = Manifest(
            format=FORMAT,
            appliance=metadata.version("open-wafer-appliance"),
            engine=POSTGRESQL if path is None else SQLITE,
            revision=revision,
            made_at=now.isoformat(timespec="seconds"),
            members={str(each.relative_to(directory)): Member.of(each) for each in files},
            tables=tuple(tables),
        )
        (directory / _MANIFEST).write_bytes(manifest.to_json())
        archive = directory / "archive"
        with archive.open("xb") as file, tarfile.open(fileobj=file, mode="w") as tar:
            os.fchmod(file.fileno(), 0o600)
            for member in (_MANIFEST, *manifest.members):
                tar.add(directory / member, arcname=member, recursive=False)
            file.flush()
            os.fsync(file.fileno())
        archive.rename(target)
    sync_directory(target.parent)
    return manifest


def restore_backup(
    source: Path, data_dir: Path, url: str, *, has_keys: bool, replaces: bool
) -> Manifest:
    """Put a backup in the place of what an appliance keeps; it must not be running.

    Args:
        source: The backup.
        data_dir: The data directory.
        url: Database; empty for the file in the data directory.
        has_keys: Whether keys and certificates of the backup replace those that are there.
        replaces: Whether jobs that are there may go; a SQLite file is moved aside.

    Raises:
        ConflictError: An appliance runs on it, or there are jobs and `replaces` is not set.
        UserError: The file is no backup, is damaged, or is of PostgreSQL and to go into a file.
    """
    instance = Instance(data_dir)
    instance.acquire()  # until this process ends: no appliance starts meanwhile
    path = sqlite_path(data_dir, url)
    partial = Path(tempfile.mkdtemp(prefix=".restore-", dir=data_dir))
    try:
        manifest = _unpack(source, partial)
        _check_kind(manifest, is_server=path is None)
        check_revision(manifest.revision)
        if path is None and manifest.engine == SQLITE:
            move_to_server(url, partial / _DATABASE, manifest.revision, replaces=replaces)
        elif path is None:
            tables = partial / _TABLES
            restore_server(url, tables, manifest.revision, manifest.tables, replaces=replaces)
        else:
            if path.exists() and path.stat().st_size and not replaces:
                raise ConflictError(
                    f"There is a database {path} already.",
                    hint="Give --replace to move it aside and put the backup in its place.",
                )
            restore_sqlite(partial / _DATABASE, manifest.revision)
        keys = partial / _KEYS
        if keys.exists() and not has_keys:
            shutil.rmtree(keys)
        _put_in_place(partial, data_dir, path)
        keep_url(data_dir, url)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return manifest


def _put_in_place(partial: Path, data_dir: Path, path: Path | None) -> None:
    """Move what was unpacked to where it belongs; what is half done keeps the appliance down."""
    unfinished = data_dir / UNFINISHED
    shutil.rmtree(unfinished, ignore_errors=True)
    partial.rename(unfinished)
    if path is not None:
        _move_aside(path)
        shutil.move(unfinished / _DATABASE, path)  # which may be on another disk
        sync_directory(path.parent)
    keys = unfinished / _KEYS
    for file in sorted(keys.rglob("*")):
        if file.is_file():
            target = data_dir / file.relative_to(keys)
            target.parent.mkdir(mode=0o700, exist_ok=True)
            replace_file(target, file.read_bytes())  # which may be on another disk
    shutil.rmtree(unfinished)


def _move_aside(path: Path) -> None:
    """Give a database and its log another name; a log must not meet another database."""
    number = 1
    while (aside := path.with_name(f"{path.name}.replaced-{number}")).exists():
        number += 1
    for suffix in ("-wal", "-shm", ""):
        file = Path(f"{path}{suffix}")
        if file.exists():
            file.rename(f"{aside}{suffix}")


def _copy_keys(data_dir: Path, target: Path) -> None:
    found = [data_dir / name for name in _KEY_FILES]
    for name in _KEY_DIRECTORIES:
        found += sorted((data_dir / name).glob("*"))
    for file in found:
        name = str(file.relative_to(data_dir))
        if file.is_file() and _MEMBER.fullmatch(f"{_KEYS}/{name}"):
            (target / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copyfile(file, target / name)


def _check_kind(manifest: Manifest, *, is_server: bool) -> None:
    if manifest.engine == POSTGRESQL and not is_server:
        raise UserError(
            f"The backup is of a {manifest.engine} database, and is to go into another kind.",
            hint="Name a PostgreSQL database with --database.",
        )


def _unpack(source: Path, target: Path) -> Manifest:
    """Unpack an archive, and see that every file is what the manifest says."""
    with _opened(source) as tar:
        first = tar.next()
        if first is None or first.name != _MANIFEST or first.size > _MAX_MANIFEST_BYTES:
            raise _no_backup(source, "it does not begin with a manifest")
        manifest = Manifest.from_json(_content(tar, first), source)
        found: list[str] = []
        while (entry := tar.next()) is not None:
            known = manifest.members.get(entry.name)
            if known is None or not entry.isreg() or not _MEMBER.fullmatch(entry.name):
                raise _no_backup(source, f"its manifest does not name {entry.name!r}")
            if entry.issparse() or entry.size != known.num_bytes or entry.name in found:
                raise _no_backup(source, f"{entry.name} is not what it was when it was made")
            path = target / entry.name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _extract(tar, entry, path)
            if Member.of(path) != known:
                raise _no_backup(source, f"{entry.name} is not what it was when it was made")
            found.append(entry.name)
        _check_complete(source, manifest, found)
    return manifest


def _check_complete(source: Path, manifest: Manifest, found: Sequence[str]) -> None:
    wanted = [*manifest.members, *(f"{_TABLES}/{each.name}" for each in manifest.tables)]
    if manifest.engine == SQLITE:
        wanted.append(_DATABASE)
    if missing := sorted(set(wanted) - set(found)):
        raise _no_backup(source, f"it lacks {', '.join(missing)}")


@contextmanager
def _opened(source: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(source, mode="r:") as tar:
            yield tar
    except (tarfile.TarError, EOFError) as error:
        raise _no_backup(source, str(error)) from error
    except FileNotFoundError as error:
        raise UserError(f"There is no file {source}.") from error


def _content(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(entry)
    return b"" if file is None else file.read()


def _extract(tar: tarfile.TarFile, entry: tarfile.TarInfo, path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as target:
        source = tar.extractfile(entry)
        assert source is not None
        shutil.copyfileobj(source, target, _CHUNK_BYTES)


def _no_backup(source: Path, why: str) -> UserError:
    return UserError(
        f"{source} is no whole backup of an appliance: {why}.",
        hint="Nothing was changed. Take another backup.",
    )
