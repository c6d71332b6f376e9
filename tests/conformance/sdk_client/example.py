"""Runs a public example as its command file says, on an appliance: example.py COMMAND_FILE.

What `cslc` is told goes to SdkCompiler; SdkLauncher stages the scripts and runs the lines that say
`cs_python` after it.
"""

import shlex
import sys
from itertools import groupby
from pathlib import Path

from cerebras.sdk.client import SdkCompiler, SdkLauncher

path = Path(sys.argv[1])
lines = path.read_text().replace("\\\n", " ").splitlines()
commands = [line for line in lines if line.startswith(("cslc ", "cs_python "))]

for is_compile, group in groupby(commands, key=lambda line: line.startswith("cslc ")):
    if is_compile:
        *_, line = group
        words = shlex.split(line)[1:]
        main = next(word for word in words if word.endswith(".csl"))
        words.remove(main)
        sources = path.parent / Path(main).parent
        with SdkCompiler() as compiler:
            artifact = compiler.compile(str(sources), Path(main).name, " ".join(words), ".")
        continue
    with SdkLauncher(artifact, simulator=True) as launcher:
        for script in sorted(path.parent.glob("*.py")):
            launcher.stage(str(script))
        print(launcher.run(*group))
