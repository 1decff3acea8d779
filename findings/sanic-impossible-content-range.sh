#!/usr/bin/env bash
# Guess:    a server of files that supports ranges ends a range at the end of the file and says so (RFC 9110 §14.1.2, §14.4),
#           looks at If-Range, and tells with HEAD the length that GET has.
# Version:  Sanic 25.12.1 from PyPI, app.static(): as it is, and with use_content_range=True.
# Found:    a range that reaches behind the end gets the right bytes, but Content-Range repeats the last position that was asked
#           for, which the file has not: a field that RFC 9110 calls invalid. If-Range is ignored. A unit that it does not know
#           is 416 instead of the whole file. Without use_content_range HEAD says Content-Length: 0 for every file.
# Seen:     bytes=69990-79999              206  Content-Range: bytes 69990-79999/70000   10 bytes
#           bytes=0-9, If-Range: Monday    206  of a file that was changed later
#           things=0-9                     416
#           HEAD, GET                      200  Content-Length: 0, 200  Content-Length: 70000
# Matters:  a download in segments of one size asks past the end in its last one: checked against Content-Range it fails, not
#           checked it misses 9990 bytes. A resumed download mixes two versions; one that asks HEAD first finds an empty file.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check sanic==25.12.1; } >&2; then
    echo "sanic could not be installed" >&2
    exit 2
fi

cat > "$work/app.py" <<'PYTHON'
import os, sys
from sanic import Sanic

port, files = int(sys.argv[1]), sys.argv[2]
app = Sanic("files", configure_logging=False)
app.static("/plain", files, name="plain")
app.static("/ranges", files, name="ranges", use_content_range=True, use_modified_since=True)
if __name__ == "__main__":
    app.run(host="127.0.0.1", port=port, single_process=True, motd=False, access_log=False)
PYTHON

"$work/venv/bin/python" - "$work" <<'PYTHON'
import http.client, importlib.metadata, os, socket, subprocess, sys, time

work = sys.argv[1]
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
os.mkdir(f"{work}/files")
with open(f"{work}/files/file.txt", "wb") as file:
    file.write(b"123456\n" * 10_000)

def fetch(method, folder, **fields):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, f"/{folder}/file.txt", headers={name.replace("_", "-"): value for name, value in fields.items()})
    response = connection.getresponse()
    received = response.read()
    connection.close()
    length, span = response.headers["Content-Length"], response.headers["Content-Range"]
    print(method, folder, fields, "->", response.status, "Content-Length", length, "Content-Range", span, len(received))
    return response.status, length, span, len(received)

print("sanic", importlib.metadata.version("sanic"))
server = subprocess.Popen(
    [sys.executable, f"{work}/app.py", str(port), f"{work}/files"], cwd=work, stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)
try:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.05)
    else:
        print("the server did not start", file=sys.stderr)
        sys.exit(2)
    inside = fetch("GET", "ranges", Range="bytes=0-9")
    behind = fetch("GET", "ranges", Range="bytes=69990-79999")
    changed = fetch("GET", "ranges", Range="bytes=0-9", If_Range="Mon, 05 Jan 2026 00:00:00 GMT")
    unit = fetch("GET", "ranges", Range="things=0-9")
    head, whole = fetch("HEAD", "plain"), fetch("GET", "plain")
finally:
    server.terminate()
    server.wait()
as_found = (
    inside == changed == (206, "10", "bytes 0-9/70000", 10) and behind == (206, "10", "bytes 69990-79999/70000", 10)
    and unit[0] == 416 and head == (200, "0", None, 0) and whole == (200, "70000", None, 70_000)
)
print("as found: Content-Range names bytes that are not there" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
