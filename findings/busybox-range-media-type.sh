#!/usr/bin/env bash
# Guess:    a 206 has the Content-Type of the whole file, as the 200 has. A range that cannot be met is 416, and a suffix range
#           ("bytes=-100") gives the last bytes.
# Version:  BusyBox httpd 1.35.0 (Debian 12, busybox 1:1.35.0-4+deb12u1+b1), the web server of many routers and cameras.
# Found:    the 206 says Content-Type: text/html, whatever the file is. A suffix range, and a range behind the end of the file,
#           get 200 and the whole file; 416 is never sent.
# Seen:     no range        200  text/plain  70000
#           bytes=0-99      206  text/html   100
#           bytes=-100      200  text/plain  70000
#           bytes=70000-    200  text/plain  70000
# Matters:  a client that checks the media type, or stores the type of the answer that ended a continued download, takes data
#           for a page; one that asks whether more has come gets all of it again.
# Everything is in a temporary folder, on free loopback ports. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

package=busybox=1:1.35.0-4+deb12u1+b1
if ! (cd "$work" && apt-get download -q -o APT::Sandbox::User=root "$package" && dpkg -x busybox_*.deb "$work/root") >&2; then
    echo "busybox could not be downloaded" >&2
    exit 2
fi

python3 - "$work" <<'PYTHON'
import glob, http.client, http.server, os, socket, subprocess, sys, threading, time

work = sys.argv[1]

def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

def wait_for(port):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    print("the server did not start", file=sys.stderr)
    sys.exit(2)

def fetch(port, method, path, **fields):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in fields.items()})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    shown = {name: value for name, value in response.getheaders() if name.lower() in SHOWN}
    print(method, fields, "->", response.status, shown, len(body))
    return response, body

SHOWN = ("content-type", "content-length", "content-range")
os.mkdir(f"{work}/files")
with open(f"{work}/files/file.txt", "wb") as file:
    file.write(b"".join(b"%06d\n" % number for number in range(10_000)))
busybox = f"{work}/root/bin/busybox"
print(subprocess.run([busybox], capture_output=True, text=True).stdout.split("\n")[0])
port = free_port()
server = subprocess.Popen([busybox, "httpd", "-f", "-p", f"127.0.0.1:{port}", "-h", f"{work}/files"])
try:
    wait_for(port)
    seen = []
    for span in (None, "bytes=0-99", "bytes=-100", "bytes=70000-"):
        response, body = fetch(port, "GET", "/file.txt", **({"Range": span} if span else {}))
        seen.append((response.status, response.headers["Content-Type"], len(body)))
finally:
    server.terminate()
    server.wait()
whole = (200, "text/plain", 70_000)
as_found = seen == [whole, (206, "text/html", 100), whole, whole]
print("as found: every part is text/html" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
