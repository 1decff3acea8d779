#!/usr/bin/env bash
# Guess:    a program that sends metrics over HTTP keeps them until they are taken. It sends them again after 503, and after 429
#           when Retry-After says so. A redirect of the POST is followed with the POST, or is an error.
# Version:  Prometheus 2.42 (remote write), vmagent of VictoriaMetrics 1.79 and collectd 5.12 (write_http), from Debian 12.
# Found:    collectd takes any response for a success: what got a 503 or 429 is gone, and no log says so (its LogHttpError is off).
#           Prometheus drops what got a 429, though it repeats after 503 (its option for that is off). All three follow a 302 with
#           GET, without the metrics, and its 200 counts: Prometheus shows no failed sample.
# Seen:                     503                429                       302 to a page that answers 200
#           Prometheus      sent again         gone, an error is logged  gone, no failed sample, no log
#           vmagent         sent again         sent again                gone, no log
#           collectd        gone, no log       gone, no log              gone, no log
# Matters:  a receiver that moves to https with a redirect gets nothing from then on, and no sender shows an error: its own metrics
#           say that all samples were sent. A receiver that is busy for a minute has a gap.
# Everything is in a temporary folder, on free loopback ports. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { cd "$work" && apt-get download -q -o APT::Sandbox::User=root prometheus victoria-metrics collectd-core libyajl2 \
    && for package in *.deb; do dpkg -x "$package" root; done; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

python3 - "$work" <<'PYTHON'
import http.server, os, socket, subprocess, sys, threading, time, urllib.request

work = sys.argv[1]
root = f"{work}/root"
for name in list(os.environ):
    if name.lower().endswith("_proxy"):
        del os.environ[name]
environment = {**os.environ, "LD_LIBRARY_PATH": f"{root}/usr/lib/x86_64-linux-gnu"}
urllib.request.install_opener(urllib.request.build_opener(urllib.request.ProxyHandler({})))

class Quiet(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *arguments):
        pass

class Receiver:
    """Has a page with a metric. Answers the first POST with `status`, or each one if that is a redirect."""

    def __init__(self, status):
        receiver, self.posts, self.moved, lock = self, [], [], threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with lock:
                    receiver.posts.append(body)
                    refused = status == 302 or len(receiver.posts) == 1
                self.send_response(status if refused else 200)
                if refused and status == 302:
                    self.send_header("Location", "/moved")
                elif refused:
                    self.send_header("Retry-After", "1")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_GET(self):
                if self.path == "/moved":
                    receiver.moved.append(int(self.headers["Content-Length"] or 0))
                page = b"x 1\n"
                self.send_response(200)
                self.send_header("Content-Type", "text/plain")
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, *arguments):
                pass

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

def scrapes(port):
    return f"""
global: {{scrape_interval: 1s}}
scrape_configs: [{{job_name: x, static_configs: [{{targets: ["127.0.0.1:{port}"]}}]}}]
"""

def start_prometheus(folder, receiver, own):
    with open(f"{folder}/config", "w") as file:
        file.write(scrapes(receiver.port) + f"""
remote_write: [{{url: "http://127.0.0.1:{receiver.port}/write", queue_config: {{batch_send_deadline: 1s}}}}]
""")
    return [f"{root}/usr/bin/prometheus", "--config.file", f"{folder}/config", "--storage.tsdb.path", f"{folder}/data",
        "--web.listen-address", f"127.0.0.1:{own}"]

def start_vmagent(folder, receiver, own):
    with open(f"{folder}/config", "w") as file:
        file.write(scrapes(receiver.port))
    return [f"{root}/usr/bin/vmagent", "-promscrape.config", f"{folder}/config", "-remoteWrite.queues", "1",
        "-remoteWrite.url", f"http://127.0.0.1:{receiver.port}/write", "-remoteWrite.tmpDataPath", f"{folder}/data",
        "-httpListenAddr", f"127.0.0.1:{own}"]

def start_collectd(folder, receiver, own):
    with open(f"{folder}/config", "w") as file:
        file.write(f"""
Hostname "host.example"
BaseDir "{folder}"
PIDFile "{folder}/pid"
PluginDir "{root}/usr/lib/collectd"
TypesDB "{root}/usr/share/collectd/types.db"
Interval 1
LoadPlugin logfile
<Plugin logfile>
LogLevel "info"
File "{folder}/log"
</Plugin>
LoadPlugin cpu
LoadPlugin write_http
<Plugin write_http>
<Node "x">
URL "http://127.0.0.1:{receiver.port}/write"
Format "JSON"
BufferSize 300
</Node>
</Plugin>
""")
    return [f"{root}/usr/sbin/collectd", "-f", "-C", f"{folder}/config"]

def outcome(sender, receiver, folder, own):
    first = receiver.posts[0]
    if receiver.moved:
        kept = "followed with the metrics" if max(receiver.moved) else "gone"
    else:
        kept = "sent again" if first in receiver.posts[1:] else "gone"
    with open(f"{folder}/log", errors="replace") as file:
        logged = any(word in line for line in file for word in ("level=error", "\terror\t", "[error]", "status"))
    failed = None
    if sender == "Prometheus":
        with urllib.request.urlopen(f"http://127.0.0.1:{own}/metrics", timeout=20) as response:
            lines = response.read().decode().splitlines()
        counter = "prometheus_remote_storage_samples_failed_total{"
        failed = sum(float(line.split()[-1]) for line in lines if line.startswith(counter))
    return kept, logged, None if failed is None else failed > 0

senders = {"Prometheus": start_prometheus, "vmagent": start_vmagent, "collectd": start_collectd}
running, found = [], {}
try:
    for status in (503, 429, 302):
        for sender, start in senders.items():
            receiver, folder, own = Receiver(status), f"{work}/{sender}{status}", free_port()
            os.mkdir(folder)
            command = start(folder, receiver, own)
            with open(f"{folder}/log", "w") as log:
                process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=log)
            running.append((status, sender, receiver, folder, own, process))
    # The first batch and four more: what is to be repeated comes before the next one.
    deadline = time.monotonic() + 60
    while any(len(receiver.posts) < 5 for _, _, receiver, *_ in running):
        if time.monotonic() > deadline or any(process.poll() is not None for *_, process in running):
            print("not all of the programs send", [(s, n, len(r.posts)) for s, n, r, *_ in running], file=sys.stderr)
            sys.exit(2)
        time.sleep(0.2)
    for status, sender, receiver, folder, own, _ in running:
        found[sender, status] = kept, logged, failed = outcome(sender, receiver, folder, own)
        print(f"{sender:11} {status} {kept:10} {'it is logged' if logged else 'nothing is logged'}")
finally:
    for *_, process in running:
        process.kill()
    for *_, process in running:
        process.wait()
expected = {
    ("Prometheus", 503): ("sent again", True, False), ("Prometheus", 429): ("gone", True, True),
    ("Prometheus", 302): ("gone", False, False),
    ("vmagent", 503): ("sent again", True, None), ("vmagent", 429): ("sent again", True, None),
    ("vmagent", 302): ("gone", False, None),
    ("collectd", 503): ("gone", False, None), ("collectd", 429): ("gone", False, None), ("collectd", 302): ("gone", False, None),
}
as_found = found == expected
if not as_found:
    print(found)
print("as found: what was refused counts as sent" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
