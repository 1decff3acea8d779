#!/usr/bin/env bash
# Guess:    a proxy that turns a chunked response into one with Content-Length drops its trailer fields, or moves those into the
#           header that may stand there (RFC 9110 §6.5.1); the client reads either.
# Version:  lighttpd 1.4.69 (Debian 12, lighttpd 1.4.69-1) with mod_proxy; HTTPX 0.28.1, aiohttp 3.14.5, pycurl 7.49.0
#           (libcurl 8.23.0) as clients, from PyPI.
# Found:    lighttpd moves every trailer field into the header and leaves a CR too many behind its value: "X-Count: 1" CR CR LF.
#           A bare CR makes the whole response invalid (RFC 9112 §2.2), and each of the clients fails the call.
# Seen:     chunked, no trailer       200  from all clients
#           chunked, with trailer     X-Count: 1\r\r\n in the header    HTTPX, aiohttp and libcurl  error
#           the same without proxy    200  from all clients
# Matters:  an origin that starts to send a count or a checksum as a trailer loses all clients behind this proxy, with an
#           error that speaks of their header parser.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    httpx==0.28.1 aiohttp==3.14.5 pycurl==7.49.0 && cd "$work" \
    && apt-get download -q -o APT::Sandbox::User=root lighttpd=1.4.69-1 && dpkg -x lighttpd_*.deb root; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import asyncio, glob, http.server, io, os, socket, subprocess, sys, threading, time
import aiohttp, httpx, pycurl

work = sys.argv[1]

class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        trailer = b"X-Count: 1\r\n" if self.path == "/trailer" else b""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"5\r\nhello\r\n0\r\n" + trailer + b"\r\n")

    def log_message(self, *arguments):
        pass

async def with_aiohttp(url):
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return await response.read()

def with_libcurl(url):
    received, curl = io.BytesIO(), pycurl.Curl()
    for option, value in ((pycurl.URL, url), (pycurl.WRITEDATA, received), (pycurl.TIMEOUT, 10)):
        curl.setopt(option, value)
    curl.perform()
    return received.getvalue()

clients = {
    "httpx": lambda url: httpx.get(url, trust_env=False).content, "aiohttp": lambda url: asyncio.run(with_aiohttp(url)),
    "libcurl": with_libcurl,
}

def results(port, path):
    seen = []
    for name, client in clients.items():
        try:
            seen.append(client(f"http://127.0.0.1:{port}{path}"))
        except Exception as error:
            seen.append("error")
            print(f"    {name}: {type(error).__name__} {error}".split("\n")[0])
    return seen

origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
threading.Thread(target=origin.serve_forever, daemon=True).start()
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
with open(f"{work}/lighttpd.conf", "w") as file:
    file.write(f"""
server.document-root = "{work}"
server.bind = "127.0.0.1"
server.port = {port}
server.modules = ("mod_proxy")
proxy.server = ("" => (("host" => "127.0.0.1", "port" => {origin.server_port})))
""")
lighttpd = f"{work}/root/usr/sbin/lighttpd"
print(subprocess.check_output([lighttpd, "-v"], text=True).split(" - ")[0])
server = subprocess.Popen(
    [lighttpd, "-D", "-f", f"{work}/lighttpd.conf", "-m", f"{work}/root/usr/lib/lighttpd"], stderr=subprocess.DEVNULL,
)
try:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.05)
    with socket.create_connection(("127.0.0.1", port), 10) as channel:
        channel.sendall(b"GET /trailer HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
        head = b""
        while piece := channel.recv(65536):
            head += piece
    lines = head.split(b"\r\n\r\n")[0].split(b"\n")
    print("header:", [line for line in lines if line.startswith(b"X-Count")])
    seen = {
        "direct, trailer": results(origin.server_port, "/trailer"), "proxy, none": results(port, "/none"),
        "proxy, trailer": results(port, "/trailer"),
    }
finally:
    server.terminate()
    server.wait()
for name, answers in seen.items():
    print(f"{name}:", *answers)
whole = [b"hello"] * len(clients)
as_found = (
    b"X-Count: 1\r\r" in lines and seen == {"direct, trailer": whole, "proxy, none": whole, "proxy, trailer": ["error"] * 3}
)
print("as found: a trailer makes the header invalid" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
