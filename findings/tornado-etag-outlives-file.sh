#!/usr/bin/env bash
# Guess:    a strong ETag changes when the file changes (RFC 9110 §8.8.1), and If-Range protects a resumed download: the
#           server sends the whole new file when the tag no longer fits (§13.1.5).
# Version:  tornado 6.6.1, from PyPI.
# Found:    StaticFileHandler computes the ETag (a SHA-512 of the content) once for each path and keeps it for the life of the
#           process (StaticFileHandler._static_hashes, setting static_hash_cache, default on unless debug is set). A file that
#           is replaced keeps its strong ETag; only Last-Modified and Content-Length change. If-Range is never looked at. So a
#           download that is resumed with Range and If-Range gets a 206 with the rest of another file, and a client that
#           trusts the tag joins two versions. With static_hash_cache=False the tag changes, but If-Range is ignored still.
# Seen:     first  200 ETag "3a8f…" Last-Modified: Tue, 14 Nov 2023 22:13:20 GMT
#           then   206 ETag "3a8f…" Last-Modified: Tue, 14 Nov 2023 22:13:30 GMT, bytes of the new file
# So here:  parts are joined only if ETag, Last-Modified and the total length agree.
#
# Runs Tornado on a free loopback port in a temporary folder with a venv of its own. Exits with 0 if the behaviour is as above,
# with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
server=""
clean() {
    if [[ -n "$server" ]]; then kill "$server" 2>/dev/null || true; fi
    rm -rf "$work"
}
trap clean EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check tornado==6.6.1; } >&2; then
    echo "tornado could not be installed" >&2
    exit 2
fi

cat >"$work/server.py" <<'PYTHON'
import asyncio, sys
import tornado.httpserver, tornado.netutil, tornado.web

async def main():
    application = tornado.web.Application([("/(.*)", tornado.web.StaticFileHandler, {"path": sys.argv[1]})])
    sockets = tornado.netutil.bind_sockets(0, "127.0.0.1")
    tornado.httpserver.HTTPServer(application).add_sockets(sockets)
    print(sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
PYTHON
mkdir "$work/files"
mkfifo "$work/port"
"$work/venv/bin/python" "$work/server.py" "$work/files" >"$work/port" 2>"$work/log" &
server=$!
read -r port <"$work/port"

python3 - "$work/files/file" "$port" <<'PYTHON'
import http.client, os, sys

path, port = sys.argv[1], int(sys.argv[2])

def write(byte, time):
    with open(path, "wb") as file:
        file.write(byte * 1000)
    os.utime(path, (time, time))

def get(fields):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/file", headers=fields)
    response = connection.getresponse()
    body = response.read()
    print(response.status, response.headers["ETag"], response.headers["Last-Modified"], body[:1] * 3, "...", len(body))
    return response, body

write(b"a", 1_700_000_000)
first, old = get({})
tag = first.headers["ETag"]
write(b"b", 1_700_000_010)
rest, new = get({"Range": "bytes=500-", "If-Range": tag})
as_found = (
    first.status == 200 and not tag.startswith("W/") and rest.status == 206 and rest.headers["ETag"] == tag
    and rest.headers["Last-Modified"] != first.headers["Last-Modified"] and old == b"a" * 1000 and new == b"b" * 500
)
print("as found: a mixture of two files passes for one" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
