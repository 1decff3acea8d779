#!/usr/bin/env bash
# Guess:    a client that decodes gzip and Brotli decodes a response with both (RFC 9110 §8.4: a list, in the order applied),
#           in one field line or in two, and takes "GZIP" for gzip (§8.4.1: codings are case-insensitive). If not, it fails.
# Version:  aiohttp 3.14.5, pyreqwest 0.15.1 (reqwest), impit 0.15.1, requests 2.34.2, HTTPX 0.28.1, brotli 1.2.1, from PyPI.
# Found:    aiohttp, pyreqwest and impit hand over the coded bytes of "gzip, br" with 200 and no error. With two field lines
#           aiohttp undoes Brotli only and returns the gzip bytes; the other two fail. pyreqwest and impit leave "GZIP" coded
#           as well. requests and HTTPX decode all of them.
# Seen:     Content-Encoding: gzip, br           aiohttp coded   pyreqwest coded   impit coded
#           Content-Encoding: gzip, then: br     aiohttp half    pyreqwest error   impit error
#           Content-Encoding: GZIP               aiohttp plain   pyreqwest coded   impit coded
# Matters:  a body that its app compressed and a middleware or proxy compressed again has two codings. The parser behind such a
#           client gets binary data and reports a mistake in the JSON.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check requests==2.34.2 \
    urllib3==2.8.0 httpx==0.28.1 aiohttp==3.14.5 pyreqwest==0.15.1 impit==0.15.1 brotli==1.2.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - <<'PYTHON'
import asyncio, gzip, http.server, sys, threading
import aiohttp, brotli, httpx, impit, requests
from pyreqwest.client import SyncClientBuilder

text = b"".join(b"%06d\n" % number for number in range(3000))
inner = gzip.compress(text)
both = brotli.compress(inner)
bodies = {
    "/list": (["gzip, br"], both), "/lines": (["gzip", "br"], both), "/upper": (["GZIP"], inner), "/gzip": (["gzip"], inner),
}

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        codings, body = bodies[self.path]
        self.send_response(200)
        for coding in codings:
            self.send_header("Content-Encoding", coding)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass

async def with_aiohttp(url):
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return await response.read()

def with_pyreqwest(url):
    with SyncClientBuilder().build() as client:
        return bytes(client.get(url).build().send().bytes())

clients = {
    "aiohttp": lambda url: asyncio.run(with_aiohttp(url)), "pyreqwest": with_pyreqwest,
    "impit": lambda url: impit.Client().get(url).content, "requests": lambda url: requests.get(url).content,
    "httpx": lambda url: httpx.get(url).content,
}
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()

def take(client, path):
    try:
        received = clients[client](f"http://127.0.0.1:{server.server_port}{path}")
    except Exception:
        return "error"
    return {inner: "half", bodies[path][1]: "coded", text: "plain"}.get(received, "other")

seen = {path: {client: take(client, path) for client in clients} for path in bodies}
server.shutdown()
for path, results in seen.items():
    print(f"{bodies[path][0]}:", ", ".join(f"{client} {result}" for client, result in results.items()))
as_found = (
    [list(seen[path].values()) for path in ("/list", "/lines", "/upper", "/gzip")] == [
        ["coded", "coded", "coded", "plain", "plain"], ["half", "error", "error", "plain", "plain"],
        ["plain", "coded", "coded", "plain", "plain"], ["plain"] * 5,
    ]
)
print("as found: coded bytes are handed over as the body" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
