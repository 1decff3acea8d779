#!/usr/bin/env bash
# Guess:    a client of HTTP/3 takes a HEAD response with a Content-Length and no body, and a 304 with one: the field tells the
#           length that a GET would bring (RFC 9110 §8.6, RFC 9114 §4.1.2). One wrong response costs at most its own stream.
# Version:  aioquic 1.7.2 as client and server; the witnesses are niquests 3.21.2 (qh3 2.1.0) and libcurl 8.23.0 (ngtcp2) in
#           pycurl 7.49.0; all PyPI.
# Found:    aioquic checks the length of each response that has ended, without a look at the method or status. HEAD and 304 with
#           Content-Length: 5 end the connection with H3_MESSAGE_ERROR, and a GET that still waits on it is lost as well.
# Seen:     GET, 5 bytes            aioquic 200         niquests 200    libcurl 200
#           HEAD                    aioquic 0x10e       niquests 200    libcurl 200
#           GET, answered by 304    aioquic 0x10e       niquests 304    libcurl 304
#           GET beside that HEAD    aioquic no response
# Matters:  a tool on aioquic that asks for the size of a file, or whether a copy is still fresh, ends its calls to that server,
#           as soon as the server speaks HTTP/3; the server's log shows a client that went away.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    aioquic==1.7.2 niquests==3.21.2 qh3==2.1.0 pycurl==7.49.0 trustme==1.2.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import asyncio, importlib.metadata, sys
import aioquic.asyncio, niquests, pycurl, trustme
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, ProtocolNegotiated

work = sys.argv[1]
authority = trustme.CA()
authority.cert_pem.write_to_path(f"{work}/ca.pem")
identity = authority.issue_cert("localhost")
identity.cert_chain_pems[0].write_to_path(f"{work}/server.pem")
identity.private_key_pem.write_to_path(f"{work}/server.key")
length = (b"content-length", b"5")

class Server(aioquic.asyncio.QuicConnectionProtocol):
    http = None

    def quic_event_received(self, event):
        if isinstance(event, ProtocolNegotiated):
            self.http = H3Connection(self._quic)
        for request in self.http.handle_event(event) if self.http else []:
            if isinstance(request, HeadersReceived):
                fields = dict(request.headers)
                delay = 2 if fields[b":path"] == b"/later" else 0
                asyncio.get_running_loop().call_later(delay, self.answer, request.stream_id, fields)

    def answer(self, stream, fields):
        status = b"304" if fields[b":path"] == b"/fresh" else b"200"
        bodiless = status == b"304" or fields[b":method"] == b"HEAD"
        self.http.send_headers(stream, [(b":status", status), length], end_stream=bodiless)
        if not bodiless:
            self.http.send_data(stream, b"12345", end_stream=True)
        self.transmit()

class Client(aioquic.asyncio.QuicConnectionProtocol):
    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.http, self.results, self.waiting, self.done = H3Connection(self._quic), {}, 0, asyncio.Event()

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            self.results["connection"] = hex(event.error_code), event.reason_phrase
            self.done.set()
            return
        for part in self.http.handle_event(event):
            if isinstance(part, HeadersReceived):
                self.results[part.stream_id] = int(dict(part.headers)[b":status"])
            self.waiting -= part.stream_ended
        if not self.waiting:
            self.done.set()

    async def call(self, *requests):
        """Sends all the requests, and returns the statuses and how the connection ended, if it did."""
        for method, path in requests:
            fields = (":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)
            stream = self._quic.get_next_available_stream_id()
            self.http.send_headers(stream, [(name.encode(), value.encode()) for name, value in fields], end_stream=True)
            self.waiting += 1
        self.transmit()
        self.done.clear()
        await asyncio.wait_for(self.done.wait(), 20)
        return dict(self.results)

async def with_aioquic(*requests):
    configuration = QuicConfiguration(alpn_protocols=H3_ALPN, cafile=f"{work}/ca.pem", server_name="localhost")
    async with aioquic.asyncio.connect(
        "127.0.0.1", port, configuration=configuration, create_protocol=Client,
    ) as client:
        return await client.call(*requests)

def with_niquests(method, path):
    with niquests.Session(disable_http1=True, disable_http2=True) as session:
        response = session.request(method, f"https://localhost:{port}{path}", verify=f"{work}/ca.pem", timeout=20)
        return response.status_code, response.http_version

def with_libcurl(method, path):
    curl = pycurl.Curl()
    curl.setopt(pycurl.URL, f"https://localhost:{port}{path}")
    curl.setopt(pycurl.CAINFO, f"{work}/ca.pem")
    curl.setopt(pycurl.HTTP_VERSION, 31)  # CURL_HTTP_VERSION_3ONLY
    curl.setopt(pycurl.NOBODY, method == "HEAD")
    curl.setopt(pycurl.WRITEFUNCTION, lambda piece: None)
    curl.setopt(pycurl.TIMEOUT, 20)
    curl.perform()
    return curl.getinfo(pycurl.RESPONSE_CODE), curl.getinfo(pycurl.INFO_HTTP_VERSION)

async def main():
    global port
    configuration = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN)
    configuration.load_cert_chain(f"{work}/server.pem", f"{work}/server.key")
    server = await aioquic.asyncio.serve("127.0.0.1", 0, configuration=configuration, create_protocol=Server)
    port = server._transport.get_extra_info("sockname")[1]
    seen = {}
    for request in (("GET", "/"), ("HEAD", "/"), ("GET", "/fresh")):
        witnesses = [(await asyncio.to_thread(client, *request))[0] for client in (with_niquests, with_libcurl)]
        seen[request] = await with_aioquic(request), witnesses
        print(*request, "-> aioquic", seen[request][0], "  niquests, libcurl:", witnesses)
    two = await with_aioquic(("GET", "/later"), ("HEAD", "/"))
    print("GET beside HEAD ->", two)
    apart = await with_aioquic(("GET", "/later"), ("GET", "/"))
    print("GET beside GET ->", apart)
    server.close()
    return seen, two, apart

print(*(f"{name} {importlib.metadata.version(name)}" for name in ("aioquic", "niquests", "qh3")), pycurl.version.split()[1])
seen, two, apart = asyncio.run(main())
plain, head, fresh = seen.values()
as_found = (
    plain == ({0: 200}, [200, 200]) and head[1] == [200, 200] and fresh[1] == [304, 304] and apart == {0: 200, 4: 200}
    and all(result["connection"][0] == "0x10e" and 0 not in result for result in (head[0], fresh[0], two))
)
print("as found: HEAD and 304 with a length end the connection" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
