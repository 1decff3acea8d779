#!/usr/bin/env bash
# Guess:    a server for resumable uploads keeps what it has received of a PATCH whose connection broke ("SHOULD always attempt to
#           store as much of the received data as possible", tus 1.0.0), and tells by HEAD that an upload is complete.
# Version:  tussi 3.1.0 on Starlette 1.10.0 and uvicorn 0.54.0; the witness is resumable-upload 0.3.0; all of this year, PyPI.
# Found:    tussi collects the whole body of a PATCH before it stores a byte: of one that was cut off it has nothing. Once all is
#           there, the upload is gone: HEAD is 404, as for one that never was. resumable-upload keeps the bytes of a PATCH with
#           Content-Length, and loses those of a chunked one.
# Seen:                                            tussi     resumable-upload
#           PATCH of 8 MB, cut after 6 MB          0         6,000,000
#           the same, chunked                      0         0
#           a whole PATCH, chunked                 400       204
#           HEAD after the last PATCH              404       200, Upload-Offset: 8000000
# Matters:  an upload that is sent in one PATCH, as the protocol likes it, begins anew after each interruption, and on a bad line
#           never ends. If the answer to the last PATCH is lost, the client finds 404, and sends the file again.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    tussi==3.1.0 starlette==1.10.0 uvicorn==0.54.0 resumable-upload==0.3.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import http.client, importlib.metadata, os, socket, subprocess, sys, time, urllib.parse

work = sys.argv[1]
size, sent = 8_000_000, 6_000_000
for folder in ("uploads", "complete", "other"):
    os.mkdir(f"{work}/{folder}")
with open(f"{work}/shop.py", "w") as file:
    file.write("""
from pathlib import Path
from tussi import FilesystemStorage, TUSApp
application = TUSApp(storage=FilesystemStorage(directory=Path("uploads")), completed_dir=Path("complete"))
""")
programs = {
    "tussi": ("/", lambda port: ["uvicorn", "shop:application", "--host", "127.0.0.1", "--port", str(port)]),
    "resumable-upload": ("/files", lambda port: [
        "resumable-upload", "serve", "--host", "127.0.0.1", "--port", str(port), "--base-path", "/files",
        "--upload-dir", f"{work}/other", "--db-path", f"{work}/uploads.db",
    ]),
}

def look_at(name):
    """The offset after a cut PATCH, after a cut chunked one, and what HEAD says after the last one."""
    base, command = programs[name]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program, *options = command(port)
    server = subprocess.Popen(
        [f"{work}/venv/bin/{program}", *options], cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )

    def call(method, path, body=None, **fields):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        headers = {"Tus-Resumable": "1.0.0"} | {field.replace("_", "-"): value for field, value in fields.items()}
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        response.read()
        connection.close()
        return response.status, response.headers

    def upload():
        return urllib.parse.urlsplit(call("POST", base, b"", Upload_Length=str(size))[1]["Location"]).path

    def offset_after_cut(path, framing, opening, closing):
        """Sends the first part of a PATCH, waits until the server has read it, and closes the connection."""
        fields = f"Upload-Offset: 0\r\nContent-Type: application/offset+octet-stream\r\n{framing}"
        head = f"PATCH {path} HTTP/1.1\r\nHost: a.example\r\nTus-Resumable: 1.0.0\r\n{fields}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", port), 30) as channel:
            channel.sendall(head.encode() + opening + b"x" * sent + closing)
            time.sleep(1)
            channel.shutdown(socket.SHUT_WR)
            time.sleep(1)
        deadline = time.monotonic() + 5
        while (offset := int(call("HEAD", path)[1]["Upload-Offset"])) == 0 and time.monotonic() < deadline:
            time.sleep(0.1)
        return offset

    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if time.monotonic() > deadline:
                    print(name, "did not start", file=sys.stderr)
                    sys.exit(2)
                time.sleep(0.05)
        cut = offset_after_cut(upload(), f"Content-Length: {size}", b"", b"")
        chunked = offset_after_cut(upload(), "Transfer-Encoding: chunked", f"{sent:x}\r\n".encode(), b"\r\n")
        patch = {"Content_Type": "application/offset+octet-stream"}
        whole_chunked = call("PATCH", upload(), iter([b"x" * 100]), Upload_Offset="0", **patch)[0]
        path = upload()
        half = size // 2
        first = call("PATCH", path, b"x" * half, Upload_Offset="0", **patch)[0], call("HEAD", path)[1]["Upload-Offset"]
        last = call("PATCH", path, b"x" * half, Upload_Offset=str(half), **patch)[0]
        status, headers = call("HEAD", path)
        never = call("HEAD", path[:-1] + ("0" if path[-1] != "0" else "1"))[0]
    finally:
        server.terminate()
        server.wait()
    print(f"{name} -> cut: {cut}   cut, chunked: {chunked}   whole, chunked: {whole_chunked}")
    print(f"    two whole ones: {first}, {last}, then HEAD", status, headers["Upload-Offset"], "  HEAD of another upload", never)
    return cut, chunked, whole_chunked, first, last, status, headers["Upload-Offset"], never

print(*(f"{name} {importlib.metadata.version(name)}" for name in ("tussi", "starlette", "uvicorn", "resumable-upload")))
seen = {name: look_at(name) for name in programs}
whole = (204, str(size // 2))
as_found = seen == {
    "tussi": (0, 0, 400, whole, 204, 404, None, 404),
    "resumable-upload": (sent, 0, 204, whole, 204, 200, str(size), 404),
}
print("as found: nothing of the cut request is kept" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
