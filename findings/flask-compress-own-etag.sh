#!/usr/bin/env bash
# Guess:    an ETag that a server sent makes a 304 when it comes back in If-None-Match and nothing has changed, for a file as for
#           a page that is made by code.
# Version:  Flask-Compress 1.25 with Flask 3.1.3, from PyPI.
# Found:    Flask-Compress adds the coding to the tag ("...:zstd"). For a body that is in memory it compares the field once more
#           and answers 304. A file of send_file (conditional) is compressed as a stream, and there the comparison ran before,
#           against the tag without the suffix: the answer is always 200 with the whole body. A client that takes no coding, or
#           only gzip (which streams do not get), has its 304.
#           A Range of such a file is cut first and compressed then: 206 with Content-Encoding: zstd, while Content-Range counts
#           bytes of the plain file, under the strong tag of the zstd body.
# Seen:     page   zstd   "page:zstd"   304
#           file   -      "..."         304
#           file   zstd   "...:zstd"    200, whole
#           file   zstd   bytes=7000-13999: 206, Content-Range: bytes 7000-13999/70000, a zstd body of a few hundred bytes
# Matters:  a cache that revalidates downloads the file each time; a download that joins parts by Content-Range must not ask
#           for codings.
#
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check flask==3.1.3 flask-compress==1.25; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import importlib.metadata, os, sys
from flask import Flask, Response, send_file
from flask_compress import Compress

path = os.path.join(sys.argv[1], "file.txt")
with open(path, "wb") as file:
    file.write(b"".join(b"%06d\n" % number for number in range(10_000)))
application = Flask(__name__)
Compress(application)

@application.get("/file")
def file():
    return send_file(path, conditional=True)

@application.get("/page")
def page():
    response = Response(b"x" * 70_000, mimetype="text/plain")
    response.set_etag("page")
    return response

client = application.test_client()

def get(path, coding, **more):
    fields = {"Accept-Encoding": coding, **{name.replace("_", "-"): value for name, value in more.items()}}
    with client.get(path, headers=fields) as response:
        print(path, coding, more, "->", response.status_code, response.headers.get("Content-Encoding"),
              response.headers.get("ETag"), response.headers.get("Content-Range"), len(response.data))
        return response

def revalidated(path, coding):
    return get(path, coding, If_None_Match=get(path, coding).headers["ETag"]).status_code

print(*(f"{name} {importlib.metadata.version(name)}" for name in ("Flask-Compress", "Flask")))
part = get("/file", "zstd", Range="bytes=7000-13999")
as_found = (
    revalidated("/page", "zstd") == 304 and revalidated("/file", "identity") == 304 and revalidated("/file", "gzip") == 304
    and revalidated("/file", "zstd") == 200
    and part.status_code == 206 and part.headers["Content-Encoding"] == "zstd" and part.headers["ETag"].endswith(':zstd"')
    and part.headers["Content-Range"] == "bytes 7000-13999/70000" and len(part.data) < 7000
)
print("as found: a compressed file is never 304" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
