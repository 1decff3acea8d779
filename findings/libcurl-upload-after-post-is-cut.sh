#!/usr/bin/env bash
# Guess:    when libcurl repeats an upload on a new connection, because the kept one was lost, it calls the seek function first,
#           so that the body begins at its beginning; what the handle sent before does not matter, as CURLOPT_UPLOAD replaces
#           CURLOPT_POSTFIELDS.
# Version:  pycurl 7.45.3 with its libcurl 7.61.1, pycurl 7.45.4 with its libcurl 8.11.1. libcurl 7.88.1 is as 7.61.1.
# Found:    if the handle has sent a POST with CURLOPT_POSTFIELDS before, the old libcurl does not seek, and the new connection gets
#           the rest of the body as a whole one: the server answers 200, and perform() succeeds. After a GET it seeks.
# Seen:     3,000,000 bytes in chunks; the kept connection is reset after 1,000,000
#                            after a GET           after a POST
#           libcurl 7.61.1   200, all bytes        200, only the end of the body; no seek
#           libcurl 8.11.1   200, all bytes        200, all bytes
# Matters:  a program that keeps its handle, as one should, damages an upload now and then, and nobody is told. Setting
#           CURLOPT_POSTFIELDS to NULL before CURLOPT_UPLOAD helps.
# Everything is in a temporary folder with venvs of its own, on free loopback ports. Exits with 0 if the behaviour is as above,
# with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

cat >"$work/trial.py" <<'PYTHON'
import io, random, re, socket, struct, threading
import pycurl

random.seed(1)
BODY = random.randbytes(3_000_000)
received = []

def head(file):
    lines = []
    while (line := file.readline()) not in (b"\r\n", b""):
        lines.append(line.decode().strip())
    return lines

def serve(connection, is_first):
    file = connection.makefile("rb")
    while lines := head(file):
        if not lines[0].startswith("PUT"):
            file.read(sum(int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:")))
        elif is_first:
            file.read(1_000_000)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            file.close()
            connection.close()
            return
        else:
            body = b""
            while size := int(file.readline(), 16):
                body += file.read(size)
                file.readline()
            file.readline()
            received.append(body)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

def listen(listener):
    is_first = True
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection, is_first), daemon=True).start()
        is_first = False

class Source(io.BytesIO):
    seeks = 0

    def rewind(self, offset, origin):
        self.seeks += 1
        self.seek(offset, origin)
        return pycurl.SEEKFUNC_OK

def trial(is_post):
    received.clear()
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=listen, args=(listener,), daemon=True).start()
    curl = pycurl.Curl()
    curl.setopt(pycurl.URL, f"http://127.0.0.1:{listener.getsockname()[1]}/")
    curl.setopt(pycurl.TIMEOUT, 30)
    curl.setopt(pycurl.WRITEFUNCTION, len)
    if is_post:
        curl.setopt(pycurl.POSTFIELDS, "small")
    curl.perform()
    source = Source(BODY)
    curl.setopt(pycurl.UPLOAD, 1)
    curl.setopt(pycurl.READFUNCTION, source.read)
    curl.setopt(pycurl.SEEKFUNCTION, source.rewind)
    curl.setopt(pycurl.HTTPHEADER, ["Expect:"])
    curl.perform()
    (body,) = received
    form = "all bytes" if body == BODY else "only the end" if len(body) < len(BODY) and BODY.endswith(body) else "other bytes"
    return f"{curl.getinfo(pycurl.RESPONSE_CODE)}, {form}, {source.seeks} seeks"

version = re.search(r"libcurl/([0-9.]+)", pycurl.version)[1]
print(f"libcurl {version}: after a GET {trial(False)}; after a POST {trial(True)}")
PYTHON

seen=""
for version in 7.45.3 7.45.4; do
    if ! { python3 -m venv "$work/$version" \
        && "$work/$version/bin/pip" install -q --disable-pip-version-check --only-binary :all: "pycurl==$version"; } >&2; then
        echo "pycurl could not be installed" >&2
        exit 2
    fi
    seen+="$("$work/$version/bin/python" "$work/trial.py")"$'\n'
done
printf '%s' "$seen"
expected="libcurl 7.61.1: after a GET 200, all bytes, 1 seeks; after a POST 200, only the end, 0 seeks
libcurl 8.11.1: after a GET 200, all bytes, 1 seeks; after a POST 200, all bytes, 1 seeks
"
if [[ "$seen" == "$expected" ]]; then
    echo "as found: the body lacks its beginning"
else
    echo "the behaviour has changed"
    exit 1
fi
