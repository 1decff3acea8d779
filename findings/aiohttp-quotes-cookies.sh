#!/usr/bin/env bash
# Guess:    a cookie goes back as it came: the value is opaque to the client (RFC 6265 §5.4 joins name, "=" and value).
# Version:  aiohttp 3.14.5, requests 2.34.2, HTTPX 0.28.1, from PyPI.
# Found:    aiohttp puts a value with "=", "," or quotes inside into quotes and escapes it, and an empty one becomes two quotes.
#           requests takes backslash and quote out of a quoted value. HTTPX sends all as they came.
# Seen:     Set-Cookie: id=YWJjZA==        aiohttp  id="YWJjZA=="                   requests  as it came
#           Set-Cookie: id={"a":1,"b":2}   aiohttp  id="{\"a\":1\054\"b\":2}"       requests  as it came
#           Set-Cookie: id=                aiohttp  id=""                           requests  as it came
#           Set-Cookie: id="a\"b"          aiohttp  as it came                      requests  id="ab"
# Matters:  a session whose id is Base64 with padding is unknown to a server that compares it as it is. A gateway that passes
#           cookies on by aiohttp changes those of its clients.
# So here:  a cookie's value is kept and sent back byte by byte.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    aiohttp==3.14.5 requests==2.34.2 httpx==0.28.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - <<'PYTHON'
import asyncio, http.server, importlib.metadata, sys, threading
import aiohttp, httpx, requests

values = ["plain", "YWJjZA==", '{"a":1,"b":2}', "", r'"a\"b"']
sent = {}

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        kind, number, client = self.path[1:].split("/")
        if kind == "set":
            self.send_header("Set-Cookie", f"id={values[int(number)]}; Path=/")
        else:
            sent[client, values[int(number)]] = (self.headers["Cookie"] or "").removeprefix("id=")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
origin = f"http://127.0.0.1:{server.server_port}"

def urls(number, client):
    return f"{origin}/set/{number}/{client}", f"{origin}/get/{number}/{client}"

async def with_aiohttp(number):
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:  # cookies of an IP address as well
        for url in urls(number, "aiohttp"):
            async with session.get(url) as response:
                await response.read()

def by_name(session, number, client):
    with session:
        for url in urls(number, client):
            session.get(url).raise_for_status()

for number in range(len(values)):
    asyncio.run(with_aiohttp(number))
    by_name(requests.Session(), number, "requests")
    by_name(httpx.Client(trust_env=False), number, "httpx")
server.shutdown()
print(*(f"{name} {importlib.metadata.version(name)}" for name in ("aiohttp", "requests", "httpx")))
for value in values:
    print(f"id={value}", "->", ", ".join(f"{client} id={sent[client, value]}" for client in ("aiohttp", "requests", "httpx")))
as_found = (
    [sent["aiohttp", value] for value in values] == ["plain", '"YWJjZA=="', r'"{\"a\":1\054\"b\":2}"', '""', r'"a\"b"']
    and [sent["requests", value] for value in values] == [*values[:4], '"ab"']
    and [sent["httpx", value] for value in values] == values
)
print("as found: values are changed on their way back" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
