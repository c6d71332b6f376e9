"""Write the Python stubs of every .proto file below this directory.

The stubs are checked in, so that neither a build nor an import needs protoc; a test regenerates
them and compares. After changing a .proto file, run `python -m protos.generate`. It never deletes:
after removing a .proto file, remove its stubs too.
"""

import argparse
import re
import sys
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
"""Repository root: imports between .proto files, and between stubs, start here."""


def generate(out: Path = ROOT) -> None:
    """Write `*_pb2.py` and `*_pb2.pyi`, and `*_pb2_grpc` likewise where a file has a service.

    Args:
        out: Existing directory that receives the tree `protos/...`; by default the stubs land
            beside their sources.

    Raises:
        RuntimeError: protoc refused a file; its reasons are on stderr.
    """
    sources = sorted((ROOT / "protos").rglob("*.proto"))
    services = [path for path in sources if re.search(r"^service\s", path.read_text(), re.M)]
    _run_protoc(sources, "python", "mypy", out=out)
    _run_protoc(services, "grpc_python", "mypy_grpc", out=out)


def _run_protoc(sources: list[Path], *generators: str, out: Path) -> None:
    scripts = Path(sys.executable).parent  # of this environment, which need not be on PATH
    arguments = ["protoc", f"-I{ROOT}", f"-I{Path(grpc_tools.__file__).parent / '_proto'}"]
    arguments += [f"--plugin={path}" for path in sorted(scripts.glob("protoc-gen-mypy*"))]
    arguments += [f"--{generator}_out={out}" for generator in generators]
    if code := protoc.main(arguments + [str(path.relative_to(ROOT)) for path in sources]):
        raise RuntimeError(f"protoc ended with status {code} for {', '.join(generators)}")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT, help="default: beside the .proto files")
    generate(parser.parse_args().out)


if __name__ == "__main__":
    main()
