#!/usr/bin/env bash
# Guess:    a cache may give an old response when the origin answers 503 (stale-if-error), for that one call. The next call asks
#           again, so that new content is seen as soon as the origin is well; Expires stays what the origin has said.
# Version:  Apache Traffic Server 9.2.9 (Debian 12, trafficserver 9.2.5+ds-0+deb12u4) as a reverse proxy; neither Debian's
#           configuration nor this one has a setting for it.
# Found:    one 503 (500, 502 and 504 too) makes a response with Expires fresh again for 30 minutes: the origin is not asked in
#           that time, and an Expires half an hour from now takes the place of the origin's, for clients and caches behind too.
#           With max-age the next call asks again, but the invented Expires is sent as well. With s-maxage the 503 passes.
# Seen:     the origin answers 200 "1", 503, 200 "3", 200 "4"; four calls, each when five seconds of freshness are over
#           Expires in five seconds   1    1 with Expires in 30 minutes    1    1     the origin got 2 calls
#           max-age=5                 1    1 with Expires in 30 minutes    3    4     4 calls
#           s-maxage=5                1    503                             3    4     4 calls
# Matters:  a hiccup of a second keeps a price or a schedule for half an hour, in private caches as well, where nothing can purge
#           it. Age and Date are right, only Expires lies, so that no client can tell.
# Everything is in a temporary folder, on free loopback ports. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

packages=(
    trafficserver=9.2.5+ds-0+deb12u4 libhwloc15 libluajit2-5.1-2 libluajit2-5.1-common libmaxminddb0 libpcre3 libyaml-cpp0.7
)
if ! (cd "$work" && apt-get download -q -o APT::Sandbox::User=root "${packages[@]}" \
    && for package in *.deb; do dpkg -x "$package" root; done) >&2; then
    echo "trafficserver could not be downloaded" >&2
    exit 2
fi

python3 - "$work" <<'PYTHON'
import email.utils, glob, http.client, http.server, os, socket, subprocess, sys, threading, time

work = sys.argv[1]
root = f"{work}/root"

class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    calls = {}

    def do_GET(self):
        number = self.calls[self.path] = self.calls.get(self.path, 0) + 1
        body = str(number).encode()
        self.send_response(503 if number == 2 else 200)
        if self.path == "/expires":
            self.send_header("Expires", email.utils.formatdate(time.time() + 5, usegmt=True))
        else:
            self.send_header("Cache-Control", "max-age=5" if self.path == "/max-age" else "s-maxage=5")
        self.send_header("ETag", f'"{number}"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass

origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
threading.Thread(target=origin.serve_forever, daemon=True).start()
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]

os.makedirs(f"{work}/etc")
os.makedirs(f"{work}/run")
files = {
    "remap.config": f"map / http://127.0.0.1:{origin.server_port}/\n", "storage.config": f"{work}/run 64M\n",
    "ip_allow.yaml": "ip_allow:\n  - apply: in\n    ip_addrs: 127.0.0.1\n    action: allow\n    methods: ALL\n",
    "records.config": f"""CONFIG proxy.config.http.server_ports STRING {port}:ip-in=127.0.0.1
CONFIG proxy.config.admin.user_id STRING #-1
CONFIG proxy.config.exec_thread.autoconfig INT 0
CONFIG proxy.config.exec_thread.limit INT 1
CONFIG proxy.config.exec_thread.affinity INT 0
CONFIG proxy.config.cache.ram_cache.size INT 8M
CONFIG proxy.config.log.logging_enabled INT 0
CONFIG proxy.config.crash_log_helper STRING NULL
CONFIG proxy.config.body_factory.template_sets_dir STRING {root}/etc/trafficserver/body_factory
""",
}
for name in (
    "volume.config", "hosting.config", "cache.config", "parent.config", "plugin.config", "splitdns.config", "socks.config",
    "ssl_multicert.config", "logging.yaml", "sni.yaml",
):
    files.setdefault(name, "")
for name, content in files.items():
    with open(f"{work}/etc/{name}", "w") as file:
        file.write(content)
with open(f"{work}/runroot.yaml", "w") as file:
    folders = {
        "prefix": work, "exec_prefix": work, "bindir": f"{root}/usr/bin", "sbindir": f"{root}/usr/bin",
        "sysconfdir": f"{work}/etc", "libdir": f"{root}/usr/lib/trafficserver", "includedir": work,
        "libexecdir": f"{root}/usr/lib/trafficserver/modules", "datadir": f"{work}/run", "localstatedir": f"{work}/run",
        "runtimedir": f"{work}/run", "logdir": f"{work}/run", "cachedir": f"{work}/run",
    }
    file.writelines(f"{name}: {folder}\n" for name, folder in folders.items())
libraries = ":".join([*glob.glob(f"{root}/usr/lib/*-linux-gnu"), *glob.glob(f"{root}/lib/*-linux-gnu"), folders["libdir"]])
server = subprocess.Popen(
    [f"{root}/usr/bin/traffic_server", f"--run-root={work}/runroot.yaml"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    env={**os.environ, "LD_LIBRARY_PATH": libraries},
)

def call(path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    response = connection.getresponse()
    body, expires = response.read().decode(), response.headers.get("Expires")
    connection.close()
    if response.status != 200:
        return response.status
    ahead = email.utils.parsedate_to_datetime(expires).timestamp() - time.time() if expires else 0
    return (body, "in 30 minutes") if ahead > 1700 else body

try:
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            if time.monotonic() > deadline or server.poll() is not None:
                print("the server did not start", file=sys.stderr)
                sys.exit(2)
            time.sleep(0.05)
    paths = ("/expires", "/max-age", "/s-maxage")
    seen = {path: [call(path)] for path in paths}
    for _ in range(3):
        time.sleep(7)
        for path in paths:
            seen[path].append(call(path))
finally:
    server.terminate()
    server.wait()
for path, bodies in seen.items():
    print(f"{path:10} {bodies}, the origin got {Origin.calls[path]} calls")
ahead = ("1", "in 30 minutes")
as_found = (
    seen == {"/expires": ["1", ahead, ahead, ahead], "/max-age": ["1", ahead, "3", "4"], "/s-maxage": ["1", 503, "3", "4"]}
    and Origin.calls["/expires"] == 2
)
print("as found: one 503 makes the old fresh" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
