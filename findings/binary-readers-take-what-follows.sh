#!/usr/bin/env bash
# Guess:    `loads` of a binary format is like `json.loads`: bytes behind the value are an error, as is a value that is cut.
# Version:  cbor2 6.3.0, ormsgpack 1.13.1, py-ubjson 0.16.1, msgpack 1.2.4, msgspec 0.23.0, amazon-ion 0.15.0, dag-cbor 0.3.3,
#           from PyPI.
# Found:    cbor2, ormsgpack and py-ubjson return the first value and say nothing of what follows, be it another document or a
#           byte of FF. The others refuse both. All of them refuse a value without its last byte.
# Seen:     {"a": 1} {"b": 2} one after the other   cbor2, ormsgpack, py-ubjson: {"a": 1}   msgpack, msgspec, amazon-ion, dag-cbor: error
# Matters:  two messages that were joined, by a proxy, a retry or an appended file, are one message, and the second is lost
#           although it came. ormsgpack takes the place of msgpack in servers that relied on its error.
# So here:  JSON with anything but white space behind it is an error of kind decoding.
# Everything is in a temporary folder with a venv of its own. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check cbor2==6.3.0 \
    ormsgpack==1.13.1 py-ubjson==0.16.1 msgpack==1.2.4 msgspec==0.23.0 amazon.ion==0.15.0 dag-cbor==0.3.3; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - <<'PYTHON'
import sys

import amazon.ion.simpleion, cbor2, dag_cbor, msgpack, msgspec, ormsgpack, ubjson

formats = {
    "cbor2": (cbor2.dumps, cbor2.loads),
    "ormsgpack": (ormsgpack.packb, ormsgpack.unpackb),
    "py-ubjson": (ubjson.dumpb, ubjson.loadb),
    "msgpack": (msgpack.packb, msgpack.unpackb),
    "msgspec": (msgspec.msgpack.encode, msgspec.msgpack.decode),
    "amazon-ion": (lambda value: amazon.ion.simpleion.dumps(value, binary=True), amazon.ion.simpleion.loads),
    "dag-cbor": (dag_cbor.encode, dag_cbor.decode),
}


def outcome(read, data):
    try:
        return dict(read(data))
    except Exception:
        return "error"


found = {}
for name, (write, read) in formats.items():
    one, other = write({"a": 1}), write({"b": 2})
    found[name] = [outcome(read, data) for data in (one, one + other, one + b"\xFF", one[:-1])]
    print(f"{name:11} whole {found[name][0]}, two {found[name][1]}, with a byte of FF {found[name][2]}, cut {found[name][3]}")
tolerant = ["cbor2", "ormsgpack", "py-ubjson"]
expected = {name: [{"a": 1}] + [{"a": 1} if name in tolerant else "error"] * 2 + ["error"] for name in formats}
sys.exit(0 if found == expected else 1)
PYTHON
