#!/usr/bin/env bash
# Guess:    a compressed body whose stream ends before its end marker is an error, as gunzip and `brotli -d` say: the
#           bytes that HTTP counted are all there, but the coding tells that the end is missing.
# Version:  requests 2.34.2, HTTPX 0.28.1, niquests 3.21.2, aiohttp 3.14.5, pycurl 7.49.0 (libcurl 8.23.0), Tornado 6.6.1,
#           pyreqwest 0.15.1, with brotli 1.2.1; all from PyPI.
# Found:    requests, HTTPX, niquests, aiohttp and libcurl return what could be decoded, with 200 and no error, for gzip and for
#           Brotli. Tornado (which knows gzip only) and pyreqwest fail. A wrong checksum is an error to all, a missing one only
#           to these two.
# Seen:     gzip, half of it   requests, HTTPX, niquests, aiohttp, libcurl  200, a part       Tornado, pyreqwest  error
#           br, last byte off  the same five                                200, a part       pyreqwest           error
# Matters:  an origin or a cache that broke off while it compressed, and closed the chunked body properly, makes half of a list
#           out of it, and nobody notices.
# So here:  a body that ends inside its coding is an error.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check requests==2.34.2 \
    urllib3==2.8.0 httpx==0.28.1 niquests==3.21.2 aiohttp==3.14.5 pycurl==7.49.0 tornado==6.6.1 pyreqwest==0.15.1 \
    brotli==1.2.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - <<'PYTHON'
import asyncio, gzip, http.server, io, logging, sys, threading
import aiohttp, brotli, httpx, niquests, pycurl, requests, tornado.httpclient
from pyreqwest.client import SyncClientBuilder

text = b"".join(b"%06d\n" % number for number in range(3000))
gz, br = gzip.compress(text), brotli.compress(text)
bodies = {
    "gzip whole": ("gzip", gz), "gzip half": ("gzip", gz[:len(gz) // 2]), "gzip short": ("gzip", gz[:-4]),
    "gzip wrong": ("gzip", gz[:-8] + bytes([gz[-8] ^ 1]) + gz[-7:]), "br whole": ("br", br), "br short": ("br", br[:-1]),
}
logging.disable(logging.CRITICAL)

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        coding, body = bodies[self.path[1:].replace("-", " ")]
        self.send_response(200)
        self.send_header("Content-Encoding", coding)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass

async def with_aiohttp(url):
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return await response.read()

async def with_tornado(url):
    return (await tornado.httpclient.AsyncHTTPClient().fetch(url)).body

def with_libcurl(url):
    received, curl = io.BytesIO(), pycurl.Curl()
    for option, value in ((pycurl.URL, url), (pycurl.ACCEPT_ENCODING, ""), (pycurl.WRITEDATA, received)):
        curl.setopt(option, value)
    curl.perform()
    return received.getvalue()

def with_pyreqwest(url):
    with SyncClientBuilder().build() as client:
        return bytes(client.get(url).build().send().bytes())

clients = {
    "requests": lambda url: requests.get(url).content, "httpx": lambda url: httpx.get(url).content,
    "niquests": lambda url: niquests.get(url).content, "aiohttp": lambda url: asyncio.run(with_aiohttp(url)),
    "libcurl": with_libcurl, "tornado": lambda url: asyncio.run(with_tornado(url)), "pyreqwest": with_pyreqwest,
}
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()

def take(client, name):
    try:
        received = clients[client](f"http://127.0.0.1:{server.server_port}/{name.replace(' ', '-')}")
    except Exception:
        return "error"
    if received == text:
        return "whole"
    return f"part of {len(received)}" if text.startswith(received) else "coded"

seen = {name: {client: take(client, name) for client in clients} for name in bodies}
server.shutdown()
for name, results in seen.items():
    print(f"{name}:", ", ".join(f"{client} {result}" for client, result in results.items()))
lenient = ("requests", "httpx", "niquests", "aiohttp", "libcurl")
as_found = (
    set(seen["gzip whole"].values()) == {"whole"} and all(seen["br whole"][client] == "whole" for client in (*lenient, "pyreqwest"))
    and all(seen[name][client].startswith("part of ") for name in ("gzip half", "br short") for client in lenient)
    and all(seen["gzip short"][client] == "whole" for client in lenient)
    and seen["gzip half"]["tornado"] == seen["gzip half"]["pyreqwest"] == seen["gzip short"]["tornado"] == "error"
    and seen["br short"]["pyreqwest"] == seen["gzip short"]["pyreqwest"] == "error" and set(seen["gzip wrong"].values()) == {"error"}
)
print("as found: a part counts as the whole" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
