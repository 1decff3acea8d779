#!/usr/bin/env bash
# Guess:    a client either repeats a redirected request as it was (RFC 10008 wants that for QUERY after 301, 302, 307 and 308) or
#           turns it into a GET without a body (303). No client sends half of it.
# Version:  requests 2.34.2, niquests 3.21.2, httpx 0.28.1, libcurl 8.23.0 in pycurl 7.49.0, from PyPI.
# Found:    after a 301 requests, niquests and libcurl (CURLOPT_CUSTOMREQUEST with CURLOPT_POSTFIELDS) keep the method QUERY but
#           drop the body: the server gets a query without the query. libcurl keeps its Content-Type, and does the same for
#           302 and 303, where it should be a GET. httpx repeats the whole request after 301. All four do after 308.
# Seen:     301  requests QUERY b''   niquests QUERY b''   httpx QUERY b'q'   libcurl QUERY b'' with Content-Type
#           303  requests GET b''     niquests GET b''     httpx GET b''      libcurl QUERY b'' with Content-Type
#           308  requests QUERY b'q'  niquests QUERY b'q'  httpx QUERY b'q'   libcurl QUERY b'q'
# Matters:  a server that moved by 301 answers another question, or 400, and the caller sees a QUERY that reached its target.
#
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check requests==2.34.2 niquests==3.21.2 httpx==0.28.1 pycurl==7.49.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import http.server, sys, threading
import httpx, niquests, pycurl, requests

seen = []

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_QUERY(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/target":
            seen.append((self.command, body, self.headers.get("Content-Type")))
            self.send_response(200)
        else:
            self.send_response(int(self.path[1:]))
            self.send_header("Location", "/target")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_QUERY

    def log_message(self, *arguments):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
fields = {"Content-Type": "text/plain"}

def libcurl(url):
    curl = pycurl.Curl()
    curl.setopt(pycurl.URL, url)
    curl.setopt(pycurl.CUSTOMREQUEST, "QUERY")
    curl.setopt(pycurl.POSTFIELDS, "q")
    curl.setopt(pycurl.HTTPHEADER, ["Content-Type: text/plain"])
    curl.setopt(pycurl.FOLLOWLOCATION, True)
    curl.setopt(pycurl.TIMEOUT, 10)
    curl.perform()

clients = {
    "requests": lambda url: requests.request("QUERY", url, data=b"q", headers=fields, timeout=10),
    "niquests": lambda url: niquests.request("QUERY", url, data=b"q", headers=fields, timeout=10),
    "httpx": lambda url: httpx.request("QUERY", url, content=b"q", headers=fields, follow_redirects=True, timeout=10),
    "libcurl": libcurl,
}
results = {}
print(f"requests {requests.__version__}, niquests {niquests.__version__}, httpx {httpx.__version__}, {pycurl.version}")
for status in (301, 303, 308):
    for name, send in clients.items():
        seen.clear()
        send(f"http://127.0.0.1:{server.server_port}/{status}")
        results[status, name] = seen[0]
        print(status, name, *seen[0])
server.shutdown()

whole, half = ("QUERY", b"q", "text/plain"), ("QUERY", b"", None)
as_found = (
    results[301, "requests"] == results[301, "niquests"] == half and results[301, "httpx"] == whole
    and results[301, "libcurl"] == results[303, "libcurl"] == ("QUERY", b"", "text/plain")
    and all(results[303, name][0] == "GET" for name in ("requests", "niquests", "httpx"))
    and all(results[308, name] == whole for name in clients)
)
print("as found: after 301 the method stays and the body goes" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
