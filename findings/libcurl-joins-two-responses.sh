#!/usr/bin/env bash
# Guess:    a client whose HTTP/2 stream is reset with HTTP_1_1_REQUIRED (RFC 9113 §7) after a part of the body fails, or begins
#           again without that part.
# Version:  libcurl 8.23.0 in pycurl 7.49.0, and httpx 0.28.1 with h2 4.4.1, from PyPI; the server is h2 as well.
# Found:    libcurl sends the request again over HTTP/1.1 and gives the application the whole second body behind the part of the
#           first one, as one body, without an error. A POST is sent twice, although its answer had begun. httpx fails.
# Seen:     GET and POST   libcurl "part-of-firstwhole-second", status 200, no error    httpx RemoteProtocolError
# Matters:  a gateway that asks for HTTP/1.1 in the middle of a response, as before an upgrade or for a client certificate, damages
#           downloads without a trace. With Content-Length the length of the second response counts, not that of the sum.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    h2==4.4.1 pycurl==7.49.0 'httpx[http2]==0.28.1'; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost -keyout "$work/key.pem" -out "$work/cert.pem" 2>"$work/openssl.log" || exit 2

"$work/venv/bin/python" - "$work" <<'PYTHON'
import io, socket, ssl, sys, threading, time
import h2.config, h2.connection, h2.events, h2.errors
import httpx, pycurl

work = sys.argv[1]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(f"{work}/cert.pem", f"{work}/key.pem")
context.set_alpn_protocols(["h2", "http/1.1"])
listener = socket.create_server(("127.0.0.1", 0))
port = listener.getsockname()[1]
requests = []

def serve_h2(stream):
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    connection.initiate_connection()
    stream.sendall(connection.data_to_send())
    while data := stream.recv(65536):
        for event in connection.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                requests.append("h2 " + dict(event.headers)[b":method"].decode())
            if isinstance(event, h2.events.StreamEnded):
                connection.send_headers(event.stream_id, [(":status", "200")])
                connection.send_data(event.stream_id, b"part-of-first")
                stream.sendall(connection.data_to_send())
                time.sleep(0.2)
                connection.reset_stream(event.stream_id, h2.errors.ErrorCodes.HTTP_1_1_REQUIRED)
        stream.sendall(connection.data_to_send())

def serve_h1(stream):
    head = b""
    while b"\r\n\r\n" not in head:
        data = stream.recv(65536)
        if not data:
            return
        head += data
    requests.append("h1 " + head.split()[0].decode())
    stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nConnection: close\r\n\r\nwhole-second")
    stream.recv(65536)

def serve(raw):
    try:
        with context.wrap_socket(raw, server_side=True) as stream:
            (serve_h2 if stream.selected_alpn_protocol() == "h2" else serve_h1)(stream)
    except OSError:
        pass

def accept():
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

threading.Thread(target=accept, daemon=True).start()
url = f"https://localhost:{port}/"

def by_libcurl(method):
    requests.clear()
    body, curl = io.BytesIO(), pycurl.Curl()
    for option, value in [
        (pycurl.URL, url), (pycurl.CAINFO, f"{work}/cert.pem"), (pycurl.WRITEDATA, body), (pycurl.TIMEOUT, 20),
        (pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS), (pycurl.RESOLVE, [f"localhost:{port}:127.0.0.1"]),
    ]:
        curl.setopt(option, value)
    if method == "POST":
        curl.setopt(pycurl.COPYPOSTFIELDS, "order=1")
    try:
        curl.perform()
        outcome = f"{curl.getinfo(pycurl.RESPONSE_CODE)} {body.getvalue().decode()}"
    except pycurl.error as error:
        outcome = f"error {error.args[0]}"
    return outcome, list(requests)

def by_httpx(method):
    requests.clear()
    trust = ssl.create_default_context(cafile=f"{work}/cert.pem")
    with httpx.Client(http2=True, verify=trust, trust_env=False, timeout=20) as client:
        try:
            answer = client.request(method, url, content=b"order=1" if method == "POST" else None)
            return f"{answer.status_code} {answer.text}", list(requests)
        except httpx.HTTPError as error:
            return type(error).__name__, list(requests)

print(pycurl.version.split()[1], "httpx", httpx.__version__)
holds = True
for method in ["GET", "POST"]:
    curl, other = by_libcurl(method), by_httpx(method)
    print(method, "libcurl", *curl, "  httpx", *other)
    holds = holds and curl == ("200 part-of-firstwhole-second", [f"h2 {method}", f"h1 {method}"])
    holds = holds and other[0] == "RemoteProtocolError"
sys.exit(0 if holds else 1)
PYTHON
