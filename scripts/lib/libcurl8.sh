# shellcheck shell=bash
# Installs libcurl 8 for `scripts/test --libcurl 8` and `scripts/bench --libcurl 8`, without changing the system's libcurl.
# Sourced after common.sh, when .venv exists; never run.

: "${root:?source common.sh first}"
# The folder of its libraries, for LD_LIBRARY_PATH.
libcurl8_folder="$root/.venv/libcurl8"

# Installs libcurl 8 into .venv. Prints the reason and returns 1 where that is not possible: the wheel exists only for common
# processors and glibc 2.28 or newer.
libcurl8_install() {
    local wanted="$root/scripts/requirements-libcurl8.txt" stamp="$libcurl8_folder/requirements-libcurl8.txt" work log
    cmp -s "$wanted" "$stamp" && return 0
    say "installing libcurl 8 into .venv"
    work="$(mktemp -d)"
    log="$work/log"
    # The libraries do not depend on the Python version, so the wheel need not match this machine's Python.
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
        say "libcurl 8 cannot be installed on this machine ($(uname -m)); what needs it is skipped. The reason is above."
        return 1
    fi
    rm -rf "$libcurl8_folder"
    mv "$work/wheel/pycurl.libs" "$libcurl8_folder"
    cp "$wanted" "$stamp"
    rm -rf "$work"
}

# Links the libraries, whose names in the wheel contain a hash, under their usual names. This includes libssl and libcrypto;
# otherwise a program would load two versions of OpenSSL.
libcurl8_link() {
    local name file
    for name in libcurl.so.4 libssl.so.3 libcrypto.so.3; do
        file="$(cd "$1" && compgen -G "${name%%.*}-*.so*")" || return 1
        ln -s "$file" "$1/$name" || return 1
    done
}
