"""Runs commands of a user on the appliance, each of which tries something: prying.py COMMAND..."""

import json
import sys
import tarfile
from pathlib import Path

from cerebras.sdk.client import SdkCompiler, SdkLauncher

SOURCES, *COMMANDS = sys.argv[1:]
OPTIONS = (
    "--arch=wse2 --fabric-dims=11,4 --fabric-offsets=4,1 "
    "--params=width:4,height:2,n:8 -o out --memcpy --channels=1"
)

with SdkCompiler() as compiler:
    artifact = compiler.compile(SOURCES, "layout.csl", OPTIONS, ".")
with tarfile.open(artifact) as archive:
    owners = sorted({member.uid for member in archive.getmembers()})
with SdkLauncher(artifact, simulator=True) as launcher:
    launcher.stage(str(Path(SOURCES) / "run.py"))
    found = {"owners": owners, "run": launcher.run("cs_python run.py --name out")}
    found["said"] = [launcher.run(f"({command}) 2>&1 || true") for command in COMMANDS]
print(json.dumps(found))
