#!/usr/bin/env bash
# Guess:    a tool that continues a download asks for the rest of the same version (If-Range with the ETag or Last-Modified that
#           it got, RFC 9110 §13.1.5), or compares the second response with the first, and starts again if it has changed.
# Version:  GNU Wget 1.21.3 and aria2 1.36.0 (Debian 12, wget 1.21.3-1+deb12u1 and aria2 1.36.0-1), each with -c.
# Found:    neither does. Both ask for the rest with Range alone, take the 206 with another strong ETag, another Last-Modified
#           and the same length, and report success for a file whose halves are of two versions. aria2 gets the header of the
#           new version first, and has a control file of its download, which holds nothing of the old one.
# Seen:     first run    half of "v1", then the connection ends
#           second run   Range: bytes=350000- without If-Range; 206, ETag: "v2"; exit code 0; v1 up to the middle, then v2
# Matters:  a nightly file or an image that is built again under its name is broken by a download that was cut. Only a digest
#           that comes another way finds it.
# So here:  the validator is kept with the part, sent as If-Range, and compared with that of the 206.
# Everything is in a temporary folder, on free loopback ports. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

packages=(wget=1.21.3-1+deb12u1 aria2=1.36.0-1 libaria2-0=1.36.0-1 libc-ares2 libssh2-1 libpsl5 libsqlite3-0 libxml2)
if ! (cd "$work" && apt-get download -q -o APT::Sandbox::User=root "${packages[@]}" \
    && for package in *.deb; do dpkg -x "$package" root; done) >&2; then
    echo "the tools could not be downloaded" >&2
    exit 2
fi

python3 - "$work" <<'PYTHON'
import glob, http.server, os, subprocess, sys, threading

work = sys.argv[1]
libraries = ":".join(glob.glob(f"{work}/root/usr/lib/*-linux-gnu"))
environment = {**os.environ, "LD_LIBRARY_PATH": libraries, "HOME": work, "http_proxy": ""}
versions = {name: b"".join(b"%s%05d" % (name.encode(), number) for number in range(100_000)) for name in ("v1", "v2")}
dates = {"v1": "Mon, 05 Jan 2026 00:00:00 GMT", "v2": "Tue, 06 Jan 2026 00:00:00 GMT"}
now, asked = ["v1"], []

class Server(http.server.BaseHTTPRequestHandler):
    """Serves the current version with ranges and If-Range; sends half of the first version only."""
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        name = now[0]
        body, tag, date = versions[name], f'"{name}"', dates[name]
        span, condition = self.headers["Range"], self.headers["If-Range"]
        asked.append((span, condition))
        start = int(span.removeprefix("bytes=").split("-")[0]) if span and condition in (None, tag, date) else None
        self.send_response(200 if start is None else 206)
        if start is not None:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self.send_header("ETag", tag)
        self.send_header("Last-Modified", date)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(len(body) - (start or 0)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[start or 0:] if name == "v2" else body[:len(body) // 2])
            self.close_connection = name == "v1"

    do_HEAD = do_GET

    def log_message(self, *arguments):
        pass

class Quiet(http.server.ThreadingHTTPServer):
    def handle_error(self, *arguments):
        pass

tools = {
    "wget": ["wget", "-q", "-c", "--tries=1", "--no-config"],
    "aria2c": ["aria2c", "-q", "-c", "--max-tries=1", "--split=1", "--file-allocation=none", "--no-conf"],
}
server = Quiet(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()

def run(tool):
    folder = f"{work}/of-{tool}"
    os.mkdir(folder)
    asked.clear()
    codes = []
    for name in versions:
        now[0] = name
        command = [f"{work}/root/usr/bin/{tools[tool][0]}", *tools[tool][1:], f"http://127.0.0.1:{server.server_port}/file"]
        codes.append(subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=60).returncode)
    with open(f"{folder}/file", "rb") as file:
        received = file.read()
    parts = received.count(b"v1"), received.count(b"v2")
    print(tool, "exit codes", *codes, "Range and If-Range", asked, "pieces of v1 and v2", *parts)
    unconditional = all(condition is None for _, condition in asked)
    return codes[0] != 0 and codes[1] == 0 and len(received) == 700_000 and min(parts) > 0 and unconditional

for tool in tools:
    print(subprocess.check_output([f"{work}/root/usr/bin/{tool}", "--version"], text=True, env=environment).split("\n")[0])
results = [run(tool) for tool in tools]
server.shutdown()
print("as found: a continued download mixes two versions" if all(results) else "the behaviour has changed")
sys.exit(0 if all(results) else 1)
PYTHON
