#!/usr/bin/env bash
# Make images where none can be pulled: python:3.11-slim, postgres and prometheus, from Debian packages.
#   deploy/make-local-base-image.sh PREFIX
# tags PREFIX/python:3.11-slim, PREFIX/postgres:15 and PREFIX/prometheus:2, unless they are there, and
# puts the wheel of PyTorch's CPU build that pip finds on this machine into deploy/wheelhouse. Needs
# root, debootstrap and a container engine; about two minutes. The images carry this machine's
# certificate authorities and package sources: for tests on this machine, not for a registry.
set -euo pipefail
readonly prefix=$1
readonly deploy=$(cd "$(dirname "$0")" && pwd)
readonly wheelhouse=$deploy/wheelhouse
readonly work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

has() { docker image inspect "$1" >/dev/null 2>&1; }

make_base() {
    local root=$work/root file
    debootstrap --variant=minbase --include=python3,python3-venv,python3-pip,ca-certificates \
        bookworm "$root" >"$work/debootstrap.log" || { tail "$work/debootstrap.log" >&2; return 1; }
    cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
    cp /etc/apt/sources.list.d/debian.sources "$root/etc/apt/sources.list.d/" 2>/dev/null &&
        rm -f "$root/etc/apt/sources.list"
    for file in /etc/pip.conf; do [ ! -f "$file" ] || cp "$file" "$root$file"; done
    # As in Docker's own Python images: pip may install, and no file is kept that apt fetched.
    rm -f "$root"/usr/lib/python3.11/EXTERNALLY-MANAGED
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
    printf 'Dpkg::Post-Invoke {"rm -f /var/cache/apt/archives/*.deb";};\nAcquire::Languages "none";\n' \
        >"$root/etc/apt/apt.conf.d/90-image"
    for file in python python3; do ln -sf /usr/bin/python3 "$root/usr/local/bin/$file"; done
    ln -sf /usr/bin/pip3 "$root/usr/local/bin/pip"
    tar -C "$root" -c . | docker import -c 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
        -c 'ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt' -c 'ENV LANG=C.UTF-8' -c 'CMD ["python3"]' - \
        "$prefix/python:3.11-slim" >/dev/null
    rm -rf "$root"
}

make_postgres() {
    docker build -q --network host -t "$prefix/postgres:15" - >/dev/null <<DOCKERFILE
FROM $prefix/python:3.11-slim
RUN groupadd --gid 999 postgres && useradd --uid 999 --gid 999 --home-dir /var/lib/postgresql postgres \
    && apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends postgresql-15 \
    && rm -rf /var/lib/apt/lists/* /var/lib/postgresql/15 \
    && install -d -o 999 -g 999 -m 0700 /var/lib/postgresql/data && install -d -o 999 -g 999 /var/run/postgresql
ENV PATH=/usr/lib/postgresql/15/bin:/usr/local/bin:/usr/bin:/bin PGDATA=/var/lib/postgresql/data
RUN printf '%s\n' '#!/bin/sh' 'set -eu' \
    'if [ ! -s "\$PGDATA/PG_VERSION" ]; then' \
    '  : "\${POSTGRES_PASSWORD:=\$(cat "\$POSTGRES_PASSWORD_FILE")}"' \
    '  printf "%s" "\$POSTGRES_PASSWORD" > /tmp/password' \
    '  initdb -D "\$PGDATA" -U "\$POSTGRES_USER" --pwfile=/tmp/password -A scram-sha-256 -E UTF8 --locale=C.UTF-8 >/dev/null' \
    '  rm /tmp/password' \
    '  echo "host all all all scram-sha-256" >> "\$PGDATA/pg_hba.conf"' \
    '  echo "CREATE DATABASE \$POSTGRES_DB;" | postgres --single -D "\$PGDATA" postgres >/dev/null' \
    'fi' \
    'exec postgres -D "\$PGDATA" -c listen_addresses="*"' > /usr/local/bin/start && chmod +x /usr/local/bin/start
USER 999:999
ENTRYPOINT ["start"]
DOCKERFILE
}

make_prometheus() {
    docker build -q --network host -t "$prefix/prometheus:2" - >/dev/null <<DOCKERFILE
FROM $prefix/python:3.11-slim
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends prometheus \
    && rm -rf /var/lib/apt/lists/* && install -d -o 65534 -g 65534 /prometheus
USER 65534:65534
WORKDIR /prometheus
ENTRYPOINT ["prometheus"]
DOCKERFILE
}

has "$prefix/python:3.11-slim" || make_base
has "$prefix/postgres:15" || make_postgres
has "$prefix/prometheus:2" || make_prometheus
compgen -G "$wheelhouse/torch-*.whl" >/dev/null ||
    python3 -m pip download -q --no-deps -d "$wheelhouse" \
        "$(grep '^torch==' "$deploy/../constraints.txt")"
