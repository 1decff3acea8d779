#!/usr/bin/env bash
# Guess:    an upload of tus 1.0 that was created, and whose first part was taken with 204, can be continued: HEAD says its offset.
#           Upload-Metadata is optional.
# Version:  tuspyserver 4.4.3, fastapi 0.165.0, uvicorn 0.54.0.
# Found:    without metadata, and with a `filename` but no `filetype`, POST is 201 and PATCH is 204, but HEAD is 400 with no
#           body: the upload can be made in one go, but never continued. With both names (or `name` and `type`) HEAD is 200.
# Seen:     no metadata             POST 201, PATCH 204 with offset 5, HEAD 400
#           filename                POST 201, PATCH 204 with offset 5, HEAD 400
#           filename and filetype   POST 201, PATCH 204 with offset 5, HEAD 200 with offset 5
# Matters:  tests with short uploads pass; the first broken connection in production loses the upload. A client that sends
#           both names is safe.
# Everything is in a temporary folder, on free loopback ports. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check tuspyserver==4.4.3 fastapi==0.165.0 uvicorn==0.54.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import base64, http.client, socket, subprocess, sys, time

work = sys.argv[1]
with open(f"{work}/app.py", "w") as file:
    file.write(f"""
from fastapi import FastAPI
from tuspyserver import create_tus_router
app = FastAPI()
app.include_router(create_tus_router(prefix="files", files_dir="{work}/uploads"))
""")
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
server = subprocess.Popen([f"{work}/venv/bin/uvicorn", "app:app", "--port", str(port), "--log-level", "critical"], cwd=work)

def send(method, path, body=None, **fields):
    fields = {"Tus_Resumable": "1.0.0", **fields}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in fields.items() if value is not None})
    response = connection.getresponse()
    response.read()
    connection.close()
    offset = response.headers["Upload-Offset"]
    print(method, {name: value for name, value in fields.items() if name != "Tus_Resumable" or value != "1.0.0"},
          "->", response.status, "" if offset is None else f"offset {offset}")
    return response

def create(metadata):
    response = send("POST", "/files/", Upload_Length="10", Upload_Metadata=metadata)
    return "/" + response.headers["Location"].split("/", 3)[3]

def metadata(**values):
    return ",".join(f"{name} {base64.b64encode(value.encode()).decode()}" for name, value in values.items())

BYTES = "application/offset+octet-stream"
try:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.05)
    else:
        sys.exit(2)

    def tried(text):
        path = create(text)
        part = send("PATCH", path, b"hello", Upload_Offset="0", Content_Type=BYTES)
        return part.status, send("HEAD", path).status

    found = [tried(None), tried(metadata(filename="a.txt")), tried(metadata(filename="a.txt", filetype="text/plain"))]
finally:
    server.terminate()
    server.wait()
as_found = found == [(204, 400), (204, 400), (204, 200)]
print("as found: HEAD needs two names in the metadata" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
