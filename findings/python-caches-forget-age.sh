#!/usr/bin/env bash
# Guess:    a client's cache behind a shared cache counts the time that a response has spent there: with max-age=100 and
#           Age: 99 one second is left (RFC 9111 §4.2.3), with Age: 200 it is stale on arrival.
# Version:  requests-cache 1.3.3 with cache_control=True, CacheControl 0.14.4, hishel 2.0.0 with rfc=True; with requests 2.34.2.
# Found:    none of the three looks at Age. All answer from the store for the whole max-age once more; hishel, whose README says
#           that this mode follows RFC 9111, even replaces Age: 200 with Age: 0 (or 1), which the next cache believes.
# Seen:     max-age=100, no Age         all three: the second request is answered from the store
#           max-age=0, ETag             all three: the second request asks the origin
#           max-age=100, Age: 200       all three: the second request is answered from the store; hishel's says Age: 0
# Matters:  behind a CDN each user of such a cache sees a change up to twice the time late that the origin allowed.
# So here:  the age of a stored response starts with its Age field, and with its Date if that tells of more.
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
fields = {"/new": {"Cache-Control": "max-age=100"}, "/stale": {"Cache-Control": "max-age=0"},
          "/old": {"Cache-Control": "max-age=100", "Age": "200"}}
asked = []

class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        asked.append(self.path)
        self.send_response(200)
        for name, value in fields[self.path].items():
            self.send_header(name, value)
        self.send_header("ETag", '"v1"')
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"body")

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
origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
threading.Thread(target=origin.serve_forever, daemon=True).start()
seen = {}
for name, session in caches.items():
    for path in fields:
        url, before = f"http://127.0.0.1:{origin.server_port}{path}", len(asked)
        session.get(url)
        again = session.get(url)
        seen[name, path] = len(asked) - before, again.headers.get("Age")
        print(name, fields[path], "asked the origin", seen[name, path][0], "of 2 times, Age", seen[name, path][1])
origin.shutdown()
as_found = (
    all(seen[name, "/new"][0] == 1 and seen[name, "/stale"][0] == 2 and seen[name, "/old"][0] == 1 for name in caches)
    and int(seen["hishel", "/old"][1]) < 100 and seen["CacheControl", "/old"][1] == "200"
)
print("as found: Age is not counted" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
