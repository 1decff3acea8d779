#!/usr/bin/env bash
# Guess:    a client that takes passwords from .netrc and proxies from the environment looks at them for each call, or once for
#           a session: a new session sees the new password, as in requests, which niquests replaces without other changes.
# Version:  niquests 3.21.2, requests 2.34.2, from PyPI.
# Found:    niquests keeps for the life of the process what .netrc said for a URL, and the proxies that the environment had
#           first, whatever the session. After a change it sends the old password to each URL that it has called before, and the
#           new one to the others.
# Seen:                            password changed in .netrc                     proxy changed in the environment
#           requests               new                                            new
#           niquests               old for /orders, new for /customers            the first one
# Matters:  a service that runs for weeks and whose password is renewed gets 401 from the calls that it makes most, while a test
#           with another URL, or after a restart, works.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    niquests==3.21.2 requests==2.34.2; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import base64, http.server, os, sys, threading

work = sys.argv[1]
for name in list(os.environ):
    if name.lower().endswith("_proxy") or name == "NETRC":
        del os.environ[name]
os.environ["HOME"] = work
import niquests, requests

class Server(http.server.BaseHTTPRequestHandler):
    """The shop, and a proxy that answers for it."""
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        sent = self.headers["Authorization"]
        self.server.received.append(base64.b64decode(sent.split()[1]).decode().partition(":")[2] if sent else None)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass

def start():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.received = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server

shop, first, second = start(), start(), start()

def passwords(client):
    def call(password, path):
        with open(f"{work}/.netrc", "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(f"machine localhost login robot password {password}\n")
        with client.Session() as session:
            session.get(f"http://localhost:{shop.server_port}{path}", timeout=20)
        return shop.received[-1]

    return call("old", "/orders"), call("new", "/orders"), call("new", "/customers")

def proxies(client):
    used = []
    for server in (first, second):
        os.environ["http_proxy"] = f"http://127.0.0.1:{server.server_port}"
        first.received.clear()
        second.received.clear()
        with client.Session() as session:
            session.get(f"http://localhost:{shop.server_port}/stock", timeout=20)
        used.append("first" if first.received else "second" if second.received else "none")
    del os.environ["http_proxy"]
    return tuple(used)

seen = {}
for client in (requests, niquests):
    used = proxies(client)
    if client is niquests:
        # The proxy is gone from the environment, but not for niquests: it asks for the passwords without it.
        niquests.utils.getproxies.cache_clear()
        niquests.utils.getproxies_environment.cache_clear()
    seen[client.__name__] = passwords(client), used
    print(client.__name__, client.__version__, "  passwords:", *seen[client.__name__][0], "  proxies:", *used)
as_found = seen == {
    "requests": (("old", "new", "new"), ("first", "second")), "niquests": (("old", "old", "new"), ("first", "first")),
}
print("as found: the first answer is kept" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
