#!/usr/bin/env bash
# Guess:    a server that does not serve several ranges in one response sends the whole body with 200 (RFC 9110 §14.2: MAY
#           ignore); 416 is for ranges that all lie behind the end, and a list of tags in If-None-Match is compared one by one.
# Version:  Varnish 7.1.1 (Debian 12, varnish 7.1.1-2+deb12u1), a VCL with one backend and nothing else.
# Found:    two ranges, both inside the body, are 416 with Content-Range: bytes */70000.
#           If-None-Match is compared as one text: a list that has the tag, and "*", get 200 and the body.
# Seen:     Range: bytes=0-9                  206
#           Range: bytes=0-9,100-109          416  bytes */70000
#           If-None-Match: "v1"               304
#           If-None-Match: "v0", "v1"         200
# Matters:  416 with the length that a client has already reads as "complete", or as "the file has changed: start again". A
#           cache that holds several variants and asks with all their tags always gets the body.
# Everything is in a temporary folder, on free loopback ports. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried. Varnish compiles its VCL with gcc.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

packages=(varnish=7.1.1-2+deb12u1 libjemalloc2 libpcre2-8-0)
if ! { command -v gcc && (cd "$work" && apt-get download -q -o APT::Sandbox::User=root "${packages[@]}" \
    && for package in *.deb; do dpkg -x "$package" root; done); } >&2; then
    echo "varnish could not be downloaded, or gcc is missing" >&2
    exit 2
fi

python3 - "$work" <<'PYTHON'
import glob, http.client, http.server, os, socket, subprocess, sys, threading, time

work = sys.argv[1]
libraries = ":".join(glob.glob(f"{work}/root/usr/lib/*-linux-gnu"))
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

body = b"123456\n" * 10_000

class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Cache-Control", "max-age=3600")
        self.send_header("ETag", '"v1"')
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass

def fetch(**fields):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", "/", headers={name.replace("_", "-"): value for name, value in fields.items()})
    response = connection.getresponse()
    received = response.read()
    connection.close()
    print(fields, "->", response.status, response.headers["Content-Range"], len(received))
    return response.status, response.headers["Content-Range"]

origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
threading.Thread(target=origin.serve_forever, daemon=True).start()
port = free_port()
with open(f"{work}/one.vcl", "w") as file:
    file.write(f'vcl 4.1; backend origin {{ .host = "127.0.0.1"; .port = "{origin.server_port}"; }}')
varnish = f"{work}/root/usr/sbin/varnishd"
vmods = glob.glob(f"{work}/root/usr/lib/*-linux-gnu/varnish/vmods")[0]
print(subprocess.run([varnish, "-V"], capture_output=True, text=True, env=environment).stderr.split("\n")[0])
server = subprocess.Popen(
    [varnish, "-F", "-j", "none", "-n", f"{work}/state", "-a", f"127.0.0.1:{port}", "-f", f"{work}/one.vcl", "-s", "malloc,8m",
     "-p", f"vmod_path={vmods}"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
)
try:
    wait_for(port)
    seen = [
        fetch(), fetch(Range="bytes=0-9"), fetch(Range="bytes=0-9,100-109"), fetch(If_None_Match='"v1"'),
        fetch(If_None_Match='"v0", "v1"'), fetch(If_None_Match="*"),
    ]
finally:
    server.terminate()
    server.wait()
as_found = seen == [
    (200, None), (206, "bytes 0-9/70000"), (416, "bytes */70000"), (304, None), (200, None), (200, None),
]
print("as found: two ranges are refused" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
