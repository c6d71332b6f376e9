"""The one reader of the environment: where things go unless the command line says otherwise.

| variable | effect |
|---|---|
| `XDG_DATA_HOME` | parent of the default data directory; `~/.local/share` if unset |
| `XDG_RUNTIME_DIR` | parent of the directory for sockets, if short and, as root, open to all |
| `WSC_JOIN_TOKEN` | join token of `appliance node`, if no file with it is given |
| `OTEL_EXPORTER_OTLP_ENDPOINT` | where traces go unless `--otlp` says it; none if unset |
| `WSC_DATABASE` | `postgresql+psycopg://...`, for state, unless `--database` says otherwise |
| `WSC_NOTIFY` | file of `appliance up --notify`, unless that is given |
| `WSC_OIDC` | file of `appliance up --oidc`, unless that is given |
| `WSC_LOG_LEVEL` | lowest level that is logged: DEBUG, INFO (default), WARNING, ERROR |
"""

import hashlib
import logging
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

_NAME = "wafer-appliance"

SECRET_VARIABLES = ("WSC_DATABASE", "WSC_JOIN_TOKEN")
"""Variables that may hold secrets; no process inherits them that is told all it needs."""

_MAX_RUNTIME_PARENT = 24
"""Bytes; with our own 13 a runtime root stays below the launcher's limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the environment says.

    Attributes:
        data_dir: Default data directory.
        runtime_parent: Parent of the directories for sockets.
        log_level: Lowest level that is logged.
        join_token: Proves that this machine may join as a node; empty if not given.
        otlp_endpoint: Where traces go; empty for nowhere.
        database: URL of the database; empty for a file of the data directory, or for what the
            appliance of the data directory was started with last.
        notify: File that says how people are told of their jobs; empty for none.
        oidc: File that names an identity provider; empty for none.
    """

    data_dir: Path
    runtime_parent: Path
    log_level: int
    join_token: str = ""
    otlp_endpoint: str = ""
    database: str = ""
    notify: str = ""
    oidc: str = ""

    def runtime_root(self, data_dir: Path) -> Path:
        """Return the directory for the sockets of the appliance with this data directory.

        It is the same at every start, so that what a killed appliance left is found and removed.
        """
        digest = hashlib.sha256(str(data_dir).encode()).hexdigest()[:8]
        return self.runtime_parent / f"wsc-{digest}"


def _is_passable(directory: Path) -> bool:
    """Whether programs of all users that we run can get to what lies in a directory."""
    if not directory.is_dir():
        return False
    parents = (directory.resolve(), *directory.resolve().parents)
    return os.geteuid() != 0 or all(each.stat().st_mode & stat.S_IXOTH for each in parents)


def read_settings() -> Settings:
    """Read the environment."""
    data_home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    runtime = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    if len(runtime.encode()) > _MAX_RUNTIME_PARENT or not _is_passable(Path(runtime)):
        runtime = "/tmp"  # short, and what we make below it is private
    level = logging.getLevelNamesMapping().get(os.environ.get("WSC_LOG_LEVEL", "INFO").upper())
    return Settings(
        data_dir=Path(data_home) / _NAME,
        runtime_parent=Path(runtime),
        log_level=level or logging.INFO,
        join_token=os.environ.get("WSC_JOIN_TOKEN", ""),
        otlp_endpoint=os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", ""),
        database=os.environ.get("WSC_DATABASE", ""),
        notify=os.environ.get("WSC_NOTIFY", ""),
        oidc=os.environ.get("WSC_OIDC", ""),
    )
