#!/usr/bin/env bash
# Guess:    gunicorn, which has learned HTTP/2, gives the streams of a connection to its threads, as it does with connections of
#           HTTP/1.1: with 4 threads four calls run at once.
# Version:  gunicorn 27.0.1, --worker-class gthread --threads 4; the client is libcurl 8.23.0 in pycurl 7.49.0, from PyPI.
# Found:    a connection is one task of one thread: its streams are answered one after the other, in the order in which they
#           came. A client that multiplexes has one thread of the four; four connections of HTTP/1.1 have all of them.
# Seen:     four calls of 1 s each                   HTTP/1.1 1 s    HTTP/2 4 s, after 1, 2, 3 and 4 s
# Matters:  a slow report stops all other calls of the client to that server. The better the client multiplexes, the slower it
#           is: turning HTTP/2 on makes a page of four calls four times as slow.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    gunicorn==27.0.1 h2==4.4.1 pycurl==7.49.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import importlib.metadata, socket, subprocess, sys, time
import pycurl

work = sys.argv[1]
with open(f"{work}/shop.py", "w") as file:
    file.write("""
import time
def application(environ, start_response):
    if environ["PATH_INFO"] == "/slow":
        time.sleep(1)
    environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
""")
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
server = subprocess.Popen(
    [f"{work}/venv/bin/gunicorn", "shop:application", "--bind", f"127.0.0.1:{port}", "--worker-class", "gthread",
     "--threads", "4", "--http-protocols", "h2,h1", "--http2-cleartext", "both", "--log-level", "critical"],
    cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
)

def wait_until_ready():
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    print("gunicorn did not start", file=sys.stderr)
    sys.exit(2)

def four_calls(version):
    """When each of four calls of one second has ended, and on how many connections libcurl made them."""
    multi, left, ends = pycurl.CurlMulti(), 4, []
    multi.setopt(pycurl.M_PIPELINING, 2)
    for _ in range(4):
        curl = pycurl.Curl()
        curl.setopt(pycurl.URL, f"http://127.0.0.1:{port}/slow")
        curl.setopt(pycurl.HTTP_VERSION, version)
        curl.setopt(pycurl.PIPEWAIT, 1)
        curl.setopt(pycurl.WRITEFUNCTION, lambda piece: None)
        curl.setopt(pycurl.TIMEOUT, 20)
        multi.add_handle(curl)
    connections, begin = 0, time.monotonic()
    while left:
        multi.perform()
        _, ended, failed = multi.info_read()
        for curl in ended:
            ends.append(round(time.monotonic() - begin))
            connections += int(curl.getinfo(pycurl.NUM_CONNECTS))
            multi.remove_handle(curl)
        if failed:
            print("a call failed:", failed[0][1:], file=sys.stderr)
            sys.exit(2)
        left -= len(ended)
        multi.select(0.1)
    return ends, connections

try:
    wait_until_ready()
    print("gunicorn", importlib.metadata.version("gunicorn"), pycurl.version.split()[1])
    one, two = four_calls(pycurl.CURL_HTTP_VERSION_1_1), four_calls(pycurl.CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE)
    print("four calls of one second: HTTP/1.1 ends after", one[0], "s   HTTP/2 after", two[0], "s   connections", one[1], two[1])
finally:
    server.terminate()
    server.wait()
as_found = one == ([1, 1, 1, 1], 4) and two == ([1, 2, 3, 4], 1)
print("as found: one stream at a time" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
