#!/usr/bin/env bash
# remove-data.sh NAMESPACE RELEASE [NAMESPACE-OF-A-SESSION...]
#
# Removes for good what stays after `helm uninstall` of a release, on the cluster of KUBECONFIG: its data
# (claims of the data volume and of the bundled database, the database's password, the certificates and
# their authority), its finished wsjobs,
# also in the namespaces of sessions that are named, and its Lease and systems if they were left behind.
# Refuses while anything of the release runs. Where a namespace itself is being deleted, nobody ends its
# jobs any more: once their pods are gone, their wsjobs, for which the namespace waits, are let go. Definitions of wsjobs and wscsystems stay: another release
# may need them.
set -euo pipefail

[ $# -ge 2 ] || { echo "usage: $0 NAMESPACE RELEASE [NAMESPACE-OF-A-SESSION...]" >&2; exit 2; }
readonly namespace=$1 release=$2 group=wsc.open-appliance.org
shift 2
readonly ours="app.kubernetes.io/instance=$release"
case $release in *wsc-appliance*) name=$release ;; *) name=$release-wsc-appliance ;; esac

fail() { echo "remove-data: $*" >&2; exit 1; }
labelled() { kubectl --namespace "$1" get "$2" -l "$ours" -o "${3:-name}"; }
remove() { kubectl --namespace "$1" delete "$2" -l "$ours" --timeout=300s; }

installed=$(labelled "$namespace" deployments,statefulsets)
[ -z "$installed" ] ||
    fail "release $release is installed in $namespace; first: helm uninstall $release --namespace $namespace"
kinds=$(kubectl api-resources --api-group="$group" --output=name)
if [ -n "$kinds" ]; then
    for where in "$namespace" "$@"; do
        held=$(labelled "$where" "wsjobs.$group" \
            'jsonpath={range .items[?(@.metadata.finalizers)]}{.metadata.name} {end}')
        [ -n "$held" ] || continue
        phase=$(kubectl get namespace "$where" -o 'jsonpath={.status.phase}')
        [ "$phase" = Terminating ] ||
            fail "jobs in $where have not ended: $held; where no management is left that would end them:" \
                "kubectl --namespace $where patch wsjobs NAME --type=merge -p '{\"metadata\":{\"finalizers\":null}}'"
        running=$(labelled "$where" pods \
            'jsonpath={range .items[?(@.status.phase=="Running")]}{.metadata.name} {end}')
        [ -z "$running" ] || fail "namespace $where is being deleted, and pods of jobs still run: $running"
        for each in $held; do
            kubectl --namespace "$where" patch "wsjobs.$group" "$each" --type=merge -p '{"metadata":{"finalizers":null}}'
        done
    done
    for where in "$namespace" "$@"; do remove "$where" "wsjobs.$group"; done
    remove "$namespace" "wscsystems.$group"
fi
for where in "$namespace" "$@"; do remove "$where" pods; done  # that have ended, and hold the claims
remove "$namespace" secrets,persistentvolumeclaims,leases
kubectl --namespace "$namespace" delete lease/"$name" secret/"$name"-tls --ignore-not-found
