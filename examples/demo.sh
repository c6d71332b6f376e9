#!/usr/bin/env bash
# The main job from end to end: start an appliance with two simulated systems, train a byte-level GPT on
# the Python standard library's source with the public client, look at the queue, go on from the
# checkpoint, stop the appliance. Fails unless the loss has clearly fallen.
set -euo pipefail

readonly here=$(cd "$(dirname "$0")" && pwd)
readonly client=${WSC_CLIENT_VENV:-$HOME/.cache/wsc/client-2.10.0}
readonly steps=${DEMO_STEPS:-60} resumed_steps=${DEMO_RESUMED_STEPS:-5}
# A byte drawn evenly from 256 costs 5.55 nats; letter frequencies alone come to about 3.3.
readonly want_loss=${DEMO_WANT_LOSS:-3.0}

readonly work=$(mktemp -d -t wsc-demo-XXXXXXXX)
finish() {
    local status=$?
    appliance down --data-dir "$work/appliance" || true
    if [ "$status" -ne 0 ] && [ -d "$work/appliance" ]; then
        echo "demo: failed; the logs are in $work" >&2
    else
        rm -rf "$work"
    fi
    exit "$status"
}
trap finish EXIT
say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }

say appliance up --systems 2
appliance up --systems 2 --port 0 --rest-port 0 --data-dir "$work/appliance"
export CSCONFIG_PATH=$work/appliance/config_v2

# Only the last argument names a file: the client's output goes there as well.
train() {
    local log=${*: -1}
    set -- "${@:1:$#-1}"
    say python examples/gpt/train_gpt.py "$@"
    (cd "$work" && PATH=$client/bin:$PATH python "$here/gpt/train_gpt.py" \
        --num-csx 2 --checkpoint-dir "$work/checkpoints" "$@") 2>&1 | tee "$log"
}
losses() { sed -nE 's/^train step=[0-9]+ loss=([0-9.]+).*/\1/p' "$1"; }

train --steps "$steps" --eval-steps 8 "$work/first.log"

say csctl get jobs -a
csctl get jobs -a

train --steps "$resumed_steps" --eval-steps 2 --resume "$work/resumed.log"

say csctl get jobs -a
csctl get jobs -a
say csctl get cluster
csctl get cluster

readonly first_loss=$(losses "$work/first.log" | head -n 1)
readonly last_loss=$(losses "$work/first.log" | tail -n 1)
readonly resumed_loss=$(losses "$work/resumed.log" | head -n 1)
printf '\nLoss %s -> %s in %s steps (must end below %s); resumed at %s.\n' \
    "$first_loss" "$last_loss" "$steps" "$want_loss" "$resumed_loss"
awk -v last="$last_loss" -v resumed="$resumed_loss" -v want="$want_loss" \
    'BEGIN { exit !(last > 0 && last < want && resumed > 0 && resumed < want + 0.3) }'
