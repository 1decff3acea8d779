"""An HTTP/2 server over TLS with a selectable behaviour, for the tests:
http2_faults.py BEHAVIOUR CERTIFICATE [ADDRESS PORT].

Prints its port, then a line for each request that it processed (METHOD PATH CONNECTION BODY-LENGTH) or refused, and for each
flood.
"""
import socket
import ssl
import sys
import threading
import time

import h2.config
import h2.connection
import h2.events
import h2.settings
from h2.errors import ErrorCodes
from hyperframe.frame import DataFrame, PriorityFrame, RstStreamFrame

behaviour, certificate, *place = sys.argv[1:]
lock = threading.Lock()
connections = 0
requests = 0


def say(*words):
    with lock:
        print(*words, flush=True)


class Connection:
    def __init__(self, sock, number):
        self.sock, self.number = sock, number
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        self.open = {}  # the method, path and body length of each stream
        self.bodies = {}  # the letter that each body repeats, and the number of bytes left
        self.is_ending = False
        self.processed = 0

    def run(self):
        if behaviour == "streams-0":
            self.h2.local_settings.max_concurrent_streams = 0
        self.h2.initiate_connection()
        self.flush()
        while not self.is_ending:
            data = self.sock.recv(65536)
            if not data:
                return
            for event in self.h2.receive_data(data):
                self.handle(event)
            self.send_bodies()
            self.flush()
        # Closing at once would reset the connection before the client has read everything.
        self.sock.settimeout(10)
        while self.sock.recv(65536):
            pass

    def flush(self):
        self.sock.sendall(self.h2.data_to_send())

    def handle(self, event):
        if self.is_ending:
            return
        if isinstance(event, h2.events.RequestReceived):
            fields = {bytes(name).decode(): bytes(value).decode() for name, value in event.headers}
            self.open[event.stream_id] = [fields[":method"], fields[":path"], 0]
            self.began(event.stream_id)
        elif isinstance(event, h2.events.DataReceived) and behaviour.startswith("reset-early"):
            # As in real servers, what is not read does not use up the connection's window.
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.DataReceived) and event.stream_id in self.open:
            self.open[event.stream_id][2] += len(event.data)
            if behaviour != "no-window" and event.flow_controlled_length:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.PingAckReceived):
            for stream in self.open:
                self.h2.increment_flow_control_window(1 << 20, stream)
        elif isinstance(event, h2.events.StreamReset):
            self.open.pop(event.stream_id, None)
            self.bodies.pop(event.stream_id, None)
        elif isinstance(event, h2.events.StreamEnded) and event.stream_id in self.open:
            self.ended(event.stream_id)

    def began(self, stream):
        """Handles a received head, and refuses the stream if that is the behaviour."""
        global requests
        with lock:
            requests += 1
            number = requests
        method, path, _ = self.open[stream]
        if behaviour == "refuse-second" and number % 2 == 0 or behaviour == "refuse-all":
            self.refuse(stream)
        elif behaviour == "needs-http1":
            self.refuse(stream, ErrorCodes.HTTP_1_1_REQUIRED)
        elif behaviour == "needs-http1-late":
            say("processed", method, path, self.number, 0)
            self.h2.send_headers(stream, [(":status", "200")])
            self.h2.send_data(stream, b"part of ")
            # In a packet of its own, so that the client has read the part.
            self.flush()
            time.sleep(0.1)
            self.refuse(stream, ErrorCodes.HTTP_1_1_REQUIRED)
        elif behaviour == "goaway-error" and self.number == 1:
            self.go_away(0, ErrorCodes.ENHANCE_YOUR_CALM)
        elif behaviour == "goaway-all":
            self.go_away(0)
        elif behaviour == "goaway-second" and self.number == 1 and stream > 1:
            self.go_away(1)
        elif behaviour.startswith("reset-early"):
            self.answer_and_reset(stream)
        elif behaviour.startswith("answer-") and method == "POST":
            self.answer(stream, path)
        elif behaviour == "goaway-after-effect" and method == "POST" and self.number == 1:
            say("processed", method, path, self.number, 0)
            self.go_away(stream)

    def refuse(self, stream, code=ErrorCodes.REFUSED_STREAM):
        method, path, _ = self.open.pop(stream)
        say("refused", method, path, self.number)
        self.h2.reset_stream(stream, code)

    def answer_and_reset(self, stream):
        """Sends the response that the path /CODE/SIZE/LENGTH/END describes, and RST_STREAM in the same write or the next."""
        method, path, length = self.open.pop(stream)
        say("processed", method, path, self.number, length)
        _, code, size, announced, end = path.split("/")
        headers = [(":status", "200")] + ([("content-length", announced)] if announced != "-" else [])
        self.h2.send_headers(stream, headers)
        left = int(size)
        while left > 16_000:
            self.h2.send_data(stream, b"x" * 16_000)
            left -= 16_000
        self.h2.send_data(stream, b"x" * left, end_stream=end == "end")
        # The library sends no RST_STREAM after END_STREAM, and forgets a stream that it has reset.
        reset = RstStreamFrame(stream, error_code=ErrorCodes[code]).serialize()
        if behaviour.endswith("split"):
            self.flush()
        self.sock.sendall(self.h2.data_to_send() + reset)

    def answer(self, stream, path):
        """Sends the response that the path /STATUS/LENGTH describes before the request's body, which is read on."""
        _, status, length = path.split("/")
        headers = [(":status", status)] + ([("content-length", length)] if length != "-" else [])
        self.h2.send_headers(stream, headers, end_stream=status == "204")
        if status != "204":
            self.h2.send_data(stream, b"yes", end_stream=True)
        if behaviour == "answer-before-window":
            # The client may send when it has read the response.
            self.h2.ping(b"response")

    def flood(self, stream, path):
        """Sends frames of the kind that the path names, which carry nothing, until the client closes; at most 25 s."""
        self.h2.send_headers(stream, [(":status", "200")])
        self.flush()
        frame = {"/data": DataFrame(stream), "/priority": PriorityFrame(stream + 2, depends_on=1)}[path]
        frames = frame.serialize() * 2000
        say("floods", path)
        end = time.monotonic() + 25
        while time.monotonic() < end:
            self.sock.sendall(frames)

    def go_away(self, last, code=ErrorCodes.NO_ERROR):
        for stream in [stream for stream in self.open if stream > last]:
            method, path, _ = self.open.pop(stream)
            say("refused", method, path, self.number)
        self.h2.close_connection(code, last_stream_id=last)
        self.is_ending = True

    def ended(self, stream):
        if behaviour.startswith("answer-") and self.open[stream][0] == "POST":
            method, path, length = self.open.pop(stream)
            return say("processed", method, path, self.number, length)
        if behaviour.startswith("reset"):
            return self.answer_and_reset(stream)
        method, path, length = self.open.pop(stream)
        if behaviour == "flood":
            return self.flood(stream, path)
        say("processed", method, path, self.number, length)
        if behaviour == "lost-after-2" and self.number == 1:
            self.processed += 1
            if self.processed == 2:
                raise ConnectionAbortedError
            return
        headers = [(":status", "200")]
        if behaviour.startswith("head-"):
            size = int(behaviour.removeprefix("head-"))
            # Each field is below the limit of any client.
            headers += [(f"x-{n}", "a" * min(16_000, size - n)) for n in range(0, size, 16_000)]
        if behaviour == "one-stream":
            # Allows one stream at a time from now on. Streams that are open already are served one after the other.
            self.h2.update_settings({h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 1})
        if behaviour == "answer-before-window":
            # From the next stream on.
            self.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
        if behaviour == "bodies" and path != "/":
            if path != "/never":
                # Without a length libcurl 7.88 may miss the end of a paused stream.
                _, letter, size = path.split("/")
                self.h2.send_headers(stream, headers + [("content-length", size)])
                self.bodies[stream] = (letter, int(size))
            return
        self.h2.send_headers(stream, headers)
        self.h2.send_data(stream, f"{method} {length}".encode(), end_stream=True)
        if behaviour == "goaway-each":
            self.go_away(stream)

    def send_bodies(self):
        """Sends as much as the client accepts now, in one write."""
        for stream, (letter, left) in list(self.bodies.items()):
            while stream in self.bodies:
                size = min(left, self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
                if size == 0 and left > 0:
                    break
                left -= size
                self.bodies[stream] = (letter, left)
                self.h2.send_data(stream, letter.encode() * size, end_stream=left == 0)
                if left == 0:
                    del self.bodies[stream]


def answer_in_http1(sock, number):
    with sock.makefile("rb") as lines:
        method, path, _ = lines.readline().decode().split()
        length = 0
        while line := lines.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        lines.read(length)
    say("processed", method, path, number, length)
    body = f"{method} {length}"
    sock.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())


def serve(sock, number):
    try:
        sock = context.wrap_socket(sock, server_side=True)
        if sock.selected_alpn_protocol() == "h2":
            Connection(sock, number).run()
        else:
            answer_in_http1(sock, number)
    except (OSError, h2.exceptions.ProtocolError) as error:
        say("ended", type(error).__name__, error)
    finally:
        sock.close()


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate)
context.set_alpn_protocols(["h2"])
address, port = place or ("127.0.0.1", 0)
listener = socket.create_server((address, int(port)), backlog=512)
say(listener.getsockname()[1])
while True:
    sock, _ = listener.accept()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connections += 1
    threading.Thread(target=serve, args=(sock, connections), daemon=True).start()
