"""An HTTP/3 server on 127.0.0.1 for the tests, with aioquic: http3.py CERTIFICATE [--port N] [--idle SECONDS] [--silent]
[--alternative VALUE].

CERTIFICATE is a PEM file with certificate and key. The same TCP port serves HTTP/1.1 over TLS, for clients that race both.
SIGTERM closes the connections with CONNECTION_CLOSE; SIGKILL sends nothing. With --silent the UDP port is open but never
responds, as behind a firewall. The value of --alternative is the Alt-Svc field of the responses over TCP. The output lines are
"port N", "datagram" (received by a silent port), "connection fresh" or "connection resumed", "request METHOD PATH VERSION",
"reset" and "closed".
"""

import argparse
import asyncio
import errno
import signal
import socket
import ssl

from aioquic.asyncio import QuicConnectionProtocol, serve
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, StreamReset

# Bodies are the bytes 0, 1, … 255, 0, … so that a lost, duplicated or moved byte is detected.
BLOCK = bytes(range(256)) * 512


def tell(*words):
    print(*words, flush=True)


class Upload:
    """Checks a body while it is received."""

    def __init__(self):
        self.count, self.is_right = 0, True

    def add(self, data):
        start = self.count % 256
        position = 0
        while position < len(data):
            part = data[position : position + len(BLOCK) - 256]
            self.is_right = self.is_right and part == BLOCK[start : start + len(part)]
            position += len(part)
            start = (start + len(part)) % 256
        self.count += len(data)


class HTTP3(QuicConnectionProtocol):
    # The streams of all connections that are answered together, by the number of streams that must arrive first.
    together = {}

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.http, self.uploads, self.heads, self.tasks = None, {}, {}, set()

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted):
            tell("connection", "resumed" if event.session_resumed else "fresh")
            self.http = self.http or H3Connection(self._quic)
        elif isinstance(event, ConnectionTerminated):
            tell("closed")
        elif isinstance(event, StreamReset):
            tell("reset")
        if self.http is None:
            return
        for happened in self.http.handle_event(event):
            stream = happened.stream_id
            if isinstance(happened, HeadersReceived):
                self.heads.setdefault(stream, dict(happened.headers))
                self.uploads.setdefault(stream, Upload())
            elif isinstance(happened, DataReceived):
                self.uploads[stream].add(happened.data)
            if happened.stream_ended:
                task = asyncio.ensure_future(self.answer(stream))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)

    async def answer(self, stream):
        head, upload = self.heads.pop(stream), self.uploads.pop(stream)
        path = head[b":path"].decode()
        tell("request", head[b":method"].decode(), path, "3")
        word, _, number = path[1:].partition("/")
        if word == "bytes":
            return await self.send_bytes(stream, int(number))
        if word == "together":
            await self.wait_for_others(int(number))
        if word == "never":
            return
        text = f"3 {upload.count} {'right' if upload.is_right else 'wrong'}"
        self.http.send_headers(stream, [(b":status", b"200"), (b"content-type", b"text/plain")])
        self.http.send_data(stream, text.encode(), True)
        self.transmit()

    async def wait_for_others(self, count):
        event, waiting = self.together.setdefault(count, (asyncio.Event(), []))
        waiting.append(self)
        if len(waiting) >= count:
            event.set()
        await event.wait()

    async def send_bytes(self, stream, count):
        self.http.send_headers(stream, [(b":status", b"200"), (b"content-length", str(count).encode())])
        sender = self._quic._streams[stream].sender
        position = 0
        while position < count:
            part = BLOCK[: min(len(BLOCK), count - position)]
            position += len(part)
            self.http.send_data(stream, part, position == count)
            self.transmit()
            # Limits the unsent data, which is kept in memory.
            while len(sender._buffer) > 4 << 20 and self._quic._close_event is None:
                await asyncio.sleep(0.005)


class Silence(asyncio.DatagramProtocol):
    def datagram_received(self, data, address):
        tell("datagram")


async def answer_tcp(reader, writer):
    """Serves HTTP/1.1 requests without bodies, one after the other."""
    try:
        while head := (await reader.readuntil(b"\r\n\r\n")).decode():
            method, path, _ = head.split(" ", 2)
            tell("request", method, path, "1.1")
            writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n{ALTERNATIVE}\r\n1.1".encode())
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError, ValueError):
        pass
    writer.close()


async def listen(options, tls, quic):
    """Listens on one port for TCP and UDP. Tries again for some time if another program uses the port for either."""
    tickets = {}
    for attempts_left in reversed(range(100)):
        tcp = None
        try:
            tcp = await asyncio.start_server(answer_tcp, "127.0.0.1", options.port, ssl=tls)
            port = tcp.sockets[0].getsockname()[1]
            if options.silent:
                loop = asyncio.get_running_loop()
                return await loop.create_datagram_endpoint(Silence, local_addr=("127.0.0.1", port)), tcp, port
            server = await serve(
                "127.0.0.1", port, configuration=quic, create_protocol=HTTP3,
                session_ticket_fetcher=tickets.get, session_ticket_handler=lambda ticket: tickets.update({ticket.ticket: ticket}),
            )
            server._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            return server, tcp, port
        except OSError as error:
            if tcp:
                tcp.close()
            if error.errno != errno.EADDRINUSE or attempts_left == 0:
                raise
            await asyncio.sleep(0.1)


async def main(options):
    quic = QuicConfiguration(alpn_protocols=H3_ALPN, is_client=False, idle_timeout=options.idle)
    quic.max_data = quic.max_stream_data = 16 << 20
    quic.load_cert_chain(options.certificate)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(options.certificate)
    server, _tcp, port = await listen(options, tls, quic)
    end = asyncio.Event()
    # The parent process may have blocked the signal.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
    tell("port", port)
    await end.wait()
    if not options.silent:
        server.close()
    # The last packets of the connections are sent in the next iteration of the event loop.
    await asyncio.sleep(0)


parser = argparse.ArgumentParser()
parser.add_argument("certificate")
parser.add_argument("--port", type=int, default=0)
parser.add_argument("--idle", type=float, default=60)
parser.add_argument("--silent", action="store_true")
parser.add_argument("--alternative")
options = parser.parse_args()
ALTERNATIVE = f"Alt-Svc: {options.alternative}\r\n" if options.alternative else ""
asyncio.run(main(options))
