# shellcheck shell=bash
# A libcurl 8 beside the system's, for `scripts/test --libcurl 8` and `scripts/bench --libcurl 8`. Sourced after common.sh and
# once .venv stands, never run.

: "${root:?source common.sh first}"
# Where its libraries lie, for LD_LIBRARY_PATH.
libcurl8_folder="$root/.venv/libcurl8"

# Puts libcurl 8 into .venv. Returns 1, after a line that says why, where it cannot be had: the wheel exists for the usual
# processors and glibc 2.28 or newer only.
libcurl8_install() {
    local wanted="$root/scripts/requirements-libcurl8.txt" stamp="$libcurl8_folder/requirements-libcurl8.txt" work log
    cmp -s "$wanted" "$stamp" && return 0
    say "installing libcurl 8 into .venv"
    work="$(mktemp -d)"
    log="$work/log"
    # The libraries are the same whichever Python the wheel is for, so the version is given: it need not be this machine's.
    if ! {
        "$root/.venv/bin/python" -m pip download -q --no-input --disable-pip-version-check --no-deps --only-binary :all: \
            --python-version 3.12 --platform "manylinux_2_28_$(uname -m)" --dest "$work" -r "$wanted" &&
            "$root/.venv/bin/python" -m zipfile -e "$work"/pycurl-*.whl "$work/wheel" &&
            libcurl8_link "$work/wheel/pycurl.libs" &&
            LD_LIBRARY_PATH="$work/wheel/pycurl.libs" "$root/.venv/bin/python" -c \
                'import ctypes; ctypes.CDLL("libcurl.so.4").curl_version_info'
    } >"$log" 2>&1 </dev/null; then
        tail -n 15 "$log" >&2
        rm -rf "$work"
        say "libcurl 8 cannot be had on this machine ($(uname -m)); what needs it is left out. The reason is above."
        return 1
    fi
    rm -rf "$libcurl8_folder"
    mv "$work/wheel/pycurl.libs" "$libcurl8_folder"
    cp "$wanted" "$stamp"
    rm -rf "$work"
}

# Gives the files that the wheel names by their contents the names that a program asks for. libssl and libcrypto too, or two
# OpenSSLs would meet in one connection.
libcurl8_link() {
    local name file
    for name in libcurl.so.4 libssl.so.3 libcrypto.so.3; do
        file="$(cd "$1" && compgen -G "${name%%.*}-*.so*")" || return 1
        ln -s "$file" "$1/$name" || return 1
    done
}
