#!/usr/bin/env bash
# Guess:    a proxy that does not pass trailers on drops them (RFC 9110 §6.5.1), and one that does not know an interim response
#           skips it (RFC 9110 §15.2): in both cases the client gets the final response.
# Version:  Varnish 7.1.1 (Debian 12, varnish 7.1.1-2+deb12u1), a VCL with one backend and nothing else.
# Found:    a response with a trailer section never arrives whole: the client gets 503, or 200 with a chunked body that is cut off.
#           103 Early Hints and 104 Upload Resumption Supported from the origin make 503 out of every 200 and 201 after them. The
#           503 says Retry-After: 5, and the origin has done what it was asked each time.
# Seen:     chunked                    200, whole
#           chunked with a trailer     503, or 200 and cut off
#           103, then 200              503  Retry-After: 5
#           POST: 104, then 201        503  Retry-After: 5
# Matters:  an API that starts to send checksums in trailers, early hints or resumable uploads loses all calls behind such a
#           cache. 503 with Retry-After looks as if waiting helped; each new try uploads everything again.
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
import base64, glob, hashlib, http.client, http.server, os, socket, subprocess, sys, threading, time

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

body, reached = b"123456\n" * 10, []
digest = base64.b64encode(hashlib.sha256(body).digest())

class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        reached.append(self.path)
        if self.path == "/early-hints":
            self.wfile.write(b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n")
        if self.path == "/upload":
            self.wfile.write(b"HTTP/1.1 104 Upload Resumption Supported\r\nLocation: /upload/1\r\n\r\n")
        self.send_response(201 if self.path == "/upload" else 200)
        self.send_header("Cache-Control", "no-store")
        if "chunked" in self.path:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            trailer = b"Repr-Digest: sha-256=:%s:\r\n" % digest if "trailer" in self.path else b""
            self.wfile.write(b"%x\r\n%s\r\n0\r\n%s\r\n" % (len(body), body, trailer))
        else:
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *arguments):
        pass

class Quiet(http.server.ThreadingHTTPServer):
    def handle_error(self, *arguments):
        pass  # Varnish closes the connection in the middle

def fetch(method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, path, body=body)
    response = connection.getresponse()
    try:
        received = response.read()
    except http.client.IncompleteRead:
        received = "cut off"
    connection.close()
    print(method, path, "->", response.status, response.headers["Retry-After"], received if received == "cut off" else len(received))
    return response.status, response.headers["Retry-After"], received

origin = Quiet(("127.0.0.1", 0), Origin)
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
    chunked = fetch("GET", "/chunked")
    trailers = [fetch("GET", "/chunked-with-trailer") for _ in range(4)]
    hints = fetch("GET", "/early-hints")
    upload = fetch("POST", "/upload", b"data")
finally:
    server.terminate()
    server.wait()
as_found = (
    chunked == (200, None, body) and all(status == 503 or (status, received) == (200, "cut off") for status, _, received in trailers)
    and hints[:2] == upload[:2] == (503, "5") and "/early-hints" in reached and "/upload" in reached
)
print("as found: trailers and interim responses fail the call" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
