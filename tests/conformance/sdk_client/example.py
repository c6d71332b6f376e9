"""Runs a public example as its command file says, on an appliance: example.py COMMAND_FILE.

What `cslc` is told goes to SdkCompiler; SdkLauncher stages the scripts and runs each line that says
`cs_python`.
"""

import shlex
import sys
from pathlib import Path

from cerebras.sdk.client import SdkCompiler, SdkLauncher

path = Path(sys.argv[1])
lines = path.read_text().replace("\\\n", " ").splitlines()
(compile_line,) = (line for line in lines if line.startswith("cslc "))
run_lines = [line for line in lines if line.startswith("cs_python ")]

words = shlex.split(compile_line)[1:]
main = next(word for word in words if word.endswith(".csl"))
words.remove(main)
sources = path.parent / Path(main).parent

with SdkCompiler() as compiler:
    artifact = compiler.compile(str(sources), Path(main).name, " ".join(words), ".")
with SdkLauncher(artifact, simulator=True) as launcher:
    for script in sorted(path.parent.glob("*.py")):
        launcher.stage(str(script))
    print(launcher.run(*run_lines))
