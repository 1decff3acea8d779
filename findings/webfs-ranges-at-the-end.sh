#!/usr/bin/env bash
# Guess:    a range that begins inside a file and reaches behind its end gives the bytes up to the end (RFC 9110 §14.1.2); one
#           that begins at the end or behind it is 416 (§15.5.17).
# Version:  webfs 1.21 (Debian 12, webfs 1.21+ds1-12+b1), the small web server for shared folders.
# Found:    the other way round. A range that reaches behind the end is 400 Bad Request. One that begins right at the end is 206
#           with no bytes and Content-Range: bytes 70000-69999/70000, which ends before it begins; so is bytes=-0.
# Seen:     bytes=69990-69999   206  bytes 69990-69999/70000   10 bytes
#           bytes=69990-79999   400
#           bytes=70000-        206  bytes 70000-69999/70000   0 bytes
# Matters:  "continue from what I have" for a complete file succeeds with an impossible field, which a careful client refuses. A
#           download in segments of one size gets 400, which nobody tries again, for its last one.
# Everything is in a temporary folder, on free loopback ports. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! (cd "$work" && apt-get download -q -o APT::Sandbox::User=root webfs=1.21+ds1-12+b1 && dpkg -x webfs_*.deb root) >&2; then
    echo "webfs could not be downloaded" >&2
    exit 2
fi

python3 - "$work" <<'PYTHON'
import http.client, os, socket, subprocess, sys, time

work = sys.argv[1]
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
os.mkdir(f"{work}/files")
os.chmod(work, 0o755)
with open(f"{work}/files/file.txt", "wb") as file:
    file.write(b"123456\n" * 10_000)

def fetch(span):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", "/file.txt", headers={"Range": span})
    response = connection.getresponse()
    received = response.read()
    connection.close()
    print(span, "->", response.status, response.headers["Content-Range"], len(received))
    return response.status, response.headers["Content-Range"], len(received) if response.status == 206 else None

server = subprocess.Popen(
    [f"{work}/root/usr/bin/webfsd", "-F", "-i", "127.0.0.1", "-p", str(port), "-r", f"{work}/files"],
    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
)
try:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.05)
    else:
        print("the server did not start", file=sys.stderr)
        sys.exit(2)
    seen = [fetch(span) for span in ("bytes=69990-69999", "bytes=69990-79999", "bytes=70000-", "bytes=-0")]
finally:
    server.terminate()
    server.wait()
as_found = seen == [
    (206, "bytes 69990-69999/70000", 10), (400, None, None), *[(206, "bytes 70000-69999/70000", 0)] * 2,
]
print("as found: 400 for a range over the end, 206 for none" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
