#!/bin/sh
# In a container of its own: an embedded appliance with two systems, and the example on it.
set -eu
cp -r /opt/examples/gpt /tmp/gpt
cd /tmp/gpt
appliance up --systems 2 --kernels rule --port 0 --rest-port 0 >&2
export CSCONFIG_PATH="$XDG_DATA_HOME/wafer-appliance/config_v2" PATH="/opt/client/bin:$PATH"
status=0
python /opt/tests/losses.py "$@" || status=$?
appliance down >&2
exit "$status"
