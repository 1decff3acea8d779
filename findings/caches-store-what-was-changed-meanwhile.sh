#!/usr/bin/env bash
# Guess:    a cache that drops what it has of a URL when a PUT to it succeeds (RFC 9111 §4.4) does not keep the response of a GET
#           either that it had sent before the PUT and gets after it: that is the old content too.
# Version:  Squid 5.7 and Apache 2.4 mod_cache (Debian 12), as reverse proxies; hishel 2.0.0 with rfc=True, requests 2.34.2.
# Found:    all three invalidate what is stored, and all three then store the old content that was still on its way, and give it
#           to everybody for its whole max-age.
# Seen:                  stored, PUT, GET    GET under way, PUT, answer to the GET; then GET
#           Squid        new                 old, a hit
#           Apache       new                 old, a hit
#           hishel       new                 old, a hit
# Matters:  a list that refreshes while a user saves is enough. The user sees the old content after the save has succeeded, for
#           an hour or a year; nothing is left that would invalidate it.
# Everything is in a temporary folder, on free loopback ports. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

packages=(squid=5.7-2+deb12u6 squid-common=5.7-2+deb12u6 squid-langpack libecap3 libltdl7 libmnl0 libnetfilter-conntrack3
    libnfnetlink0 libtdb1 apache2-bin libapr1 libaprutil1)
if ! { (cd "$work" && apt-get download -q -o APT::Sandbox::User=root "${packages[@]}" \
    && for package in *.deb; do dpkg -x "$package" root; done) \
    && python3 -m venv "$work/venv" \
    && "$work/venv/bin/pip" install -q --disable-pip-version-check requests==2.34.2 hishel==2.0.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import glob, http.client, http.server, os, socket, subprocess, sys, threading, time
import hishel, hishel.requests, requests

work = sys.argv[1]
root = f"{work}/root"
libraries = ":".join(glob.glob(f"{root}/usr/lib/*-linux-gnu") + glob.glob(f"{root}/lib/*-linux-gnu"))
environment = {**os.environ, "LD_LIBRARY_PATH": libraries}
contents, has_read, may_answer = {}, threading.Event(), threading.Event()

class Origin(http.server.BaseHTTPRequestHandler):
    """Each path has a content that a PUT replaces. The first GET of /held has read it, and is answered when it is told so."""
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = contents.get(self.path, b"old")
        if self.path == "/held" and not has_read.is_set():
            has_read.set()
            may_answer.wait(30)
        self.send_response(200)
        self.send_header("Cache-Control", "max-age=3600")
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        contents[self.path] = b"new"
        self.send_response(204)
        self.end_headers()

    def log_message(self, *words):
        pass

class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

origin = Server(("127.0.0.1", 0), Origin)
threading.Thread(target=origin.serve_forever, daemon=True).start()

def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

def through(port):
    def ask(method, path):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=40)
        connection.request(method, path, body=b"new" if method == "PUT" else None)
        text = connection.getresponse().read().decode()
        connection.close()
        return text
    return ask

def with_hishel(method, path):
    session = requests.Session()
    storage = hishel.SqliteStorage(database_path=f"{work}/cache.db")
    session.mount("http://", hishel.requests.CacheAdapter(storage=storage, rfc=True))
    return session.request(method, f"http://127.0.0.1:{origin.server_port}{path}", data=b"new" if method == "PUT" else None).text

def trial(ask):
    contents.clear()
    has_read.clear()
    may_answer.clear()
    ask("GET", "/stored")
    ask("PUT", "/stored")
    stored = ask("GET", "/stored")
    first = threading.Thread(target=ask, args=("GET", "/held"))
    first.start()
    if not has_read.wait(20):
        sys.exit(2)
    ask("PUT", "/held")
    may_answer.set()
    first.join()
    return stored, ask("GET", "/held"), ask("GET", "/held")

def behind(command, port):
    server = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return trial(through(port))
            except ConnectionRefusedError:
                time.sleep(0.05)
        print("the cache did not start", file=sys.stderr)
        sys.exit(2)
    finally:
        server.terminate()
        server.wait()

os.chmod(work, 0o777)
os.mkdir(f"{work}/store")
os.chmod(f"{work}/store", 0o777)
squid, apache = free_port(), free_port()
with open(f"{work}/squid.conf", "w") as file:
    file.write(f"""
http_port 127.0.0.1:{squid} accel defaultsite=origin.example no-vhost
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
""")
modules = "".join(
    f"LoadModule {name}_module {root}/usr/lib/apache2/modules/mod_{name}.so\n"
    for name in ["mpm_event", "authz_core", "proxy", "proxy_http", "cache", "cache_disk"])
with open(f"{work}/apache.conf", "w") as file:
    file.write(f"""
ServerRoot {work}
ServerName cache.example
Listen 127.0.0.1:{apache}
PidFile {work}/apache.pid
ErrorLog {work}/apache.log
Mutex file:{work}
DefaultRuntimeDir {work}
{modules}
User www-data
Group www-data
CacheRoot {work}/store
CacheEnable disk /
ProxyPass / http://127.0.0.1:{origin.server_port}/
""")
found = {
    "Squid": behind([f"{root}/usr/sbin/squid", "-N", "-f", f"{work}/squid.conf", "-n", f"finding{os.getpid()}"], squid),
    "Apache": behind([f"{root}/usr/sbin/apache2", "-X", "-f", f"{work}/apache.conf"], apache),
    "hishel": trial(with_hishel),
}
for name, (stored, held, again) in found.items():
    print(f"{name:<12} {stored:<12} {held}, {again}")
as_found = all(answers == ("new", "old", "old") for answers in found.values())
print("as found: the old content comes back" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
