#!/usr/bin/env bash
# Makes sure that what a make target needs is there: `setup.sh [build] [fmt] [clippy] [curl] [peers]`.
# Installs what is missing by name and says so; silent, and does nothing, where nothing is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# apt_install PACKAGE...: as root, or through sudo.
apt_install() {
    have apt-get || fail "missing: $*. Install these with your system's package manager, then run this again."
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        have sudo || fail "missing: $*. Install them as root: apt-get install --yes $*"
        as_root=(sudo)
    fi
    say "installing $* with apt-get"
    # The list of packages of a fresh machine may be empty or old: refresh it only when the first try fails.
    if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@" >/dev/null 2>&1; then
        "${as_root[@]}" apt-get update >/dev/null || fail "apt-get update failed"
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@" >&2 ||
            fail "apt-get could not install $*"
    fi
}

# at_least WANTED FOUND: compares versions such as 1.90 and 1.95.0.
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

rust() {
    # A shell that was open when the toolchain was installed does not have it on its PATH yet.
    if ! have cargo && [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
        fail "cargo is installed but not on the PATH. Run: . \"${CARGO_HOME:-$HOME/.cargo}/env\""
    fi
    local wanted found
    wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
    have cargo || fail "a Rust toolchain is missing. Install Rust $wanted or newer with rustup (https://rustup.rs), then run this again."
    found=$(rustc --version | cut -d ' ' -f 2)
    at_least "$wanted" "$found" && return
    have rustup && fail "Rust $found is too old, $wanted or newer is needed. Run: rustup update stable"
    fail "Rust $found is too old, $wanted or newer is needed. Install it with rustup (https://rustup.rs), which stands beside the system's own."
}

# component NAME BINARY: a part of the toolchain.
component() {
    if ! cargo "$2" --version >/dev/null 2>&1; then
        have rustup || fail "$1 is missing, and rustup is not there to add it. Install the package that holds $1."
        say "installing the toolchain component $1 with rustup"
        rustup component add "$1"
    fi
}

# python_peers: backends that the tests call, in an environment of their own.
python_peers() {
    local wanted="grpcio==1.76.0 protobuf==6.33.6" venv=.build/tests/venv
    [ "$(cat "$venv/installed" 2>/dev/null)" != "$wanted" ] || return 0
    say "installing $wanted with pip, into $venv"
    mkdir -p .build/tests
    python3 -m venv "$venv"
    # shellcheck disable=SC2086
    "$venv/bin/pip" install --quiet --disable-pip-version-check $wanted
    printf '%s' "$wanted" > "$venv/installed"
}

rust
packages=()
for need in "$@"; do
    case "$need" in
        build)
            have cc || packages+=(gcc libc6-dev) # rustc links with cc; a few crates compile C
            have c++ || packages+=(g++)          # the engine of scripts is C++
            ;;
        peers)
            have python3 || packages+=(python3)
            have redis-server || packages+=(redis-server)
            if ! have python3 || ! python3 -c 'import ensurepip, venv' 2>/dev/null; then packages+=(python3-venv); fi
            ;;
        curl) have curl || packages+=(curl) ;;
        fmt) component rustfmt fmt ;;
        clippy) component clippy clippy ;;
        *) fail "unknown need: $need" ;;
    esac
done
if [ ${#packages[@]} -gt 0 ]; then apt_install "${packages[@]}"; fi
if [[ " $* " == *" peers "* ]]; then python_peers; fi
