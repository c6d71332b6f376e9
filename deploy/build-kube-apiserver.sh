#!/usr/bin/env bash
# Builds a real kube-apiserver for the tests: `build-kube-apiserver.sh DIR`; the binary is
# DIR/bin/kube-apiserver, and nothing else is left in DIR. Some 6 minutes of two cores, and 4 GB of
# disk meanwhile.
#
# Debian carries Kubernetes as source alone (1.20.2), with all that it needs in its vendor directory,
# so this takes Debian's archive and nothing else from the network. Old, but CRDs, the status
# subresource, watches, leases and RBAC are what they are today. Needs root once, for Debian's Go and
# etcd; where they are installed, any user will do.
set -euo pipefail

[ $# -eq 1 ] || { echo "usage: $0 DIR" >&2; exit 2; }
readonly version=1.20.2
mkdir -p "$1"
readonly target=$(cd "$1" && pwd)

# Debian packages by a file that shows that they are there.
missing_packages() {
    [ -x /usr/bin/etcd ] || echo etcd-server
    [ ! -x "$target/bin/kube-apiserver" ] || return 0
    [ -x /usr/bin/go ] || echo golang-go
    [ -x /usr/bin/rsync ] || echo rsync
    [ -x /usr/bin/jq ] || echo jq
    [ -x /usr/bin/make ] || echo make
    [ -x /usr/bin/dpkg-source ] || echo dpkg-dev
    [ -d /usr/share/gocode/src/github.com/modern-go/reflect2 ] ||
        echo golang-github-modern-go-reflect2-dev
}

mapfile -t missing < <(missing_packages)
if [ "${#missing[@]}" -gt 0 ]; then
    if [ "$(id -u)" -ne 0 ]; then
        echo "build-kube-apiserver: not installed: ${missing[*]}" >&2
        echo "                      Run: sudo apt-get install ${missing[*]}" >&2
        exit 2
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        "${missing[@]}" >/dev/null
fi
if [ -x "$target/bin/kube-apiserver" ]; then
    exit 0
fi

readonly work=$(mktemp -d "$target/.build-XXXXXX")
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT # Go leaves directories that cannot be written

# Fetch the source by a package list of our own, so that the machine's is left as it is.
fetch_source() {
    local apt=$work/apt list
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    if [ -f /etc/apt/sources.list.d/debian.sources ]; then
        list=$apt/source.sources
        sed 's/^Types:.*/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >"$list"
    else
        list=$apt/source.list
        sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >"$list"
    fi
    local options=(-o "Dir::Etc::sourcelist=$list" -o Dir::Etc::sourceparts=/dev/null
        -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update -qq
    (cd "$work" && apt-get "${options[@]}" source -qq --download-only kubernetes)
    # apt has checked the files against the signed archive already.
    dpkg-source --no-check -x "$work"/kubernetes_*.dsc "$work/k8s" >/dev/null
}

# reflect2 1.0.1, which Kubernetes 1.20 carries, crashes when built by Go 1.18 or later.
replace_reflect2() {
    local vendored=$work/k8s/vendor/github.com/modern-go/reflect2
    rm -f "$vendored"/*.go "$vendored"/*.s
    cp /usr/share/gocode/src/github.com/modern-go/reflect2/*.{go,s} "$vendored/"
}

build() {
    cd "$work/k8s"
    mkdir -p "$work/home" .go/src/k8s.io
    [ -e .go/src/k8s.io/kubernetes ] || ln -s ../../.. .go/src/k8s.io/kubernetes
    if ! HOME=$work/home GOPATH=$work/k8s/.go CGO_ENABLED=0 GOFLAGS=-mod=vendor GOPROXY=off \
        GOSUMDB=off KUBE_GIT_COMMIT=debian KUBE_GIT_TREE_STATE=archive \
        KUBE_GIT_VERSION=v$version KUBE_GIT_MAJOR=1 KUBE_GIT_MINOR=20 \
        make WHAT=cmd/kube-apiserver >"$work/make.log" 2>&1; then
        tail -n 40 "$work/make.log" >&2
        exit 1
    fi
}

fetch_source
replace_reflect2
build
mkdir -p "$target/bin"
mv "$work/k8s/_output/local/go/bin/kube-apiserver" "$target/bin/kube-apiserver"
