"""Volumes as a table."""

from csctl.output.table import NOT_APPLICABLE, Column
from protos.csctl.resources_pb2 import Volume

_NFS = "nfs"


def _is_nfs(volume: Volume) -> bool:
    return volume.WhichOneof("volumeSource") == _NFS


def _type(volume: Volume) -> str:
    return _NFS if _is_nfs(volume) else "hostpath"


def _container_path(volume: Volume) -> str:
    return (volume.nfs if _is_nfs(volume) else volume.host_path).container_path


def _of_nfs(volume: Volume, text: str) -> str:
    return text if _is_nfs(volume) else NOT_APPLICABLE


VOLUME_COLUMNS: tuple[Column[Volume], ...] = (
    Column(header="NAME", cell=lambda volume: volume.meta.name),
    Column(header="TYPE", cell=_type),
    Column(header="CONTAINERPATH", cell=_container_path),
    Column(header="SERVER", cell=lambda volume: _of_nfs(volume, volume.nfs.server)),
    Column(header="SERVERPATH", cell=lambda volume: _of_nfs(volume, volume.nfs.server_path)),
    Column(
        header="READONLY", cell=lambda volume: _of_nfs(volume, str(volume.nfs.readonly).lower())
    ),
)
