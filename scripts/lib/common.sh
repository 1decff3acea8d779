# shellcheck shell=bash
# Functions that all scripts share: the repository root, messages, finding Swift, and running a step in its own process group.
# Sourced, never run.

# shellcheck disable=SC2034 # for the scripts that source this
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"

# Debian keeps nginx and nghttpd in /usr/sbin, which is off the PATH of ordinary users.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
export PATH

# -h and --help print the comment at the head of the script that was called.
if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then
    sed -n '2,/^set /{s/^# \{0,1\}//p;}' "$0"
    exit 0
fi

say() { printf '%s\n' "$*" >&2; }

# Prints an error with its next step and ends the script.
fail() {
    say "error: $*"
    exit 1
}

has_hiredis() { [[ -e /usr/include/hiredis/hiredis.h ]] || pkg-config --exists hiredis 2>/dev/null; }

# Programs that nobody debugs are built without debug information and index, which take time.
lean_build=(--disable-index-store -debug-info-format none)

# Sets the options with which the package is built for tests. They include the package trait Fleet where hiredis is
# installed, as `scripts/setup --tests` does. All scripts use the same options, because SwiftPM rebuilds everything when a
# trait is switched. Call it after setup.
find_test_options() {
    test_options=(-Xswiftc -warnings-as-errors)
    ! has_hiredis || test_options+=(--traits Fleet)
    # Tests/XCTMain.swift names the tests, so nothing reads the index. What the compiler makes is not verified.
    [[ "${CI:-}" != true ]] || test_options+=("${lean_build[@]}" -Xswiftc -Xfrontend -Xswiftc -disable-llvm-verify)
}

# Puts a Swift 6.2 (or newer) toolchain on PATH, or prints where to get one.
find_swift() {
    local place version
    if ! command -v swift >/dev/null; then
        for place in /opt/swift/usr/bin "$HOME/.local/share/swiftly/bin" /usr/share/swift/usr/bin; do
            if [[ -x "$place/swift" ]]; then
                PATH="$PATH:$place"
                break
            fi
        done
    fi
    command -v swift >/dev/null ||
        fail "no swift on PATH, in /opt/swift/usr/bin or in ~/.local/share/swiftly/bin." \
            "Get Swift 6.2 or newer from https://www.swift.org/install/linux/ and run this again."
    version="$(swift --version 2>/dev/null | sed -n 's/.*Swift version \([0-9][0-9]*\.[0-9][0-9]*\).*/\1/p' | head -n 1)"
    [[ -n "$version" ]] ||
        fail "$(command -v swift) does not run. 'swift --version' says why; the libraries it needs are listed at" \
            "https://www.swift.org/install/linux/tarball/"
    ((${version%%.*} > 6 || (${version%%.*} == 6 && ${version##*.} >= 2))) ||
        fail "$(command -v swift) is Swift $version; this package needs 6.2 or newer: https://www.swift.org/install/linux/"
}

# Prints the first Python 3 that can import these modules: first_python "venv, ensurepip".
first_python() {
    local python
    for python in python3 /usr/bin/python3; do
        if command -v "$python" >/dev/null && "$python" -c "import $1" 2>/dev/null; then
            echo "$python"
            return 0
        fi
    done
    return 1
}

# The process group of the running step, so that a signal can end the step and everything it started.
step_group=""

# Runs a command in its own process group and returns its exit code. A trap that calls step_stop ends the command as
# soon as a signal arrives. If the command ran in the foreground, bash would run the trap only after the command.
step_run() {
    local code=0
    set -m
    "$@" </dev/null &
    step_group=$!
    set +m
    wait "$step_group" || code=$?
    step_group=""
    return "$code"
}

# Prints the process $1 and all its descendants, whatever their process group.
step_family() {
    local pid="$1" list children child
    echo "$pid"
    for list in /proc/"$pid"/task/*/children; do
        children=()
        # The list has no line end, which read reports as a failure.
        { read -r -a children <"$list"; } 2>/dev/null || true
        for child in "${children[@]}"; do
            step_family "$child"
        done
    done
}

# Ends the running step, if there is one, with INT, then TERM, then KILL. `swift test` runs the tests in another process group
# and ends them only when it gets INT, so INT comes first.
step_stop() {
    local group="$step_group" signal tries family pid alive
    step_group=""
    [[ -n "$group" ]] || return 0
    mapfile -t family < <(step_family "$group")
    kill -INT -- "-$group" 2>/dev/null || true
    for signal in TERM KILL; do
        for ((tries = 0; tries < 30; tries++)); do
            alive=()
            for pid in "${family[@]}"; do
                kill -0 "$pid" 2>/dev/null && alive+=("$pid")
            done
            ((${#alive[@]} > 0)) || return 0
            sleep 0.1
        done
        kill "-$signal" "${alive[@]}" 2>/dev/null || true
    done
}
