#!/usr/bin/env bash
# Guess:    when the server behind a proxy breaks off in the middle of a body, a client of the proxy gets an error, on HTTP/2 as
#           on HTTP/1.1: the stream is reset, and a reset stream is not a whole response.
# Version:  Apache Traffic Server 9.2.9 (Debian 12, trafficserver 9.2.5+ds-0+deb12u4) as a reverse proxy; libcurl 8.23.0 in pycurl
#           7.49.0, impit 0.15.1, pyreqwest 0.15.1, niquests 3.21.2, from PyPI.
# Found:    Traffic Server resets the stream with NO_ERROR, which libcurl, impit and pyreqwest take for the end: a success with
#           the part, also when the server says nothing until the proxy's timeout. With a Content-Length libcurl sees it, the
#           other two do not. Other proxies send INTERNAL_ERROR, other clients fail at any reset: it takes the pair.
# Seen:     50 bytes, then the server               libcurl, HTTP/1.1    libcurl, HTTP/2    impit, pyreqwest    niquests
#           closes, chunked                         error 18             200, 50 bytes      200, 50 bytes       error
#           is silent for the timeout, chunked      error 18             200, 50 bytes      200, 50 bytes       error
#           closes, Content-Length: 100             error 18             error 18           200, 50 bytes       error
# Matters:  a download or a list that broke off is complete, for curl and all that is built on it, as soon as TLS brings HTTP/2. A
#           repetition that would have helped does not happen, and what was cut is stored.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

packages=(
    trafficserver=9.2.5+ds-0+deb12u4 libhwloc15 libluajit2-5.1-2 libluajit2-5.1-common libmaxminddb0 libpcre3 libyaml-cpp0.7
)
if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    pycurl==7.49.0 impit==0.15.1 pyreqwest==0.15.1 niquests==3.21.2 trustme==1.2.1 && cd "$work" \
    && apt-get download -q -o APT::Sandbox::User=root "${packages[@]}" \
    && for package in *.deb; do dpkg -x "$package" root; done; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" -W ignore - "$work" <<'PYTHON'
import glob, http.server, io, os, socket, subprocess, sys, threading, time
import impit, niquests, pycurl, trustme
from pyreqwest.client import SyncClientBuilder

work = sys.argv[1]
root = f"{work}/root"
authority = trustme.CA()
authority.cert_pem.write_to_path(f"{work}/ca.pem")
identity = authority.issue_cert("localhost", "127.0.0.1")
identity.cert_chain_pems[0].write_to_path(f"{work}/server.pem")
identity.private_key_pem.write_to_path(f"{work}/server.key")
paths = ("/closes", "/silent", "/length")

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
        self.close_connection = True

    def log_message(self, *arguments):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]

os.makedirs(f"{work}/etc")
os.makedirs(f"{work}/run")
files = {
    "remap.config": f"map / http://127.0.0.1:{server.server_port}/\n", "storage.config": f"{work}/run 64M\n",
    "ip_allow.yaml": "ip_allow:\n  - apply: in\n    ip_addrs: 127.0.0.1\n    action: allow\n    methods: ALL\n",
    "ssl_multicert.config": "dest_ip=* ssl_cert_name=server.pem ssl_key_name=server.key\n",
    "records.config": f"""CONFIG proxy.config.http.server_ports STRING {port}:ip-in=127.0.0.1:ssl
CONFIG proxy.config.ssl.server.cert.path STRING {work}
CONFIG proxy.config.ssl.server.private_key.path STRING {work}
CONFIG proxy.config.http.transaction_no_activity_timeout_out INT 2
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
    "logging.yaml", "sni.yaml",
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
proxy = subprocess.Popen(
    [f"{root}/usr/bin/traffic_server", f"--run-root={work}/runroot.yaml"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    env={**os.environ, "LD_LIBRARY_PATH": libraries},
)

def with_libcurl(url, version):
    body, handle = io.BytesIO(), pycurl.Curl()
    options = {
        pycurl.URL: url, pycurl.CAINFO: f"{work}/ca.pem", pycurl.WRITEDATA: body, pycurl.TIMEOUT: 20, pycurl.NOPROXY: "*",
        pycurl.HTTP_VERSION: version,
    }
    for name, value in options.items():
        handle.setopt(name, value)
    handle.perform()
    return handle.getinfo(pycurl.RESPONSE_CODE), len(body.getvalue())

def with_impit(url):
    response = impit.Client(browser="chrome", verify=False, timeout=20).get(url)
    assert response.http_version == "HTTP/2"
    return response.status_code, len(response.content)

def with_pyreqwest(url):
    with SyncClientBuilder().danger_accept_invalid_certs(True).http2_prior_knowledge().build() as client:
        response = client.get(url).build().send()
        return response.status, len(response.bytes())

def with_niquests(url):
    with niquests.Session(disable_http1=True, disable_http3=True) as session:
        session.trust_env, session.verify = False, f"{work}/ca.pem"
        response = session.get(url, timeout=20)
        return response.status_code, len(response.content)

clients = {
    "libcurl, HTTP/1.1": lambda url: with_libcurl(url, pycurl.CURL_HTTP_VERSION_1_1),
    "libcurl, HTTP/2": lambda url: with_libcurl(url, pycurl.CURL_HTTP_VERSION_2_0),
    "impit": with_impit, "pyreqwest": with_pyreqwest, "niquests": with_niquests,
}
seen = {}
try:
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            if time.monotonic() > deadline or proxy.poll() is not None:
                print("the proxy did not start", file=sys.stderr)
                sys.exit(2)
            time.sleep(0.05)
    for name, call in clients.items():
        seen[name] = []
        for path in paths:
            try:
                result = call(f"https://localhost:{port}{path}")
            except AssertionError:
                raise
            except Exception as error:
                result = error.args[0] if isinstance(error, pycurl.error) else type(error).__name__
            seen[name].append(result)
        print(f"{name:18}", *(f"{path[1:]}: {result}" for path, result in zip(paths, seen[name])), sep="   ")
finally:
    proxy.terminate()
    proxy.wait()
part = (200, 50)
as_found = seen == {
    "libcurl, HTTP/1.1": [18, 18, 18], "libcurl, HTTP/2": [part, part, 18], "impit": [part] * 3, "pyreqwest": [part] * 3,
    "niquests": ["ChunkedEncodingError"] * 3,
}
print("as found: what was cut off is a success" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
