#!/usr/bin/env bash
# Guess:    a mock of the network stands for the server: what the client does with a response (repeat a 503, keep a cookie, decode,
#           miss the end of a body) is the client's own code, and happens in the test as it does with a server.
# Version:  requests-mock 1.12.1, responses 0.26.3, pook 2.1.6, mocket 3.15.0 with requests 2.34.2 and urllib3 2.8.0; respx 0.23.1
#           with HTTPX 0.28.1 and httpx-retries 0.6.0; PyPI.
# Found:    with requests-mock and pook a session with Retry(3, status_forcelist=[503]) does not repeat a 503. requests-mock does
#           not keep a Set-Cookie field. requests-mock and respx hand over 4 bytes of a body with "Content-Length: 100" as
#           the whole. responses and mocket do all as with a server.
# Seen:                              503, then 200    cookie, at the next call    4 bytes of 100
#           a server, requests       200              a=1                         ChunkedEncodingError
#           responses, mocket        200              a=1                         ChunkedEncodingError
#           pook                     503              a=1                         ChunkedEncodingError
#           requests-mock            503              none                        b"half"
#           a server, HTTPX          200              a=1                         RemoteProtocolError
#           respx                    200              a=1                         b"half"
# Matters:  a test that a download which is cut off is noticed, or that the retries are set up, cannot be written with these: it
#           fails for right code, or passes for wrong code.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    requests-mock==1.12.1 responses==0.26.3 pook==2.1.6 mocket==3.15.0 requests==2.34.2 urllib3==2.8.0 respx==0.23.1 httpx==0.28.1 \
    httpx-retries==0.6.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

cat > "$work/probe.py" <<'PYTHON'
"""Makes the calls with the mock of the name, and prints what came of them."""
import contextlib, http.server, json, sys, threading

name = sys.argv[1]
answers = {
    "/retried": [(503, {}, b""), (200, {}, b"ok")], "/cookie": [(200, {"Set-Cookie": "a=1; Path=/"}, b"")],
    "/next": [(200, {}, b"")], "/short": [(200, {"Content-Length": "100"}, b"half")],
}

@contextlib.contextmanager
def with_server():
    left = {path: list(responses) for path, responses in answers.items()}

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, fields, body = left[self.path].pop(0)
            self.send_response(status)
            for field in ({"Content-Length": str(len(body))} | fields).items():
                self.send_header(*field)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"

base = "http://api.test"

@contextlib.contextmanager
def with_requests_mock():
    import requests_mock
    with requests_mock.Mocker() as mock:
        for path, responses in answers.items():
            mock.get(base + path, [{"status_code": status, "headers": fields, "content": body} for status, fields, body in responses])
        yield base

@contextlib.contextmanager
def with_responses():
    import responses
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        for path, all_of_it in answers.items():
            for status, fields, body in all_of_it:
                mock.get(base + path, status=status, headers=fields, body=body)
        yield base

@contextlib.contextmanager
def with_pook():
    import pook
    with pook.use():
        for path, responses in answers.items():
            for status, fields, body in responses:
                pook.get(base + path, reply=status, response_headers=fields, response_body=body)
        yield base

@contextlib.contextmanager
def with_mocket():
    from mocket import Mocketizer
    from mocket.mocks.mockhttp import Entry, Response
    with Mocketizer():
        for path, responses in answers.items():
            Entry.register(
                Entry.GET, base + path, *(Response(body=body, status=status, headers=fields) for status, fields, body in responses)
            )
        yield base

@contextlib.contextmanager
def with_respx():
    import httpx, respx
    with respx.mock() as mock:
        for path, responses in answers.items():
            mock.get(base + path).side_effect = [
                httpx.Response(status, headers=fields, content=body) for status, fields, body in responses
            ]
        yield base

def client():
    if "HTTPX" in name or name == "respx":
        import httpx
        from httpx_retries import Retry, RetryTransport
        return httpx.Client(transport=RetryTransport(retry=Retry(total=3, status_forcelist=[503], backoff_factor=0)))
    import requests, urllib3
    session = requests.Session()
    retry = urllib3.Retry(3, status_forcelist=[503], backoff_factor=0)
    session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retry))
    session.trust_env = False
    return session

places = {
    "server, requests": with_server, "responses": with_responses, "mocket": with_mocket, "pook": with_pook,
    "requests-mock": with_requests_mock, "server, HTTPX": with_server, "respx": with_respx,
}
with places[name]() as url, client() as session:
    status = session.get(f"{url}/retried").status_code
    session.get(f"{url}/cookie")
    cookie = session.get(f"{url}/next").request.headers.get("Cookie")
    try:
        short = session.get(f"{url}/short").content.decode()
    except Exception as error:
        short = type(error).__name__
    print(json.dumps([status, cookie, short]))
PYTHON

python3 - "$work" <<'PYTHON'
import json, os, subprocess, sys

work = sys.argv[1]
environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
expected = {
    "server, requests": [200, "a=1", "ChunkedEncodingError"], "responses": [200, "a=1", "ChunkedEncodingError"],
    "mocket": [200, "a=1", "ChunkedEncodingError"], "pook": [503, "a=1", "ChunkedEncodingError"],
    "requests-mock": [503, None, "half"], "server, HTTPX": [200, "a=1", "RemoteProtocolError"], "respx": [200, "a=1", "half"],
}
seen = {}
for name in expected:
    output = subprocess.run(
        [f"{work}/venv/bin/python", "-W", "ignore", f"{work}/probe.py", name], stdout=subprocess.PIPE, text=True, timeout=60,
        env=environment,
    ).stdout
    seen[name] = json.loads(output.strip().split("\n")[-1] or "null")
    print(f"{name:17}", seen[name])
print("as found: not all as with a server" if seen == expected else "the behaviour has changed")
sys.exit(0 if seen == expected else 1)
PYTHON
