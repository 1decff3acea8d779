#!/usr/bin/env bash
# Guess:    the name of a timeout says what has happened: a connect timeout that there is no connection, so that a POST may be sent
#           again; any other one is a read timeout, before the response and in its body. timeout=2 means the same for a call
#           whether its body is read at once or as a stream.
# Version:  pyreqwest 0.15.1, requests 2.34.2 with urllib3 2.8.0, niquests 3.21.2, HTTPX 0.28.1, curl_cffi 0.17.0; PyPI.
# Found:    pyreqwest raises ConnectTimeoutError when the server has the whole POST and is slow to answer, with timeout() and with
#           read_timeout(). requests and niquests raise ConnectionError, which is no Timeout, when the body stops. curl_cffi
#           with stream=True ends a call that is silent after 5 to 9 seconds instead of 2, the later the more bytes there were:
#           it uses libcurl's limit for slow transfers, and libcurl takes the mean of the last seconds.
# Seen:     timeouts of 2 seconds; the server answers after 15, or stops for 15 seconds in the middle of the body
#                                    no answer to a POST                     the body stops
#           pyreqwest                ConnectTimeoutError, POST received      ReadTimeoutError
#           HTTPX                    ReadTimeout                             ReadTimeout
#           requests, niquests       ReadTimeout                             ConnectionError, not a Timeout
#           curl_cffi                Timeout                                 Timeout
#           curl_cffi, stream=True   Timeout after 5 seconds                 Timeout after 9 seconds
# Matters:  "repeat after a connect timeout" makes a payment twice with pyreqwest; "except Timeout" misses the slow download with
#           requests; and a timeout of 2 seconds is one of 9 for the long download, the one that is streamed, with curl_cffi.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    pyreqwest==0.15.1 requests==2.34.2 urllib3==2.8.0 niquests==3.21.2 httpx==0.28.1 curl_cffi==0.17.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" -W ignore - <<'PYTHON'
import datetime, http.server, os, sys, threading, time
import curl_cffi, httpx, niquests, requests
from pyreqwest.client import SyncClientBuilder

for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[name]
received = []

class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        received.append(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(15)
        self.send(b"")

    def do_GET(self):
        self.send(bytes(100_000), b"67890")

    def send(self, first, second=b""):
        self.send_response(200)
        self.send_header("Content-Length", str(len(first + second)))
        self.end_headers()
        self.wfile.write(first)
        if second:
            time.sleep(15)
            self.wfile.write(second)

    def log_message(self, *arguments):
        pass

class ManyServer(http.server.ThreadingHTTPServer):
    def handle_error(self, *arguments):
        pass

server = ManyServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/"
two = datetime.timedelta(seconds=2)

def with_pyreqwest(method, builder):
    with builder.build() as client:
        call = client.post(url).body_text("pay") if method == "POST" else client.get(url)
        return call.build().send().bytes().to_bytes()

def with_curl_cffi(method, stream):
    with curl_cffi.Session() as session:
        response = session.request(method, url, data=b"pay" if method == "POST" else None, timeout=2, stream=stream)
        return b"".join(response.iter_content()) if stream else response.content

def with_module(module):
    def call(method):
        body = {"data" if module is not httpx else "content": b"pay"} if method == "POST" else {}
        return module.request(method, url, timeout=2, **body).content
    return call

clients = {
    "pyreqwest, timeout()": lambda method: with_pyreqwest(method, SyncClientBuilder().timeout(two)),
    "pyreqwest, read_timeout()": lambda method: with_pyreqwest(method, SyncClientBuilder().read_timeout(two)),
    "HTTPX": with_module(httpx), "requests": with_module(requests), "niquests": with_module(niquests),
    "curl_cffi": lambda method: with_curl_cffi(method, False),
    "curl_cffi, stream=True": lambda method: with_curl_cffi(method, True),
}
timeouts = requests.exceptions.Timeout, niquests.exceptions.Timeout

def outcome(client, method):
    received.clear()
    begun = time.monotonic()
    try:
        result = f"{len(client(method))} bytes"
    except Exception as error:
        result = type(error).__name__
        if isinstance(error, (requests.exceptions.RequestException, niquests.exceptions.RequestException)):
            result += "" if isinstance(error, timeouts) else ", no Timeout"
    seconds = time.monotonic() - begun
    print(f"{name:26} {method:4} {result} after {seconds:.1f} seconds, received {received}")
    return result + (", late" if seconds > 4 else ""), list(received)

seen = {}
for name, client in clients.items():
    seen[name] = outcome(client, "POST"), outcome(client, "GET")[0]
paid = [b"pay"]
as_found = seen == {
    "pyreqwest, timeout()": (("ConnectTimeoutError", paid), "ReadTimeoutError"),
    "pyreqwest, read_timeout()": (("ConnectTimeoutError", paid), "ReadTimeoutError"),
    "HTTPX": (("ReadTimeout", paid), "ReadTimeout"),
    "requests": (("ReadTimeout", paid), "ConnectionError, no Timeout"),
    "niquests": (("ReadTimeout", paid), "ConnectionError, no Timeout"),
    "curl_cffi": (("Timeout", paid), "Timeout"), "curl_cffi, stream=True": (("Timeout, late", paid), "Timeout, late"),
}
print("as found: the name is another one" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
