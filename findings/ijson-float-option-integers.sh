#!/usr/bin/env bash
# Guess:    ijson's use_float=True changes how numbers with a fraction or an exponent are made (float for Decimal), and leaves
#           integers alone; if it does more, a large integer becomes a float.
# Version:  ijson 3.6.0 (backend yajl2_c, its first choice), from PyPI.
# Found:    with use_float=True an integer from 2^63 on ends the parse with IncompleteJSONError "integer overflow", though the
#           document is complete and valid; items before it have been delivered. Without the option, or with the backend
#           python, it is read exactly. orjson reads 2^63 as an integer as well.
# Seen:     use_float=False   yajl2_c   [1, 9223372036854775808]
#           use_float=True    yajl2_c   [1, then IncompleteJSONError: integer overflow
#           use_float=True    python    [1, 9223372036854775808]
# Matters:  a stream of rows with unsigned 64-bit ids stops at the first large one, and the error reads like a cut connection,
#           which a client would answer by a retry.
#
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check ijson==3.6.0 orjson==3.13.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import importlib.metadata, io, sys
import ijson, orjson

document = b"[1, 9223372036854775808]"

def read(backend, use_float):
    items = []
    try:
        for item in ijson.get_backend(backend).items(io.BytesIO(document), "item", use_float=use_float):
            items.append(item)
    except ijson.IncompleteJSONError as error:
        items.append(str(error).split("\n")[0])
    print(f"{backend:8} use_float={use_float!s:6} {items}")
    return items

print(f"ijson {importlib.metadata.version('ijson')}, default backend {ijson.backend_name}; orjson: {orjson.loads(document)}")
exact = [1, 2**63]
cut = read("yajl2_c", True)
as_found = (
    ijson.backend_name == "yajl2_c" and read("yajl2_c", False) == exact and read("python", True) == exact
    and cut[0] == 1 and "integer overflow" in cut[-1] and orjson.loads(document) == exact
)
print("as found: the option for floats refuses an integer" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
