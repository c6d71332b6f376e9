#!/usr/bin/env bash
# Installs one of the two Python environments: `setup.sh appliance DIR` or `setup.sh client DIR`;
# or the browser of the dashboard's tests: `setup.sh browser`.
# They are apart because the client pins versions (numpy, grpcio, protobuf, torch) that the appliance
# does not share; the two meet only on the wire.
set -euo pipefail

readonly what=$1 venv=${2:-}
readonly root=$(cd "$(dirname "$0")/.." && pwd)
readonly client_requirement=cerebras-pytorch==2.10.0

find_python() {
    local candidate
    for candidate in python3.11 python3; do
        if command -v "$candidate" >/dev/null &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then
            echo "$candidate"
            return
        fi
    done
}

install_debian_packages() {
    if [ "$(id -u)" -ne 0 ]; then
        echo "setup: $1 is missing and this user is not root." >&2
        echo "       Run: sudo apt-get install python3.11 python3.11-venv" >&2
        exit 2
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3.11 python3.11-venv
}

if [ "$what" = browser ]; then
    [ -x /usr/bin/chromium ] && exit 0
    if [ "$(id -u)" -ne 0 ]; then
        echo "setup: /usr/bin/chromium is missing and this user is not root." >&2
        echo "       Run: sudo apt-get install chromium" >&2
        exit 2
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null
    exit 0
fi

python=$(find_python)
if [ -z "$python" ]; then
    # The client's wheel is built for Python 3.11 alone, and the user's code objects travel to its
    # streamer, so both environments use that version.
    install_debian_packages "Python 3.11"
    python=$(find_python)
fi
"$python" -c 'import ensurepip' 2>/dev/null || install_debian_packages "Python's venv module"

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@"; }

case $what in
appliance)
    pip install -q -c "$root/constraints.txt" -e "$root[dev]"
    ;;
client)
    echo "setup: installing $client_requirement into $venv (about 6 GB, a few minutes)"
    pip install -q "$client_requirement"
    ;;
*)
    echo "setup: '$what' is neither 'appliance' nor 'client'." >&2
    exit 2
    ;;
esac
