#!/usr/bin/env bash
# Guess:    a gzip body of two members (RFC 1952 §2.2: "simply appear one after another in the file"), as `cat a.gz b.gz` or
#           pigz and bgzip make it, is decoded whole by a client that asks for gzip, as gunzip, Python and browsers decode it.
# Version:  libcurl 8.23.0 in pycurl 7.49.0, from PyPI.
# Found:    libcurl fails the transfer after the first member (CURLE_WRITE_ERROR, 23). zstd with several frames is decoded.
# Seen:     gzip of one member     200, 5 of 5 bytes
#           gzip of two members    error 23 after 5 of 10 bytes
# So here:  bodies are decoded without libcurl: all members.
#
# Serves both bodies on a free loopback port; everything is in a temporary folder with a venv of its own. Exits with 0 if the
# behaviour is as above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check pycurl==7.49.0; } >&2; then
    echo "pycurl could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - <<'PYTHON'
import gzip, http.server, sys, threading
import pycurl

bodies = {"/one": gzip.compress(b"first"), "/two": gzip.compress(b"first") + gzip.compress(b"again")}
assert gzip.decompress(bodies["/two"]) == b"firstagain"

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = bodies[self.path]
        self.send_response(200)
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()

def get(path):
    received, code, curl = bytearray(), 0, pycurl.Curl()
    curl.setopt(pycurl.URL, f"http://127.0.0.1:{server.server_port}{path}")
    curl.setopt(pycurl.ACCEPT_ENCODING, "gzip")
    curl.setopt(pycurl.WRITEFUNCTION, received.extend)
    curl.setopt(pycurl.TIMEOUT, 10)
    try:
        curl.perform()
    except pycurl.error as error:
        code = error.args[0]
    print(f"{path}: code {code}, {bytes(received)!r}")
    return code, bytes(received)

print(pycurl.version)
as_found = get("/one") == (0, b"first") and get("/two")[0] == pycurl.E_WRITE_ERROR
server.shutdown()
print("as found: the second member fails the transfer" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
