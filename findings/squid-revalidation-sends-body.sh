#!/usr/bin/env bash
# Guess:    a client that asks a cache "is it still this one?" (If-None-Match) gets 304 while the tag holds, whether the cache
#           answers from its store or asks the origin first; and the 304 names the tag (RFC 9110 §15.4.5: MUST).
# Version:  Squid 5.7 (Debian 12, squid 5.7-2+deb12u6) in front of one origin, memory cache only.
# Found:    when Squid has to ask the origin and gets 304, it answers its own client with 200 and the whole body, with the very
#           tag that was asked for. When it answers from its store it sends 304, but without an ETag.
# Seen:     stored, fresh         If-None-Match: "v1" -> 304, no ETag
#           stored, stale         If-None-Match: "v1" -> 200, ETag "v1", 70000 bytes    (the origin sent 304)
# Matters:  each body travels once more per freshness time to each client that already has it; only a cache that compares the
#           tag of a 200 with its own sees that nothing has changed. A 304 without a tag must update the one stored response.
# Everything is in a temporary folder, on free loopback ports. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

packages=(squid=5.7-2+deb12u6 squid-common=5.7-2+deb12u6 squid-langpack libecap3 libltdl7 libmnl0 libnetfilter-conntrack3 libnfnetlink0 libtdb1)
if ! (cd "$work" && apt-get download -q -o APT::Sandbox::User=root "${packages[@]}" \
    && for package in *.deb; do dpkg -x "$package" root; done) >&2; then
    echo "squid could not be downloaded" >&2
    exit 2
fi

python3 - "$work" <<'PYTHON'
import glob, http.client, http.server, os, socket, subprocess, sys, threading, time

work = sys.argv[1]
root = f"{work}/root"
libraries = ":".join(glob.glob(f"{root}/usr/lib/*-linux-gnu") + glob.glob(f"{root}/lib/*-linux-gnu"))
environment = {**os.environ, "LD_LIBRARY_PATH": libraries}

def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

def wait_for(port):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    print("the server did not start", file=sys.stderr)
    sys.exit(2)

body, answers = b"123456\n" * 10_000, []

class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        status = 304 if self.headers.get("If-None-Match") == '"v1"' else 200
        answers.append(status)
        self.send_response(status)
        self.send_header("ETag", '"v1"')
        self.send_header("Cache-Control", "max-age=3600" if self.path == "/fresh" else "max-age=1")
        if status == 200:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if status == 200:
            self.wfile.write(body)

    def log_message(self, *arguments):
        pass

def fetch(path, **fields):
    before = len(answers)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in fields.items()})
    response = connection.getresponse()
    received = response.read()
    connection.close()
    print(path, fields, "->", response.status, response.headers["ETag"], len(received), "the origin sent", answers[before:])
    return response.status, response.headers["ETag"], len(received), answers[before:]

origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
threading.Thread(target=origin.serve_forever, daemon=True).start()
port = free_port()
os.chmod(work, 0o777)
with open(f"{work}/squid.conf", "w") as file:
    file.write(f"""
http_port 127.0.0.1:{port} accel defaultsite=origin.example no-vhost
cache_peer 127.0.0.1 parent {origin.server_port} 0 no-query originserver no-digest no-netdb-exchange
http_access allow all
cache_mem 8 MB
access_log none
cache_log {work}/log
pid_filename {work}/pid
coredump_dir {work}
netdb_filename none
pinger_enable off
shutdown_lifetime 0 seconds
visible_hostname cache.example
unlinkd_program /bin/true
mime_table {root}/usr/share/squid/mime.conf
icon_directory {root}/usr/share/squid/icons
error_directory {root}/usr/share/squid-langpack/en
""")
squid = f"{root}/usr/sbin/squid"
print(subprocess.run([squid, "-v"], capture_output=True, text=True, env=environment).stdout.split("\n")[0])
server = subprocess.Popen(
    [squid, "-N", "-f", f"{work}/squid.conf", "-n", f"finding{os.getpid()}"], env=environment, stderr=subprocess.DEVNULL,
)
try:
    wait_for(port)
    fetch("/fresh")
    fresh = fetch("/fresh", If_None_Match='"v1"')
    fetch("/short")
    time.sleep(2.5)
    stale = fetch("/short", If_None_Match='"v1"')
finally:
    server.terminate()
    server.wait()
as_found = fresh == (304, None, 0, []) and stale == (200, '"v1"', len(body), [304])
print("as found: an unchanged body is sent again, and the 304 has no tag" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
