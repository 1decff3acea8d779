#!/usr/bin/env bash
# Guess:    a server with the PROXY protocol takes "PROXY UNKNOWN", which the two best known senders write: it "SHOULD accept the
#           connection and use the real connection's parameters" (PROXY protocol §2.1), as it does for LOCAL of version 2.
# Version:  gunicorn 27.0.1 with --proxy-protocol auto; the clients are libcurl 8.23.0 in pycurl 7.49.0 with
#           CURLOPT_HAPROXYPROTOCOL, all from PyPI, and HAProxy 2.6.12 (Debian 12), which listens on a Unix socket.
# Found:    gunicorn answers 400 to the line that both write when the connection of their client has no IP address. In version 2
#           HAProxy sends LOCAL instead, which is taken.
# Seen:     PROXY TCP4 ...                           200      version 2, LOCAL                              200
#           PROXY UNKNOWN                            400      version 2, TCP over IPv4                      200
#           libcurl through a Unix socket            400
#           TCP, HAProxy with send-proxy             200      TCP, HAProxy with send-proxy-v2               200
#           Unix socket, HAProxy with send-proxy     400      Unix socket, HAProxy with send-proxy-v2       200
# Matters:  a front that gets its requests through a Unix socket, as from a TLS end or a sidecar beside it, has 400 for every
#           request, and works over TCP. Nothing in the answer tells the client that the line was not its own.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

packages=(haproxy=2.6.12-1+deb12u4 libopentracing-c-wrapper0 libopentracing1 liblua5.3-0 libpcre2-8-0)
if ! (cd "$work" && apt-get download -q -o APT::Sandbox::User=root "${packages[@]}" \
    && for package in *.deb; do dpkg -x "$package" root; done && python3 -m venv venv \
    && venv/bin/pip install -q --disable-pip-version-check gunicorn==27.0.1 pycurl==7.49.0) >&2; then
    echo "haproxy, gunicorn or pycurl could not be downloaded" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import glob, importlib.metadata, os, socket, struct, subprocess, sys, time
import pycurl

work = sys.argv[1]
environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(glob.glob(f"{work}/root/usr/lib/*-linux-gnu"))}
with open(f"{work}/shop.py", "w") as file:
    file.write("""
def application(environ, start_response):
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
""")

def free_ports(count):
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports

def connected(address):
    """A connection to a port or to the path of a Unix socket, as soon as there is one."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        channel = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        channel.settimeout(20)
        try:
            channel.connect(address if isinstance(address, str) else ("127.0.0.1", address))
            return channel
        except OSError:
            channel.close()
            time.sleep(0.05)
    print("a server did not start", file=sys.stderr)
    sys.exit(2)

def status(address, before=b""):
    """The status of a request with these bytes before it."""
    with connected(address) as channel:
        channel.sendall(before + b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
        received = b""
        while piece := channel.recv(65536):
            received += piece
    return int(received.split(b" ")[1])

def status_with_libcurl():
    curl = pycurl.Curl()
    curl.setopt(pycurl.URL, "http://a.example/")
    curl.setopt(pycurl.UNIX_SOCKET_PATH, f"{work}/gunicorn.sock")
    curl.setopt(pycurl.HAPROXYPROTOCOL, 1)
    curl.setopt(pycurl.WRITEFUNCTION, lambda piece: None)
    curl.setopt(pycurl.TIMEOUT, 20)
    curl.perform()
    return curl.getinfo(pycurl.RESPONSE_CODE)

port, front1, front2 = free_ports(3)
with open(f"{work}/haproxy.cfg", "w") as file:
    file.write("defaults\n    mode http\n    timeout connect 10s\n    timeout client 20s\n    timeout server 20s\n")
    for version, front in (("", front1), ("-v2", front2)):
        file.write(f"listen front{version}\n    bind 127.0.0.1:{front}\n    bind unix@{work}/front{version}.sock\n")
        file.write(f"    server shop 127.0.0.1:{port} send-proxy{version}\n")
haproxy = f"{work}/root/usr/sbin/haproxy"
print("gunicorn", importlib.metadata.version("gunicorn"), pycurl.version.split()[1])
print(subprocess.check_output([haproxy, "-v"], text=True, env=environment).split("\n")[0])
quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
servers = [
    subprocess.Popen(
        [f"{work}/venv/bin/gunicorn", "shop:application", "--bind", f"127.0.0.1:{port}", "--bind", f"unix:{work}/gunicorn.sock",
         "--proxy-protocol", "auto"], cwd=work, **quiet,
    ),
    subprocess.Popen([haproxy, "-db", "-f", f"{work}/haproxy.cfg"], env=environment, **quiet),
]
second = b"\r\n\r\n\0\r\nQUIT\n"
addresses = socket.inet_aton("127.0.0.1") * 2 + struct.pack("!HH", 1000, 2000)
try:
    seen = {
        "PROXY TCP4": status(port, b"PROXY TCP4 127.0.0.1 127.0.0.1 1000 2000\r\n"),
        "PROXY UNKNOWN": status(port, b"PROXY UNKNOWN\r\n"),
        "version 2, LOCAL": status(port, second + b"\x20\x00\x00\x00"),
        "version 2, TCP over IPv4": status(port, second + b"\x21\x11\x00\x0c" + addresses),
        "libcurl through a Unix socket": status_with_libcurl(),
        "TCP, HAProxy with send-proxy": status(front1),
        "TCP, HAProxy with send-proxy-v2": status(front2),
        "Unix socket, HAProxy with send-proxy": status(f"{work}/front.sock"),
        "Unix socket, HAProxy with send-proxy-v2": status(f"{work}/front-v2.sock"),
    }
finally:
    for server in servers:
        server.terminate()
        server.wait()
for name, result in seen.items():
    print(f"{name} -> {result}")
as_found = list(seen.values()) == [200, 400, 200, 200, 400, 200, 200, 400, 200]
print("as found: UNKNOWN is refused" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
