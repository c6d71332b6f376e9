#!/usr/bin/env bash
# Compiles the program beside this file and runs it on the simulated fabric; needs `make setup` only.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
PATH=$here/../../.venv/bin:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cslc "$here/layout.csl" --arch="${1:-wse2}" --fabric-dims=11,4 --fabric-offsets=4,1 \
    --params=width:4,height:2,n:64 --memcpy --channels=1 -o out
cs_python "$here/run.py" --name out
