"""Runs a public example as its command file says, on an appliance: example.py COMMAND_FILE.

What `cslc` is told goes to SdkCompiler; SdkLauncher stages the other files and runs the lines that
say `cs_python` after it. An example of `SdkLayout` compiles nothing before: its artifact is an
archive of its files.
"""

import shlex
import shutil
import sys
import tarfile
from itertools import groupby
from pathlib import Path

from cerebras.sdk.client import SdkCompiler, SdkLauncher

TEMPLATE = "%python_sdk_paint"
SHARED = "../../benchmark-libs"
STAGED = Path("staged")
ARTIFACT = Path("layout_in_python.tar.gz")


def commands_in(path: Path) -> list[str]:
    """Return the lines that compile or run something."""
    text = path.read_text().replace("\\\n", " ").replace(TEMPLATE, "cs_python run.py")
    return [line for line in text.splitlines() if line.startswith(("cslc ", "cs_python "))]


def compiled(directory: Path, line: str) -> str:
    """Compile as a line says; return the artifact.

    The client sends the sources below one directory. It is that of the layout, or the one that
    holds all examples where the sources name another's.
    """
    words = shlex.split(line)[1:]
    main = next(word for word in words if word.endswith(".csl"))
    words.remove(main)
    root = (directory / main).parent
    if any(SHARED in source.read_text() for source in root.rglob("*.csl")):
        root = directory.parent
    layout = (directory / main).relative_to(root)
    with SdkCompiler() as compiler:
        artifact: str = compiler.compile(str(root), str(layout), " ".join(words), ".")
    return artifact


def stage(directory: Path, launcher: SdkLauncher) -> None:
    """Send what is no source: from a copy, since the client packs a directory beside it."""
    if not STAGED.exists():
        shutil.copytree(directory, STAGED)
    for path in sorted(STAGED.iterdir()):
        if path.suffix not in (".csl", ".png", ".rst", ".gz"):
            launcher.stage(str(path))


def archived(directory: Path) -> str:
    """Pack the files of an example that compiles nothing before it runs."""
    with tarfile.open(ARTIFACT, "w:gz") as archive:
        for path in sorted(directory.iterdir()):
            archive.add(path, arcname=path.name)
    return str(ARTIFACT)


def main() -> None:
    path = Path(sys.argv[1]).resolve()
    commands = commands_in(path)
    artifact = "" if commands[0].startswith("cslc ") else archived(path.parent)
    for is_compile, group in groupby(commands, key=lambda line: line.startswith("cslc ")):
        if is_compile:
            *_, line = group
            artifact = compiled(path.parent, line)
            continue
        with SdkLauncher(artifact, simulator=True) as launcher:
            stage(path.parent, launcher)
            print(launcher.run(*group))


main()
