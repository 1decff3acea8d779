#!/usr/bin/env bash
# Guess:    a client of HTTP and WebSocket that is given an HTTP proxy opens a WebSocket through it: it asks for a tunnel with
#           CONNECT, for ws as for wss (RFC 6455 §4.1).
# Version:  aiohttp 3.14.5, niquests 3.21.2, websockets 17.4, pycurl 7.49.0 with libcurl 8.23.0, proxy.py 2.4.10, mitmproxy 11.0.2,
#           PyPI; tinyproxy 1.11.1 and Squid 5.7 (Debian 12).
# Found:    aiohttp and niquests ask for no tunnel for ws: they send "GET ws://host/ HTTP/1.1", a scheme that no proxy knows. All
#           four proxies refuse it. websockets and libcurl use CONNECT and get through each one.
# Seen:     "hello" to an echo server, ws://
#                        aiohttp, niquests    websockets, libcurl
#           tinyproxy    400                  hello
#           Squid        501                  hello
#           proxy.py     400                  hello
#           mitmproxy    400                  hello
# Matters:  what works without a proxy fails with 400 or 501 where there is one, and the server never sees the call.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

packages=(
    tinyproxy-bin=1.11.1-2.1+deb12u1 squid=5.7-2+deb12u6 squid-common=5.7-2+deb12u6 squid-langpack libecap3 libltdl7 libmnl0
    libnetfilter-conntrack3 libnfnetlink0 libtdb1
)
if ! (cd "$work" && apt-get download -q -o APT::Sandbox::User=root "${packages[@]}" &&
    for package in *.deb; do dpkg -x "$package" root; done) >&2; then
    echo "the proxies could not be downloaded" >&2
    exit 2
fi
if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check aiohttp==3.14.5 \
    'niquests[ws]==3.21.2' urllib3-future==2.25.904 wsproto==1.3.2 websockets==17.4 pycurl==7.49.0 proxy.py==2.4.10 &&
    python3 -m venv "$work/other" && "$work/other/bin/pip" install -q --disable-pip-version-check mitmproxy==11.0.2; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" -W ignore - "$work" <<'PYTHON'
import asyncio, contextlib, glob, logging, os, signal, socket, subprocess, sys, threading, time
import aiohttp, niquests, pycurl
from websockets.sync.client import connect
from websockets.sync.server import serve

work = sys.argv[1]
root = f"{work}/root"
libraries = ":".join(glob.glob(f"{root}/usr/lib/*-linux-gnu") + glob.glob(f"{root}/lib/*-linux-gnu"))
for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"):
    os.environ.pop(name, None)

logging.disable()  # the server says when a client has closed the connection
calls = []

def echo(connection):
    calls.append(1)
    for message in connection:
        connection.send(message)

server = serve(echo, "127.0.0.1", 0)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"ws://127.0.0.1:{server.socket.getsockname()[1]}/"

async def ask_aiohttp(proxy):
    async with aiohttp.ClientSession() as session, session.ws_connect(url, proxy=proxy) as connection:
        await connection.send_str("hello")
        return await connection.receive_str(timeout=10)

def with_aiohttp(proxy):
    try:
        return asyncio.run(ask_aiohttp(proxy))
    except aiohttp.WSServerHandshakeError as error:
        return str(error.status)

def with_niquests(proxy):
    with niquests.Session() as session:
        response = session.get(url, proxies={"ws": proxy} if proxy else {}, timeout=20)
        if response.status_code != 101:
            return str(response.status_code)
        response.extension.send_payload("hello")
        answer = response.extension.next_payload()
        response.extension.close()
        return answer

def with_websockets(proxy):
    with connect(url, proxy=proxy) as connection:
        connection.send("hello")
        return connection.recv(10)

def with_libcurl(proxy):
    curl, received = pycurl.Curl(), []
    curl.setopt(pycurl.URL, url)
    curl.setopt(pycurl.PROXY, proxy or "")
    curl.setopt(pycurl.CONNECT_ONLY, 2)
    curl.perform()
    curl.ws_send(b"hello", pycurl.WS_TEXT)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            return curl.ws_recv(100)[0].decode()
        except BlockingIOError:
            time.sleep(0.05)

def tinyproxy(port):
    with open(f"{work}/tinyproxy.conf", "w") as file:
        file.write(f"Port {port}\nListen 127.0.0.1\nTimeout 60\nLogLevel Critical\nMaxClients 10\n")
    return [f"{root}/usr/bin/tinyproxy", "-d", "-c", f"{work}/tinyproxy.conf"]

def squid(port):
    os.chmod(work, 0o755)
    os.makedirs(f"{work}/squid", exist_ok=True)
    os.chmod(f"{work}/squid", 0o777)
    with open(f"{work}/squid.conf", "w") as file:
        file.write(
            f"http_port 127.0.0.1:{port}\nhttp_access allow all\ncache deny all\npid_filename {work}/squid/pid\n"
            f"access_log none\ncache_log {work}/squid/log\ncoredump_dir {work}/squid\npinger_enable off\n"
            f"mime_table {root}/usr/share/squid/mime.conf\nicon_directory {root}/usr/share/squid/icons\n"
            f"error_directory {root}/usr/share/squid/errors/templates\nunlinkd_program {root}/usr/lib/squid/unlinkd\n"
            f"logfile_daemon {root}/usr/lib/squid/log_file_daemon\nshutdown_lifetime 0 seconds\n"
        )
    return [f"{root}/usr/sbin/squid", "-N", "-f", f"{work}/squid.conf"]

proxies = {
    "no proxy": None, "tinyproxy": tinyproxy, "Squid": squid,
    "proxy.py": lambda port: [f"{work}/venv/bin/proxy", "--hostname", "127.0.0.1", "--port", str(port), "--num-workers", "1"],
    "mitmproxy": lambda port: [
        f"{work}/other/bin/mitmdump", "-q", "--listen-host", "127.0.0.1", "-p", str(port), "--set", f"confdir={work}",
    ],
}

@contextlib.contextmanager
def running(command):
    if command is None:
        yield None
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        command(port), cwd=work, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "LD_LIBRARY_PATH": libraries} if command is squid else None,
    )
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if time.monotonic() > deadline:
                    print("a proxy did not start", file=sys.stderr)
                    sys.exit(2)
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

clients = {"aiohttp": with_aiohttp, "niquests": with_niquests, "websockets": with_websockets, "libcurl": with_libcurl}
seen = {}
for name, command in proxies.items():
    with running(command) as proxy:
        for client, ask in clients.items():
            calls.clear()
            seen[name, client] = ask(proxy), len(calls)
    print(f"{name:10}", {client: seen[name, client] for client in clients})
refused = {"aiohttp", "niquests"}
as_found = seen == {
    (name, client): ("501" if name == "Squid" else "400", 0) if proxies[name] and client in refused else ("hello", 1)
    for name in proxies for client in clients
}
print("as found: no tunnel, and no WebSocket" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
