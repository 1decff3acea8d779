#!/usr/bin/env bash
# Guess:    a response of HTTP/2 ends with END_STREAM. When the server resets the stream before that, the call fails, whatever the
#           code of the reset is, surely with a Content-Length that has not been reached. A call that the server refuses
#           (REFUSED_STREAM) may be sent again, once or twice, or after a pause.
# Version:  libcurl 8.23.0 (nghttp2 1.70.0) in pycurl 7.49.0, impit 0.15.1, pyreqwest 0.15.1, primp 2.0.1, niquests 3.21.2, HTTPX
#           0.28.1; the server is h2 4.4.1; all from PyPI.
# Found:    libcurl, impit and pyreqwest report success for half of a body when the code is NO_ERROR, impit for CANCEL as well,
#           and the last two whatever Content-Length says. primp sends a refused call 99 times in a fraction of a second, libcurl
#           6 times, impit and pyreqwest 3 times, without a pause, a POST too.
# Seen:     50 bytes, then RST_STREAM           libcurl    impit    pyreqwest    primp, niquests, HTTPX
#           NO_ERROR                            200        200      200          an error
#           NO_ERROR, Content-Length: 100       error 18   200      200          an error
#           CANCEL, with or without a length    error 92   200      an error     an error
#           INTERNAL_ERROR                      error 92   an error, all others
#           requests for one refused POST       6          3        3            99, 1, 1
# Matters:  a list or a file of half its length is the whole one; a test against a server that resets with INTERNAL_ERROR shows
#           nothing. A server that refuses because it has too much to do gets a hundred calls for each.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check h2==4.4.1 trustme==1.2.1 \
    pycurl==7.49.0 impit==0.15.1 pyreqwest==0.15.1 primp==2.0.1 niquests==3.21.2 httpx==0.28.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" -W ignore - "$work" 2>"$work/log" <<'PYTHON' || { code=$?; tail -5 "$work/log" >&2; exit "$code"; }
import datetime, io, socket, ssl, sys, threading
import h2.config, h2.connection, h2.errors, h2.events, h2.exceptions, httpx, impit, niquests, primp, pycurl, trustme
from pyreqwest.client import SyncClientBuilder

work = sys.argv[1]
authority = trustme.CA()
authority.cert_pem.write_to_path(f"{work}/ca.pem")
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
context.set_alpn_protocols(["h2"])
listener = socket.create_server(("127.0.0.1", 0))
base = f"https://127.0.0.1:{listener.getsockname()[1]}"
codes = {
    "none": h2.errors.ErrorCodes.NO_ERROR, "none-length": h2.errors.ErrorCodes.NO_ERROR,
    "cancel": h2.errors.ErrorCodes.CANCEL, "cancel-length": h2.errors.ErrorCodes.CANCEL,
    "internal": h2.errors.ErrorCodes.INTERNAL_ERROR,
}
requests = []

def answer(http, channel, stream, name):
    requests.append(name)
    if name == "refused":
        http.reset_stream(stream, h2.errors.ErrorCodes.REFUSED_STREAM)
        channel.sendall(http.data_to_send())
        return
    fields = [(":status", "200")]
    if name.endswith("length"):
        fields.append(("content-length", "100"))
    http.send_headers(stream, fields)
    http.send_data(stream, bytes(50), end_stream=name == "whole")
    channel.sendall(http.data_to_send())
    if name in codes:
        threading.Event().wait(0.2)
        http.reset_stream(stream, codes[name])
        channel.sendall(http.data_to_send())

def serve(channel):
    http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    try:
        channel = context.wrap_socket(channel, server_side=True)
        http.initiate_connection()
        channel.sendall(http.data_to_send())
        while data := channel.recv(65536):
            events = http.receive_data(data)
            channel.sendall(http.data_to_send())
            for event in events:
                if isinstance(event, h2.events.RequestReceived):
                    path = {bytes(key): bytes(value) for key, value in event.headers}[b":path"]
                    answer(http, channel, event.stream_id, path.decode()[1:])
    except (OSError, h2.exceptions.H2Error):
        pass
    finally:
        channel.close()

def accept():
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

threading.Thread(target=accept, daemon=True).start()
seconds = 20

def with_libcurl(method, url):
    body, handle = io.BytesIO(), pycurl.Curl()
    options = {
        pycurl.URL: url, pycurl.CAINFO: f"{work}/ca.pem", pycurl.WRITEDATA: body, pycurl.TIMEOUT: seconds, pycurl.NOPROXY: "*",
        pycurl.HTTP_VERSION: pycurl.CURL_HTTP_VERSION_2_0,
    }
    if method == "POST":
        options[pycurl.POSTFIELDS] = "form"
    for name, value in options.items():
        handle.setopt(name, value)
    handle.perform()
    return handle.getinfo(pycurl.RESPONSE_CODE), len(body.getvalue())

def with_impit(method, url):
    response = impit.Client(browser="chrome", verify=False, timeout=seconds).request(method, url)
    return response.status_code, len(response.content)

def with_pyreqwest(method, url):
    builder = SyncClientBuilder().danger_accept_invalid_certs(True).http2_prior_knowledge()
    with builder.timeout(datetime.timedelta(seconds=seconds)).build() as client:
        response = getattr(client, method.lower())(url).build().send()
        return response.status, len(response.bytes())

def with_primp(method, url):
    response = primp.Client(verify=False, timeout=seconds).request(method, url)
    return response.status_code, len(response.content)

def with_niquests(method, url):
    with niquests.Session(disable_http1=True, disable_http3=True) as session:
        session.trust_env, session.verify = False, f"{work}/ca.pem"
        response = session.request(method, url, timeout=seconds)
        return response.status_code, len(response.content)

def with_httpx(method, url):
    trust = ssl.create_default_context(cafile=f"{work}/ca.pem")
    with httpx.Client(http1=False, http2=True, verify=trust, trust_env=False, timeout=seconds) as client:
        response = client.request(method, url)
        return response.status_code, len(response.content)

clients = {
    "libcurl": with_libcurl, "impit": with_impit, "pyreqwest": with_pyreqwest, "primp": with_primp, "niquests": with_niquests,
    "HTTPX": with_httpx,
}
seen = {}
for client, call in clients.items():
    seen[client] = {}
    for name in ("whole", *codes, "refused"):
        requests.clear()
        try:
            result = call("POST" if name == "refused" else "GET", f"{base}/{name}")
        except Exception as error:
            result = error.args[0] if isinstance(error, pycurl.error) else "error"
        if name == "refused":
            print(f"{client:9} sends a refused call {len(requests)} times")
            result = len(requests) if len(requests) < 50 else "many"
        seen[client][name] = result
    print(f"{client:9}", *(f"{name} {result}" for name, result in seen[client].items()), sep="  ")
half, wrong = (200, 50), "error"
failed = dict.fromkeys(codes, wrong)
expected = {
    "libcurl": {"none": half, "none-length": 18, "cancel": 92, "cancel-length": 92, "internal": 92, "refused": 6},
    "impit": dict.fromkeys(codes, half) | {"internal": wrong, "refused": 3},
    "pyreqwest": failed | {"none": half, "none-length": half, "refused": 3},
    "primp": failed | {"refused": "many"}, "niquests": failed | {"refused": 1}, "HTTPX": failed | {"refused": 1},
}
as_found = seen == {client: {"whole": half} | results for client, results in expected.items()}
print("as found: a reset is the end of the body" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
