#!/usr/bin/env bash
# Guess:    a forward proxy of HTTP/1.1 passes "Expect: 100-continue" and the answer to it on (RFC 9110 §10.1.1), and what the
#           server says while an upload is under way; the bytes go through as they come.
# Version:  tinyproxy 1.11.1 (Debian 12, tinyproxy-bin 1.11.1-2.1+deb12u1); proxy.py 2.4.10, pproxy 2.7.9, mitmproxy 11.0.2 and pycurl
#           7.49.0 with libcurl 8.23.0 from PyPI.
# Found:    tinyproxy and proxy.py read nothing from the server before they have the whole upload: neither 100 Continue nor a
#           refusal arrives, so that libcurl waits its second and then sends everything. mitmproxy says 100 Continue by itself,
#           before the server has seen the request. proxy.py and mitmproxy keep all of it in memory and send nothing before.
# Seen:     8 MB with Expect: 100-continue    server refuses (413)    server takes it: the first byte of 8 MB reaches it after
#           no proxy, pproxy                  0 bytes sent            0.0 seconds
#           tinyproxy                         8 MB sent               1.0 seconds
#           proxy.py, mitmproxy               8 MB sent               when libcurl has sent the last one
# Matters:  behind such a proxy a refusal (401, 413, 429) costs the whole upload, and each PUT a second more. With the last two a
#           progress bar shows how fast the proxy stores, and nothing of an upload without an end gets to the server.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! (cd "$work" && apt-get download -q -o APT::Sandbox::User=root tinyproxy-bin=1.11.1-2.1+deb12u1 &&
    dpkg -x tinyproxy-bin_*.deb root) >&2; then
    echo "tinyproxy could not be downloaded" >&2
    exit 2
fi
if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    proxy.py==2.4.10 pproxy==2.7.9 mitmproxy==11.0.2 pycurl==7.49.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" -W ignore - "$work" <<'PYTHON'
import contextlib, os, signal, socket, subprocess, sys, threading, time
import pycurl

work = sys.argv[1]
programs = f"{work}/venv/bin"
size = 8_000_000
times = {}

def serve(connection):
    """Refuses /refused at once and reads what comes all the same; says 100 Continue to the others."""
    with connection:
        connection.settimeout(20)
        request = b""
        while b"\r\n\r\n" not in request:
            piece = connection.recv(65536)
            if not piece:
                return
            request += piece
        head, body = request.split(b"\r\n\r\n", 1)
        refused = b"/refused" in head.split(b"\r\n")[0]
        if refused:
            connection.sendall(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        elif b"100-continue" in head.lower():
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        received = len(body)
        with contextlib.suppress(OSError):
            while received < size:
                piece = connection.recv(1 << 20)
                if not piece:
                    break
                if not refused:
                    times.setdefault("first", time.monotonic())
                received += len(piece)
            if not refused:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

listener = socket.create_server(("127.0.0.1", 0), backlog=16)

def accept():
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

threading.Thread(target=accept, daemon=True).start()

def upload(path, proxy):
    """The status, the bytes that libcurl sent, and when the server had the first of them: seconds after the start, before the end."""
    sent = 0

    def read(most):
        nonlocal sent
        time.sleep(0.01)
        count = min(most, size - sent, 65536)
        sent += count
        times["last"] = time.monotonic()
        return bytes(count)

    times.clear()
    curl = pycurl.Curl()
    curl.setopt(pycurl.URL, f"http://127.0.0.1:{listener.getsockname()[1]}{path}")
    curl.setopt(pycurl.PROXY, f"http://127.0.0.1:{proxy}" if proxy else "")
    curl.setopt(pycurl.HTTPHEADER, ["Expect: 100-continue"])
    curl.setopt(pycurl.UPLOAD, True)
    curl.setopt(pycurl.INFILESIZE, size)
    curl.setopt(pycurl.READFUNCTION, read)
    curl.setopt(pycurl.TIMEOUT, 40)
    begun = time.monotonic()
    curl.perform()
    status = curl.getinfo(pycurl.RESPONSE_CODE)
    curl.close()
    first = times.get("first", 0)
    return status, sent, round(first - begun, 1), first < times.get("last", 0)

def tinyproxy(port):
    with open(f"{work}/proxy.conf", "w") as file:
        file.write(f"Port {port}\nListen 127.0.0.1\nTimeout 60\nLogLevel Critical\nMaxClients 10\n")
    return [f"{work}/root/usr/bin/tinyproxy", "-d", "-c", f"{work}/proxy.conf"]

proxies = {
    "no proxy": None,
    "pproxy": lambda port: [f"{programs}/pproxy", "-l", f"http://127.0.0.1:{port}"],
    "tinyproxy": tinyproxy,
    "proxy.py": lambda port: [f"{programs}/proxy", "--hostname", "127.0.0.1", "--port", str(port), "--num-workers", "1"],
    "mitmproxy": lambda port: [
        f"{programs}/mitmdump", "-q", "--listen-host", "127.0.0.1", "-p", str(port), "--set", f"confdir={work}",
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
        yield port
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

seen = {}
for name, command in proxies.items():
    with running(command) as port:
        seen[name] = upload("/refused", port), upload("/taken", port)
    (refusal, sent, _, _), (status, _, first, under_way) = seen[name]
    when = "under way" if under_way else "at the end"
    print(f"{name:10} {refusal}, {sent} bytes sent;  {status}, first byte after {first} seconds, {when}")
refused = {name: (result[0][0], result[0][1]) for name, result in seen.items()}
taken = {name: (result[1][0], result[1][1], result[1][3]) for name, result in seen.items()}
as_found = (
    refused == {name: (413, 0 if name in ("no proxy", "pproxy") else size) for name in proxies}
    and taken == {name: (200, size, name not in ("proxy.py", "mitmproxy")) for name in proxies}
    and all(seen[name][1][2] < 0.6 for name in ("no proxy", "pproxy")) and 0.9 <= seen["tinyproxy"][1][2] < 2
)
print("as found: the upload goes first" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
