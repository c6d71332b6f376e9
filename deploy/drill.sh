#!/usr/bin/env bash
# drill.sh NAMESPACE [OPTIONS OF HELM...]
#
# Takes the appliance through its life on the cluster of KUBECONFIG, and ends at the first thing that
# is not as docs/deployment.md says: install, train, drain a node and upgrade under a run, uninstall,
# reinstall, train. Losses must be the same in all of them, and users and jobs must be there after the
# reinstallation. The namespace is made if it is missing; nothing of it is left at the end, unless
# something was not right.
#
#   deploy/drill.sh drill --set systems.count=2
#
# Where users are elsewhere than in the pod of examples/user-node.yaml, variables say how to get there:
#   WSC_DRILL_USER    runs a shell command as a user with the client; it is one argument
#   WSC_DRILL_ADMIN   runs `appliance` with arguments as the administrator
#   WSC_DRILL_STEPS   steps of a run that is to be disturbed (400)
#   WSC_DRILL_SHORT   steps of the others (60)
#   WSC_DRILL_OPTIONS further options of examples/gpt/train_gpt.py for all runs
# Jobs run in a namespace of their own if one is named, which exists and has the claim of
# examples/team-namespace.yaml:
#   WSC_DRILL_JOBS    the namespace; the session of all jobs, job-operator, is mapped to it
set -euo pipefail

[ $# -ge 1 ] || { echo "usage: $0 NAMESPACE [OPTIONS OF HELM...]" >&2; exit 2; }
readonly namespace=$1
shift
readonly jobs=${WSC_DRILL_JOBS:-$namespace}
[ "$jobs" = "$namespace" ] || set -- "$@" --set "sessions.job-operator.namespace=$jobs"
readonly options=("$@")
readonly root=$(cd "$(dirname "$0")/.." && pwd)
readonly release=drill name=drill-wsc-appliance steps=${WSC_DRILL_STEPS:-400}
readonly short=${WSC_DRILL_SHORT:-60}
readonly work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { echo "drill: $*"; }
fail() { echo "drill: $*" >&2; exit 1; }
kube() { kubectl --namespace "$namespace" "$@"; }
in_jobs() { kubectl --namespace "$jobs" "$@"; }
in_helm() { helm --namespace "$namespace" "$@"; }

as_admin() {
    if [ -n "${WSC_DRILL_ADMIN:-}" ]; then $WSC_DRILL_ADMIN "$@"; else
        kube exec "deploy/$name" -- appliance "$@"
    fi
}

as_user() {
    if [ -n "${WSC_DRILL_USER:-}" ]; then $WSC_DRILL_USER "$1"; else
        kube exec user-node -- sh -c "$1"
    fi
}

# make_user: a token, and a pod where the user works, by the commands of docs/deployment.md.
make_user() {
    [ -z "${WSC_DRILL_USER:-}" ] || return 0
    as_admin token create user --uid 1000 --gid 1000 >"$work/token"
    kube exec "deploy/$name" -- cat /var/lib/wsc/wafer-appliance/config_v2 >"$work/config_v2"
    kube create secret generic user --from-file=user.token="$work/token" \
        --from-file=config_v2="$work/config_v2"
    kube apply -f "$root/examples/user-node.yaml"
    kube wait --for=condition=Ready pod/user-node --timeout=300s
    as_user 'cp -r /opt/examples/gpt ~'
}

install() {
    in_helm install "$release" "$root/helm/wsc-appliance" --create-namespace --wait --timeout 10m \
        --set 'jobs.userVolumes[0].name=home' --set 'jobs.userVolumes[0].path=/home/user' \
        --set 'jobs.userVolumes[0].claim=user-home' "${options[@]}" >"$work/helm.log" ||
        fail "helm install: $(tail -n 5 "$work/helm.log")"
}

# train NAME STEPS: run the example; its losses are in $work/NAME.
train() {
    as_user "cd ~/gpt && rm -rf drill-$1 && python train_gpt.py --num-csx 2 --steps $2 --checkpoint-dir drill-$1 ${WSC_DRILL_OPTIONS:-}" \
        >"$work/$1.log" 2>&1 ||
        fail "the run '$1' failed: $(tail -n 15 "$work/$1.log")"
    grep -o 'step=[0-9]* loss=[0-9.]*' "$work/$1.log" >"$work/$1" || fail "'$1' printed no losses"
    say "$1: $(tail -n 1 "$work/$1")"
}

# same_losses A B: as far as the shorter of two runs went.
same_losses() {
    local -i lines other
    lines=$(wc -l <"$work/$1") other=$(wc -l <"$work/$2")
    [ "$lines" -le "$other" ] || lines=$other
    diff <(head -n "$lines" "$work/$1") <(head -n "$lines" "$work/$2") >"$work/diff" ||
        fail "losses of '$1' and '$2' differ: $(head -n 4 "$work/diff")"
}

# await_steps NAME RUN: wait until a run, which the process RUN is, has trained two steps.
await_steps() {
    local -i tries
    for ((tries = 0; tries < 1200; tries++)); do
        ! grep -qs 'step=2 ' "$work/$1.log" || return 0
        kill -0 "$2" 2>/dev/null || fail "the run '$1' ended before its second step"
        sleep 1
    done
    fail "the run '$1' has not trained two steps within 20 minutes"
}

# await_refusal LOG DRAIN: wait until a drain, which the process DRAIN is, was refused a pod.
await_refusal() {
    local -i tries
    for ((tries = 0; tries < 600; tries++)); do
        ! grep -qs "violate the pod's disruption budget" "$1" || return 0
        kill -0 "$2" 2>/dev/null || fail "the drain did not wait for the run: $(tail -n 5 "$1")"
        sleep 1
    done
    fail "the drain was not refused a pod within 10 minutes: $(tail -n 5 "$1")"
}

# disturb_a_run: drain a node under a run and, while the drain waits for it, upgrade.
disturb_a_run() {
    local run node drain
    train disturbed "$steps" &
    run=$!
    await_steps disturbed "$run"
    node=$(in_jobs get pods -l wsc.open-appliance.org/role=chief -o 'jsonpath={.items[0].spec.nodeName}')
    say "draining node $node, on which a job runs"
    kubectl drain "$node" --ignore-daemonsets --delete-emptydir-data --force --timeout=30m \
        --pod-selector=app.kubernetes.io/component=job >"$work/drain.log" 2>&1 &
    drain=$!
    await_refusal "$work/drain.log" "$drain"
    kubectl uncordon "$node" >/dev/null # it may be the only one, and the upgrade needs room
    say "upgrading while a job runs"
    in_helm upgrade "$release" "$root/helm/wsc-appliance" --reset-then-reuse-values --wait --timeout 10m \
        --set jobs.placementSeconds=301 >"$work/helm.log" || fail "helm upgrade: $(tail "$work/helm.log")"
    wait "$run" || fail "a drain and an upgrade ended the run: $(tail -n 5 "$work/drain.log")"
    wait "$drain" || fail "the drain failed though the job has ended: $(tail -n 5 "$work/drain.log")"
}

uninstall() {
    local left where
    ! "$root/deploy/remove-data.sh" "$namespace" "$release" >"$work/refused" 2>&1 ||
        fail "deploy/remove-data.sh has removed data of a release that runs"
    grep -q "is installed" "$work/refused" || fail "deploy/remove-data.sh: $(cat "$work/refused")"
    in_helm uninstall "$release" --wait --timeout 10m >"$work/helm.log" ||
        fail "helm uninstall: $(tail "$work/helm.log")"
    for where in "$namespace" "$jobs"; do
        kubectl -n "$where" wait --for=delete pod -l "app.kubernetes.io/instance=$release" --timeout=300s \
            >/dev/null 2>&1 || :
        left=$(kubectl -n "$where" get \
            deployments,statefulsets,services,pods,jobs,leases,roles,rolebindings,configmaps,wsjobs,wscsystems \
            -l "app.kubernetes.io/instance=$release" -o name)
        [ -z "$left" ] || fail "helm uninstall has left in $where: $left"
    done
    [ -z "$(kube get lease "$name" -o name --ignore-not-found)" ] || fail "the Lease was not given back"
}

num_jobs() { as_user 'csctl get jobs -a' | grep -c 'wsjob-'; }

say "installing into $namespace"
install
make_user
train first "$short"
disturb_a_run
same_losses first disturbed
readonly known=$(num_jobs)
say "uninstalling"
uninstall
say "installing again"
install
[ "$(num_jobs)" -ge "$known" ] || fail "$known jobs were known before, $(num_jobs) are now"
train again "$short"
same_losses first again
say "removing everything"
in_helm uninstall "$release" --wait --timeout 10m >/dev/null
[ -n "${WSC_DRILL_USER:-}" ] || kube delete -f "$root/examples/user-node.yaml" secret/user >/dev/null 2>&1 || :
"$root/deploy/remove-data.sh" "$namespace" "$release" "$jobs" >/dev/null
left=$(for where in "$namespace" "$jobs"; do
    kubectl -n "$where" get secrets,persistentvolumeclaims,leases,wsjobs,wscsystems \
        -l "app.kubernetes.io/instance=$release" -o name
done)
[ -z "$left" ] || fail "deploy/remove-data.sh has left: $left"
say "everything is as docs/deployment.md says"
