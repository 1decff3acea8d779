#!/usr/bin/env bash
# Guess:    response.links["next"] has the next page whenever the Link field names one: a relation type may stand beside
#           others in one rel, and a title may have any text in its quotes (RFC 8288 §3).
# Version:  requests 2.34.2, httpx 0.28.1, aiohttp 3.14.5.
# Found:    all three take rel as one word: rel="next last" is the relation "next last", and there is no "next". The last page
#           but one of a list has exactly this, so the last page is never read. requests and httpx also split at a semicolon
#           in quotes: a link with title="a;b" before its rel has no relation, and its URL is the key.
# Seen:     <http://h/2>; rel="next last"              {'next last': ...} from all three
#           <http://h/2>; title="a;b, c"; rel="next"   {'http://h/2': ...} from requests and httpx, {'next': ...} from aiohttp
# Matters:  a loop "while next in links" ends one page early and says nothing.
# Everything is in a temporary folder, on free loopback ports. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check requests==2.34.2 httpx==0.28.1 aiohttp==3.14.5; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import asyncio, http.server, sys, threading
import aiohttp, httpx, requests

LINKS = ['<http://h/2>; rel="next last"', '<http://h/2>; title="a;b, c"; rel="next"', '<http://h/2>; rel="next"']

class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Link", LINKS[int(self.path[1:])])
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments): pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()

async def of_aiohttp(url):
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return set(response.links)

def seen(number):
    url = f"http://127.0.0.1:{server.server_port}/{number}"
    found = [set(requests.get(url, timeout=10).links), set(httpx.get(url, trust_env=False).links), asyncio.run(of_aiohttp(url))]
    print(LINKS[number], found)
    return found

several, title, plain = seen(0), seen(1), seen(2)
as_found = (
    several == [{"next last"}] * 3 and title == [{"http://h/2"}, {"http://h/2"}, {"next"}] and plain == [{"next"}] * 3
)
print("as found: there is no next in a rel of two types" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
