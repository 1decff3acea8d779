#!/usr/bin/env bash
# Guess:    a cache that follows the fields of HTTP drops what it has of a URL when it sends a change to it and the server takes
#           that: POST, PUT, PATCH and DELETE invalidate (RFC 9111 §4.4). A max-age that is too large means very long (§1.2.2).
# Version:  requests-cache 1.3.3 with cache_control=True, CacheControl 0.14.4, hishel 2.0.0 with rfc=True; with requests 2.34.2.
# Found:    requests-cache gives the old content after each of the four, CacheControl after POST; hishel asks again. A response
#           with max-age=9223372036854775807, which some servers send for "for ever", is an OverflowError of requests-cache.
# Seen:     GET, a change, GET           POST     PUT      PATCH    DELETE
#           requests-cache               old      old      old      old, of what is gone
#           CacheControl                 old      new      new      new
#           hishel                       new      new      new      new
# Matters:  a program does not see what it has just saved itself, for as long as max-age says; one test with another client, or
#           with PUT in place of POST, does.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check requests==2.34.2 \
    requests-cache==1.3.3 CacheControl==0.14.4 hishel==2.0.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import http.server, sys, threading
import cachecontrol, hishel, hishel.requests, requests, requests_cache

work = sys.argv[1]
changed = set()

class Shop(http.server.BaseHTTPRequestHandler):
    """Each path has a content that any change replaces."""
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = b"new" if self.path in changed else b"old"
        self.send_response(200)
        self.send_header("Cache-Control", "max-age=9223372036854775807" if self.path.endswith("/long") else "max-age=100")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self):
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        changed.add(self.path)
        self.send_response(204)
        self.end_headers()

    do_POST = do_PATCH = do_DELETE = do_PUT

    def log_message(self, *arguments):
        pass

def with_hishel():
    session = requests.Session()
    storage = hishel.SqliteStorage(database_path=f"{work}/cache.db")
    session.mount("http://", hishel.requests.CacheAdapter(storage=storage, rfc=True))
    return session

caches = {
    "requests-cache": requests_cache.CachedSession(backend="memory", cache_control=True),
    "CacheControl": cachecontrol.CacheControl(requests.Session()), "hishel": with_hishel(),
}
shop = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shop)
threading.Thread(target=shop.serve_forever, daemon=True).start()
seen = {}
for name, session in caches.items():
    session.trust_env = False
    contents = []
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        url = f"http://127.0.0.1:{shop.server_port}/{name}/{method}"
        assert session.get(url).text == "old"
        session.request(method, url, data=None if method == "DELETE" else b"new").raise_for_status()
        contents.append(session.get(url).text)
    try:
        contents.append(session.get(f"http://127.0.0.1:{shop.server_port}/{name}/long").text)
    except OverflowError:
        contents.append("OverflowError")
    seen[name] = contents
    print(f"{name:15} after POST, PUT, PATCH, DELETE:", *contents[:4], "  with a long max-age:", contents[4])
shop.shutdown()
as_found = seen == {
    "requests-cache": ["old", "old", "old", "old", "OverflowError"], "CacheControl": ["old", "new", "new", "new", "old"],
    "hishel": ["new", "new", "new", "new", "old"],
}
print("as found: a change leaves the stored response" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
