#!/usr/bin/env bash
# Guess:    a cache behind another one keeps a response only for what is left of its time, and passes the Age that it came with
#           to the client, which counts from there (RFC 9111 §4.2.3, §5.1).
# Version:  HAProxy 2.6.12 (Debian 12, haproxy 2.6.12-1+deb12u4) with cache-use and cache-store.
# Found:    the response that HAProxy stores goes to the client without its Age, so that it looks new. Later answers from the
#           store do have an Age that counts on from the origin's, also when it is more than max-age: the store keeps the
#           response for a whole max-age of its own.
# Seen:     origin: max-age=5, Age: 4    first      from the origin   no Age
#                                        after 3 s  from the store    Age: 7
#                                        after 7 s  from the origin   no Age
# Matters:  a client's cache takes the first answer for fresh for all of the time instead of the rest, and asks for later ones
#           again each time, as they arrive stale. Behind a CDN a change comes twice the time late.
# Everything is in a temporary folder, on free loopback ports. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

packages=(haproxy=2.6.12-1+deb12u4 libopentracing-c-wrapper0 libopentracing1 liblua5.3-0 libpcre2-8-0)
if ! (cd "$work" && apt-get download -q -o APT::Sandbox::User=root "${packages[@]}" \
    && for package in *.deb; do dpkg -x "$package" root; done) >&2; then
    echo "haproxy could not be downloaded" >&2
    exit 2
fi

python3 - "$work" <<'PYTHON'
import glob, http.client, http.server, os, socket, subprocess, sys, threading, time

work = sys.argv[1]
environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(glob.glob(f"{work}/root/usr/lib/*-linux-gnu"))}
asked = []

class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        asked.append(self.path)
        self.send_response(200)
        self.send_header("Cache-Control", "max-age=5")
        if self.path == "/old":
            self.send_header("Age", "4")
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"body")

    def log_message(self, *arguments):
        pass

class Quiet(http.server.ThreadingHTTPServer):
    def handle_error(self, *arguments):
        pass  # HAProxy closes its connections by reset at the end

def fetch(path):
    before = len(asked)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    connection.close()
    seen = "origin" if len(asked) > before else "store", response.headers["Age"]
    print(path, "from the", *seen)
    return seen

origin = Quiet(("127.0.0.1", 0), Origin)
threading.Thread(target=origin.serve_forever, daemon=True).start()
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
with open(f"{work}/haproxy.cfg", "w") as file:
    file.write(f"""
defaults
    mode http
    timeout connect 5s
    timeout client 20s
    timeout server 20s
cache store
    total-max-size 4
    max-age 3600
frontend in
    bind 127.0.0.1:{port}
    http-request cache-use store
    http-response cache-store store
    default_backend origin
backend origin
    server one 127.0.0.1:{origin.server_port}
""")
haproxy = f"{work}/root/usr/sbin/haproxy"
print(subprocess.check_output([haproxy, "-v"], text=True, env=environment).split(" 20")[0])
server = subprocess.Popen([haproxy, "-db", "-f", f"{work}/haproxy.cfg"], stderr=subprocess.DEVNULL, env=environment)
try:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.05)
    new, old = fetch("/new"), fetch("/old")
    time.sleep(3)
    stale = fetch("/old")
    time.sleep(4)
    again = fetch("/old")
finally:
    server.terminate()
    server.wait()
as_found = new == old == again == ("origin", None) and stale[0] == "store" and int(stale[1]) >= 6
print("as found: the first answer has lost its Age, the store keeps it too long" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
