#!/usr/bin/env bash
# Guess:    a HAR file of mitmproxy has the bodies as they were: text as text, all that is not text with encoding "base64", the
#           body of each request that had one in postData, and content.size is the length without Content-Encoding (HAR 1.2).
# Version:  mitmproxy 11.0.2, the last one for Python 3.11 (12.3.1 on Python 3.12 does the same), with --set hardump; PyPI.
# Found:    a body that is binary but has much text, such as one of protobuf, is written as text, with a character for each byte
#           and no sign of it; what looks binary enough is base64. Only POST, PUT and PATCH have postData: the body of QUERY and
#           DELETE is gone. content.size of gzip is the compressed length.
# Seen:     protobuf 0a 14 "the art of computing" 10 96 01   text, no encoding; as UTF-8 it is 26 bytes instead of 25
#           0 to 255, backwards                               base64
#           QUERY and DELETE with a body of 13 bytes          bodySize 13, no postData; POST has both
#           gzip of 600 bytes                                 size 32, the text has 600
# Matters:  a test that replays the file, or a mock server made of it, sends other bytes than the server did, and a QUERY without
#           a query, while everything in the viewer looks right.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    mitmproxy==11.0.2 zstandard==0.23.0; } >&2; then
    echo "mitmproxy could not be installed" >&2
    exit 2
fi

python3 - "$work" <<'PYTHON'
import base64, gzip, http.client, http.server, json, os, socket, subprocess, sys, threading, time

work = sys.argv[1]
bodies = {
    "/protobuf": (b"\x0a\x14the art of computing\x10\x96\x01", {"Content-Type": "application/x-protobuf"}),
    "/bytes": (bytes(range(255, -1, -1)) * 2, {"Content-Type": "application/octet-stream"}),
    "/gzip": (gzip.compress(b"zipped" * 100, mtime=0), {"Content-Type": "text/plain", "Content-Encoding": "gzip"}),
    "/search": (b"[]", {"Content-Type": "application/json"}),
}

class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        body, fields = bodies[self.path]
        self.send_response(200)
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_QUERY = do_DELETE = do_GET

    def log_message(self, *arguments):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
program = f"{work}/venv/bin/mitmdump"
print(subprocess.check_output([program, "--version"], text=True).splitlines()[0])
proxy = subprocess.Popen([
    program, "-q", "--mode", f"reverse:http://127.0.0.1:{server.server_port}", "--listen-host", "127.0.0.1", "-p", str(port),
    "--set", f"hardump={work}/calls.har", "--set", f"confdir={work}/settings",
])

def call(method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
    received = connection.getresponse().read()
    connection.close()
    return received

def wait_until_ready():
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    print("mitmdump did not start", file=sys.stderr)
    sys.exit(2)

try:
    wait_until_ready()
    passed = [call("GET", path) == bodies[path][0] for path in ("/protobuf", "/bytes", "/gzip")]
    for method in ("POST", "QUERY", "DELETE"):
        call(method, "/search", b'{"q": "book"}')
finally:
    proxy.terminate()
    proxy.wait()
with open(f"{work}/calls.har") as file:
    entries = json.load(file)["log"]["entries"]
protobuf, octets, zipped = (entry["response"]["content"] for entry in entries[:3])
sent = {
    entry["request"]["method"]: (entry["request"]["bodySize"], "postData" in entry["request"]) for entry in entries[3:]
}
wrong = protobuf["text"].encode() if "encoding" not in protobuf else b""
print("bodies through the proxy:", *("as they were" if whole else "changed" for whole in passed))
print("protobuf:", bodies["/protobuf"][0], "in the file:", protobuf.get("encoding", "text"), wrong)
print("bytes:", octets.get("encoding", "text"), "  gzip: size", zipped["size"], "of", len(zipped["text"]))
print("requests, (bodySize, postData):", sent)
as_found = (
    all(passed) and "encoding" not in protobuf and protobuf["text"] == bodies["/protobuf"][0].decode("latin-1")
    and len(wrong) == 26 and octets.get("encoding") == "base64" and base64.b64decode(octets["text"]) == bodies["/bytes"][0]
    and zipped["size"] == len(bodies["/gzip"][0]) and len(zipped["text"]) == 600
    and sent == {"POST": (13, True), "QUERY": (13, False), "DELETE": (13, False)}
)
print("as found: the file has other bodies" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
