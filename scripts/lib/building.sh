# shellcheck shell=bash
# Builds a program for a demo, and tells the user what it waits for. Sourced after common.sh, never run.

: "${root:?source common.sh first}"

building_log=""
building_ticker=""

building_clean_up() {
    if [[ -n "$building_ticker" ]]; then
        kill "$building_ticker" 2>/dev/null || true
        say ""
    fi
    step_stop
    rm -f "$building_log"
}

# A debug build takes half the time of a release build. It has its own folder, because the tests build with other flags.
building_run() { # FOLDER PRODUCT [OPTION]...
    # shellcheck disable=SC2154 # of common.sh
    swift build --package-path "$root" --scratch-path "$root/.build/$1" "${lean_build[@]}" \
        --product "${@:2}" >"$building_log" 2>&1
}

# build_program FOLDER PRODUCT [OPTION]...: builds $root/.build/FOLDER/debug/PRODUCT. On a terminal it counts the seconds.
# Each set of package traits needs a folder of its own, or SwiftPM builds everything anew.
build_program() {
    local folder="$1" product="$2" text seconds=0 code=0
    building_log="$(mktemp)"
    trap building_clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    text="building $product, about a minute the first time"
    [[ ! -x "$root/.build/$folder/debug/$product" ]] || text="building $product, a few seconds"
    if [[ -t 2 && "${TERM:-dumb}" != dumb ]]; then
        while printf '\r%s: %d s' "$text" "$seconds" >&2; do
            sleep 1
            seconds=$((seconds + 1))
        done &
        building_ticker=$!
    else
        say "$text"
    fi
    step_run building_run "$@" || code=$?
    if [[ -n "$building_ticker" ]]; then
        kill "$building_ticker" 2>/dev/null
        wait "$building_ticker" 2>/dev/null || true
        building_ticker=""
        printf '\r\033[K' >&2
    fi
    if ((code != 0)); then
        cat "$building_log" >&2
        fail "$product did not build; the reason is above."
    fi
    rm -f "$building_log"
    trap - EXIT INT TERM
}
