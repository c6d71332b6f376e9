"""The checked-in stubs are exactly what the .proto files generate."""

from pathlib import Path

from protos.generate import ROOT, generate


def _stubs_below(root: Path) -> dict[str, bytes]:
    files = [*(root / "protos").rglob("*_pb2*.py"), *(root / "protos").rglob("*_pb2*.pyi")]
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def test_checked_in_stubs_are_what_the_proto_files_generate(tmp_path: Path) -> None:
    generate(tmp_path)
    want, got = _stubs_below(tmp_path), _stubs_below(ROOT)

    assert want, "no stubs generated"
    problems = [f"missing: {name}" for name in sorted(want.keys() - got.keys())]
    problems += [f"extra, delete it: {name}" for name in sorted(got.keys() - want.keys())]
    problems += [f"differs: {n}" for n in sorted(want.keys() & got.keys()) if want[n] != got[n]]
    assert not problems, "run `python -m protos.generate`:\n" + "\n".join(problems)
