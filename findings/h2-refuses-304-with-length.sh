#!/usr/bin/env bash
# Guess:    a client of HTTP/2 takes a 304 with the Content-Length that the 200 would have (RFC 9110 §8.6, RFC 9113 §8.1.1), as
#           it takes that of a HEAD response, and as the same client does on HTTP/1.1.
# Version:  httpx 0.28.1, httpx2 2.16.2 and niquests 3.21.2, on h2 4.4.1 and jh2 5.0.15; the witness is libcurl 8.23.0 in
#           pycurl 7.49.0; the server is gunicorn 27.0.1 with HTTP/2 and a WSGI application; all PyPI.
# Found:    h2 counts the body of a 304 against its Content-Length: the call fails. It lets HEAD through.
#           On HTTP/1.1 all of them take the 304.
# Seen:     GET, answered by 304 with Content-Length: 5     HTTP/2                       HTTP/1.1
#           httpx, httpx2                                   LocalProtocolError           304
#           niquests                                        ChunkedEncodingError         304
#           libcurl                                         304                          304
#           all of them: a 304 without length, HEAD         304, 200
# Matters:  the first request for a file works, and each one that asks whether the copy is still good fails, as soon as the
#           server speaks HTTP/2. gunicorn, which learned HTTP/2 this year, sends the field as the application gave it.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    httpx==0.28.1 httpx2==2.16.2 niquests==3.21.2 jh2==5.0.15 h2==4.4.1 pycurl==7.49.0 gunicorn==27.0.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import importlib.metadata, socket, subprocess, sys, time
import httpx, httpx2, niquests, pycurl

work = sys.argv[1]
with open(f"{work}/shop.py", "w") as file:
    file.write("""
def application(environ, start_response):
    length = [("Content-Length", "5")]
    if environ["PATH_INFO"] == "/":
        start_response("200 OK", length)
        return [b"12345"]
    start_response("304 Not Modified", length if environ["PATH_INFO"] == "/long" else [])
    return []
""")

def start(*options):
    """Starts gunicorn, and returns it with its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [f"{work}/venv/bin/gunicorn", "shop:application", "--bind", f"127.0.0.1:{port}", "--worker-class", "gthread", *options],
        cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return server, f"http://127.0.0.1:{port}"
        except OSError:
            time.sleep(0.05)
    server.kill()
    print("gunicorn did not start", file=sys.stderr)
    sys.exit(2)

def with_httpx(module):
    def call(two, method, url):
        with module.Client(http1=not two, http2=two, timeout=20) as client:
            response = client.request(method, url)
            return response.status_code, response.http_version == "HTTP/2"
    return call

def with_niquests(two, method, url):
    with niquests.Session(disable_http1=two, disable_http2=not two, disable_http3=True) as session:
        response = session.request(method, url, timeout=20)
        return response.status_code, response.http_version == 20

def with_libcurl(two, method, url):
    curl = pycurl.Curl()
    curl.setopt(pycurl.URL, url)
    version = pycurl.CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE if two else pycurl.CURL_HTTP_VERSION_1_1
    curl.setopt(pycurl.HTTP_VERSION, version)
    curl.setopt(pycurl.NOBODY, method == "HEAD")
    curl.setopt(pycurl.WRITEFUNCTION, lambda piece: None)
    curl.setopt(pycurl.TIMEOUT, 20)
    curl.perform()
    return curl.getinfo(pycurl.RESPONSE_CODE), curl.getinfo(pycurl.INFO_HTTP_VERSION) == 3

def tried(call, *arguments):
    try:
        return call(*arguments)
    except Exception as error:
        return type(error).__name__, "InvalidBodyLength" in repr(error)

clients = {"httpx": with_httpx(httpx), "httpx2": with_httpx(httpx2), "niquests": with_niquests, "libcurl": with_libcurl}
print(*(f"{name} {importlib.metadata.version(name)}" for name in ("httpx", "httpx2", "niquests", "h2", "jh2", "gunicorn")),
      pycurl.version.split()[1])
first, one = start()
second, two = start("--http-protocols", "h2,h1", "--http2-cleartext", "prior-knowledge")
try:
    seen = {
        name: [
            tried(call, True, "GET", f"{two}/short"), tried(call, True, "GET", f"{two}/long"),
            tried(call, True, "HEAD", f"{two}/"), tried(call, False, "GET", f"{one}/long"),
        ]
        for name, call in clients.items()
    }
finally:
    for server in (first, second):
        server.terminate()
        server.wait()
for name, results in seen.items():
    print(name, *results, sep="   ")
as_found = all(
    results[0] == (304, True) and results[2] == (200, True) and results[3] == (304, False)
    and (results[1] == (304, True) if name == "libcurl" else isinstance(results[1][0], str) and results[1][1])
    for name, results in seen.items()
)
print("as found: the length of a 304 fails the call" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
