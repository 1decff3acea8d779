#!/usr/bin/env bash
# Guess:    after a 417, libcurl sends an upload again without `Expect` (RFC 9110 §10.1.1), whoever has set the field and whatever
#           becomes of the connection.
# Version:  libcurl 8.23.0 in pycurl 7.49.0, from PyPI, against a server of plain sockets.
# Found:    it leaves out only its own `Expect`. One that the application has set goes out again, as often as the server answers
#           417. If the 417 closes the connection, nothing is repeated: the application gets the 417.
# Seen:     a server that answers 417 three times to a field `Expect`, an upload of 2 MB with and without a length:
#             libcurl's own field   417, 200                  the application's   417, 417, 417, 200
#             the same with `Connection: close`   417 both times
# Matters:  an application that sets the field for small uploads, which libcurl does not do by itself, gets a loop of requests from
#           a server that does not know the field; behind a server that closes, uploads fail that curl's own field would not fail.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check pycurl==7.49.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - <<'PYTHON'
import io, socket, sys, threading
import pycurl

SIZE = 2_000_000
listener = socket.create_server(("127.0.0.1", 0))
port = listener.getsockname()[1]
answers, closes = [], False

def serve(stream):
    stream.settimeout(10)
    data = b""

    def more():
        nonlocal data
        piece = stream.recv(65536)
        if not piece:
            raise OSError("the client has closed")
        data += piece

    try:
        while True:
            while b"\r\n\r\n" not in data:
                more()
            head, _, data = data.partition(b"\r\n\r\n")
            head = head.lower()
            if b"expect:" in head:
                if answers.count(417) < 3:
                    answers.append(417)
                    close = b"Connection: close\r\n" if closes else b""
                    stream.sendall(b"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n" + close + b"\r\n")
                    if closes:
                        return
                    continue
                stream.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            if b"chunked" in head:
                while not data.endswith(b"\r\n0\r\n\r\n"):
                    more()
            else:
                while len(data) < SIZE:
                    more()
            data = b""
            answers.append(200)
            stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    except OSError:
        pass
    finally:
        stream.close()

def accept():
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

threading.Thread(target=accept, daemon=True).start()

def upload(sets_field, has_length):
    answers.clear()
    source, curl = io.BytesIO(b"x" * SIZE), pycurl.Curl()
    curl.setopt(pycurl.URL, f"http://127.0.0.1:{port}/")
    curl.setopt(pycurl.UPLOAD, 1)
    curl.setopt(pycurl.READDATA, source)
    curl.setopt(pycurl.SEEKFUNCTION, lambda offset, origin: (source.seek(offset, origin), 0)[1])
    curl.setopt(pycurl.TIMEOUT, 20)
    if has_length:
        curl.setopt(pycurl.INFILESIZE_LARGE, SIZE)
    if sets_field:
        curl.setopt(pycurl.HTTPHEADER, ["Expect: 100-continue"])
    curl.perform()
    return list(answers), curl.getinfo(pycurl.RESPONSE_CODE)

print(pycurl.version.split()[1])
holds = True
for closes in [False, True]:
    for has_length in [True, False]:
        own, given = upload(False, has_length), upload(True, has_length)
        print("closes" if closes else "stays open", "with a length" if has_length else "in chunks",
              "  libcurl's field:", own, "  the application's:", given)
        if closes:
            holds = holds and own == given == ([417], 417)
        else:
            holds = holds and own == ([417, 200], 200) and given == ([417, 417, 417, 200], 200)
sys.exit(0 if holds else 1)
PYTHON
