#!/usr/bin/env bash
# Guess:    on HTTP/3 a response that breaks off concerns its own stream: a body shorter than its Content-Length is an error of
#           the stream (RFC 9114 §4.1.2) and of that call (CURLE_PARTIAL_FILE); a stream that the server resets before its end
#           is not a whole response, whatever the code of the reset.
# Version:  libcurl 8.23.0 (ngtcp2 1.25.0, nghttp3 1.18.0) in pycurl 7.49.0; the server is aioquic 1.7.2; all from PyPI.
# Found:    a short body ends the connection with all its calls: each gets error 56, `ERR_CLOSING`, not 18. A stream that is reset
#           with H3_NO_ERROR after half of a body without a length is a success with that half; with H3_INTERNAL_ERROR it is
#           error 18. A call refused with H3_REQUEST_REJECTED is sent six times at once, over a new connection each.
# Seen:     the stream                                        the call             another call on the connection
#           ends after 50 of 100 bytes                        56, ERR_CLOSING      56, ERR_CLOSING, after 200
#           is reset with H3_INTERNAL_ERROR                   18                   200, whole
#           is reset with H3_NO_ERROR, no Content-Length      200, 50 bytes        200, whole
#           is reset with H3_NO_ERROR, Content-Length: 100    18                   200, whole
#           is rejected                                       56, six requests     200, whole
# Matters:  one upstream that breaks off behind a proxy fails all that a client has under way, and the error is that of a dead
#           network; a server that resets with "no error" gives half of a list as the list.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    aioquic==1.7.2 pycurl==7.49.0 trustme==1.2.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import asyncio, io, sys, time
import aioquic.asyncio, pycurl, trustme
from aioquic.h3.connection import H3_ALPN, ErrorCode, H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated

work = sys.argv[1]
authority = trustme.CA()
authority.cert_pem.write_to_path(f"{work}/ca.pem")
identity = authority.issue_cert("127.0.0.1", "localhost")
identity.cert_chain_pems[0].write_to_path(f"{work}/server.pem")
identity.private_key_pem.write_to_path(f"{work}/server.key")
requests = []

class Server(aioquic.asyncio.QuicConnectionProtocol):
    http = None

    def quic_event_received(self, event):
        if isinstance(event, ProtocolNegotiated):
            self.http = H3Connection(self._quic)
        for request in self.http.handle_event(event) if self.http else []:
            if isinstance(request, HeadersReceived):
                path = dict(request.headers)[b":path"].decode()
                requests.append((path, id(self)))
                self.answer(request.stream_id, path)

    def later(self, seconds, work, *arguments, **more):
        def run():
            work(*arguments, **more)
            self.transmit()

        asyncio.get_running_loop().call_later(seconds, run)

    def answer(self, stream, path):
        if path == "/rejected":
            self._quic.reset_stream(stream, ErrorCode.H3_REQUEST_REJECTED)
            self.transmit()
            return
        fields = [(b":status", b"200")]
        if path in ("/short", "/none-with-length"):
            fields.append((b"content-length", b"100"))
        self.http.send_headers(stream, fields)
        self.http.send_data(stream, bytes(50), end_stream=path == "/first")
        if path == "/other":
            self.later(1.5, self.http.send_data, stream, bytes(50), end_stream=True)
        elif path == "/short":
            self.later(0.2, self.http.send_data, stream, b"", end_stream=True)
        elif path != "/first":
            code = ErrorCode.H3_INTERNAL_ERROR if path == "/internal" else ErrorCode.H3_NO_ERROR
            self.later(0.2, self._quic.reset_stream, stream, code)
        self.transmit()

def two_calls(base, path):
    """The results of a call to /other, and of one to the path that shares its connection."""
    multi, results, handles = pycurl.CurlMulti(), {}, []
    multi.setopt(pycurl.M_PIPELINING, pycurl.PIPE_MULTIPLEX)
    multi.setopt(pycurl.M_MAX_HOST_CONNECTIONS, 1)

    def start(path):
        handle = pycurl.Curl()
        handle.path, handle.body = path, io.BytesIO()
        options = {
            pycurl.URL: base + path, pycurl.CAINFO: f"{work}/ca.pem", pycurl.WRITEDATA: handle.body, pycurl.TIMEOUT: 20,
            pycurl.HTTP_VERSION: 31, pycurl.PIPEWAIT: 1, pycurl.NOPROXY: "*",
        }
        for name, value in options.items():
            handle.setopt(name, value)
        multi.add_handle(handle)
        handles.append(handle)

    def go_on(until):
        deadline = time.monotonic() + 30
        while not until():
            if time.monotonic() > deadline:
                print("the calls do not end", file=sys.stderr)
                sys.exit(2)
            multi.perform()
            multi.select(0.05)
            _, done, failed = multi.info_read()
            for handle in done:
                results[handle.path] = handle.getinfo(pycurl.RESPONSE_CODE), len(handle.body.getvalue())
            for handle, code, text in failed:
                results[handle.path] = code, text
    requests.clear()
    start("/first")
    go_on(lambda: "/first" in results)
    start("/other")
    go_on(lambda: handles[1].body.getvalue())
    start(path)
    go_on(lambda: len(results) == 3)
    shared = {server for asked, server in requests if asked in ("/first", "/other")}
    return results[path], results["/other"], sum(asked == path for asked, _ in requests), len(shared)

async def main():
    configuration = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN)
    configuration.load_cert_chain(f"{work}/server.pem", f"{work}/server.key")
    server = await aioquic.asyncio.serve("127.0.0.1", 0, configuration=configuration, create_protocol=Server)
    base = f"https://127.0.0.1:{server._transport.get_extra_info('sockname')[1]}"
    paths = ("/short", "/internal", "/none", "/none-with-length", "/rejected")
    seen = {path: await asyncio.to_thread(two_calls, base, path) for path in paths}
    server.close()
    return seen

print(pycurl.version)
seen = asyncio.run(main())
for path, (result, other, count, shared) in seen.items():
    print(f"{path:18} {result}, sent {count} times; the other call: {other}")
whole = (200, 100)
as_found = (
    all(shared == 1 for *_, shared in seen.values()) and seen["/short"][0][0] == seen["/short"][1][0] == 56
    and all(seen[path][1] == whole for path in list(seen)[1:])
    and seen["/internal"][0][0] == seen["/none-with-length"][0][0] == 18 and seen["/none"][0] == (200, 50)
    and seen["/rejected"][0][0] == 56 and [count for _, _, count, _ in seen.values()] == [1, 1, 1, 1, 6]
)
print("as found: one bad stream ends all, and a reset is a success" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
