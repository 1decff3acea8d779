#!/usr/bin/env bash
# Guess:    the upload of a layer to a container registry resumes as its protocol says: GET of the upload's URL tells with Range
#           how much has arrived, also when the response to the last piece was lost or the piece was cut off. A piece whose
#           Content-Range does not fit is refused with 416.
# Version:  Docker registry 2.8.2 (Debian 12, docker-registry 2.8.2+ds1-1) with files as storage.
# Found:    the URL carries the length it was given out for. After any piece, whole or cut, GET of the URL that the client has
#           is 404, as if there were no upload, although the bytes are there: the URL of the lost response would find them.
#           "Range: 0-0" stands for no byte as for one, and a piece with a wrong Content-Range is appended.
# Seen:     new upload                          204, Range: 0-0       after 1 byte          204, Range: 0-0
#           1000 bytes, response read           202, Range: 0-999     GET of the new URL    204, Range: 0-999
#           1000 bytes, response lost           GET of the URL of before  404
#           400 of 1000 bytes, then cut off     GET of the URL of before  404
#           Content-Range: 500-504 after 1000   202, Range: 0-1004
# Matters:  an upload of gigabytes that loses one response starts again from nothing. A client that asks for the state, as it
#           should, learns only that its upload does not exist.
# Everything is in a temporary folder, on free loopback ports. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { cd "$work" && apt-get download -q -o APT::Sandbox::User=root docker-registry=2.8.2+ds1-1 \
    && dpkg -x docker-registry_*.deb root; } >&2; then
    echo "the registry could not be installed" >&2
    exit 2
fi

python3 - "$work" <<'PYTHON'
import http.client, os, socket, subprocess, sys, time
from urllib.parse import urlsplit

work = sys.argv[1]
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
with open(f"{work}/registry.yml", "w") as file:
    file.write(f"""
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {work}/layers}}}}
http: {{addr: "127.0.0.1:{port}"}}
""")
program = f"{work}/root/usr/bin/docker-registry"
print(subprocess.check_output([program, "--version"], text=True).strip())
environment = {name: value for name, value in os.environ.items() if not name.startswith("REGISTRY_")}
server = subprocess.Popen(
    [program, "serve", f"{work}/registry.yml"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
)

def wait_until_ready():
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    print("the registry did not start", file=sys.stderr)
    sys.exit(2)

def call(method, url, body=None, **fields):
    """The status, the Range and the next URL of the upload."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    fields = {"Content-Type": "application/octet-stream"} | {name.replace("_", "-"): value for name, value in fields.items()}
    connection.request(method, url, body, fields)
    response = connection.getresponse()
    response.read()
    connection.close()
    parts = urlsplit(response.headers["Location"] or "")
    return (response.status, response.headers["Range"]), f"{parts.path}?{parts.query}"

def new_upload():
    return call("POST", "/v2/shop/blobs/uploads/", b"")[1]

def cut_off(url):
    """Sends 400 bytes of 1000, ends the sending side, and waits until the registry has noticed."""
    with socket.create_connection(("127.0.0.1", port), 20) as channel:
        channel.sendall(
            f"PATCH {url} HTTP/1.1\r\nHost: a.example\r\nContent-Type: application/octet-stream\r\n"
            "Content-Length: 1000\r\n\r\n".encode() + bytes(400)
        )
        channel.shutdown(socket.SHUT_WR)
        while channel.recv(65536):
            pass

def stored():
    """The lengths of the uploads that are not finished."""
    return sorted(
        os.path.getsize(os.path.join(folder, "data")) for folder, _, files in os.walk(f"{work}/layers") if "data" in files
    )

seen = {}
try:
    wait_until_ready()
    url = new_upload()
    seen["new upload"] = call("GET", url)[0]
    _, url = call("PATCH", url, b"1")
    seen["after 1 byte"] = call("GET", url)[0]
    before = new_upload()
    seen["1000 bytes"], after = call("PATCH", before, bytes(1000))
    seen["GET, the URL of before"] = call("GET", before)[0]
    seen["GET, the URL of the response"] = call("GET", after)[0]
    seen["Content-Range: 500-504"] = call("PATCH", after, b"piece", Content_Range="500-504")[0]
    before = new_upload()
    seen["GET, before a piece is cut off"] = call("GET", before)[0]
    cut_off(before)
    seen["GET, after a piece was cut off"] = call("GET", before)[0]
    lengths = stored()
finally:
    server.terminate()
    server.wait()
for name, answer in seen.items():
    print(f"{name}:", *answer)
print("bytes kept:", *lengths)
as_found = lengths == [1, 400, 1005] and seen == {
    "new upload": (204, "0-0"), "after 1 byte": (204, "0-0"), "1000 bytes": (202, "0-999"),
    "GET, the URL of before": (404, None), "GET, the URL of the response": (204, "0-999"),
    "Content-Range: 500-504": (202, "0-1004"), "GET, before a piece is cut off": (204, "0-0"),
    "GET, after a piece was cut off": (404, None),
}
print("as found: the state of an upload is lost with one response" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
