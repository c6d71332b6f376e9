"""Compiles single-tile-matvec as its `compile.appliance.py` would, which lacks an argument.

matvec.py DIRECTORY: writes the hash.json that `run.appliance.py` reads.
"""

import json
import sys
from pathlib import Path

from cerebras.sdk.client import SdkCompiler

OPTIONS = (
    "--arch wse3 --fabric-dims=9,4 --fabric-offsets=4,1 "
    "--params=width:2,height:2,tile_size:25,iters:1 -o latest --memcpy --channels=1"
)

with SdkCompiler() as compiler:
    artifact = compiler.compile(f"{sys.argv[1]}/src", "layout_matvec.csl", OPTIONS, ".")
Path("hash.json").write_text(json.dumps(artifact))
