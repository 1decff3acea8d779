#!/usr/bin/env bash
# Guess:    a client that fails a response with fewer bytes than its Content-Length on HTTP/1.1 does so on HTTP/3 as well, where
#           such a response is malformed (RFC 9114 §4.1.2); the same for one with more.
# Version:  niquests 3.21.2 (qh3 2.1.0), impit 0.15.1, libcurl 8.23.0 (ngtcp2, nghttp3) in pycurl 7.49.0; the server is aioquic
#           1.7.2; all from PyPI.
# Found:    niquests and impit take the part for the whole on HTTP/3: 200, 50 bytes of 100, no error; and 50 bytes of 10. On
#           HTTP/1.1 both fail the first one. libcurl fails both, see libcurl-http3-one-bad-ends-all.sh for how.
# Seen:     Content-Length: 100, 50 bytes, end of the stream      HTTP/3                  HTTP/1.1, closed
#               niquests                                          200, 50 bytes           ChunkedEncodingError
#               impit                                             200, 50 bytes           RemoteProtocolError
#               libcurl                                           error 56                error 18
#           Content-Length: 10, 50 bytes                          niquests, impit 200, 50 bytes    libcurl error 56
# Matters:  a proxy whose own server broke off may end the stream in order. The day on which HTTP/3 is found by Alt-Svc, half a
#           file becomes a file, with the client, code and server that were tried.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    aioquic==1.7.2 niquests==3.21.2 qh3==2.1.0 impit==0.15.1 pycurl==7.49.0 trustme==1.2.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" -W ignore - "$work" <<'PYTHON'
import asyncio, http.server, io, sys, threading
import aioquic.asyncio, impit, niquests, pycurl, trustme
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated

work = sys.argv[1]
authority = trustme.CA()
authority.cert_pem.write_to_path(f"{work}/ca.pem")
identity = authority.issue_cert("127.0.0.1", "localhost")
identity.cert_chain_pems[0].write_to_path(f"{work}/server.pem")
identity.private_key_pem.write_to_path(f"{work}/server.key")
lengths = {"/whole": b"50", "/short": b"100", "/long": b"10"}

class Server(aioquic.asyncio.QuicConnectionProtocol):
    http = None

    def quic_event_received(self, event):
        if isinstance(event, ProtocolNegotiated):
            self.http = H3Connection(self._quic)
        for request in self.http.handle_event(event) if self.http else []:
            if isinstance(request, HeadersReceived):
                length = lengths[dict(request.headers)[b":path"].decode()]
                self.http.send_headers(request.stream_id, [(b":status", b"200"), (b"content-length", length)])
                self.http.send_data(request.stream_id, bytes(50), end_stream=True)
                self.transmit()

class OldServer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", lengths[self.path].decode())
        self.end_headers()
        self.wfile.write(bytes(50))
        self.close_connection = True

    def log_message(self, *arguments):
        pass

def with_libcurl(url, modern):
    body, handle = io.BytesIO(), pycurl.Curl()
    options = {
        pycurl.URL: url, pycurl.CAINFO: f"{work}/ca.pem", pycurl.WRITEDATA: body, pycurl.TIMEOUT: 20, pycurl.NOPROXY: "*",
        pycurl.HTTP_VERSION: 31 if modern else pycurl.CURL_HTTP_VERSION_1_1,
    }
    for name, value in options.items():
        handle.setopt(name, value)
    handle.perform()
    return handle.getinfo(pycurl.RESPONSE_CODE), len(body.getvalue())

def with_niquests(url, modern):
    place = ("127.0.0.1", int(url.split(":")[2].split("/")[0]))
    more = {"disable_http3": True}
    if modern:
        more = {"quic_cache_layer": {place: place}, "disable_http1": True, "disable_http2": True}
    with niquests.Session(**more) as session:
        session.trust_env, session.verify = False, f"{work}/ca.pem"
        response = session.get(url, timeout=20)
        assert response.http_version == (30 if modern else 11)
        return response.status_code, len(response.content)

def with_impit(url, modern):
    client = impit.Client(http3=modern, verify=False, timeout=20)
    response = client.get(url, force_http3=True) if modern else client.get(url)
    assert response.http_version == ("HTTP/3" if modern else "HTTP/1.1")
    return response.status_code, len(response.content)

def ask(call, url, modern):
    try:
        return call(url, modern)
    except AssertionError:
        raise
    except Exception as error:
        return error.args[0] if isinstance(error, pycurl.error) else type(error).__name__

def ask_all(base, modern):
    calls = {"niquests": with_niquests, "impit": with_impit, "libcurl": with_libcurl}
    return {name: [ask(call, base + path, modern) for path in lengths] for name, call in calls.items()}

async def on_http3():
    configuration = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN)
    configuration.load_cert_chain(f"{work}/server.pem", f"{work}/server.key")
    server = await aioquic.asyncio.serve("127.0.0.1", 0, configuration=configuration, create_protocol=Server)
    port = server._transport.get_extra_info("sockname")[1]
    seen = await asyncio.to_thread(ask_all, f"https://127.0.0.1:{port}", True)
    server.close()
    return seen

old = http.server.ThreadingHTTPServer(("127.0.0.1", 0), OldServer)
threading.Thread(target=old.serve_forever, daemon=True).start()
seen = {"HTTP/3": asyncio.run(on_http3()), "HTTP/1.1": ask_all(f"http://127.0.0.1:{old.server_port}", False)}
old.shutdown()
for version, answers in seen.items():
    for name, results in answers.items():
        print(f"{version:9} {name:9}", *(f"{path[1:]}: {result}" for path, result in zip(lengths, results)), sep="  ")
whole = (200, 50)
as_found = (
    seen["HTTP/3"] == {"niquests": [whole] * 3, "impit": [whole] * 3, "libcurl": [whole, 56, 56]}
    and all(results[0] == whole for results in seen["HTTP/1.1"].values())
    and not any(isinstance(results[1], tuple) for results in seen["HTTP/1.1"].values())
)
print("as found: a part is the whole on HTTP/3" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
