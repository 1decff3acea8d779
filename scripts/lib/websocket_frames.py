"""Makes random sequences of a server's WebSocket frames, good and bad, and prints what the library `websockets` reads in them.

    websocket_frames.py COUNT SEED

Prints a line of JSON for each sequence: "wire" in hexadecimal digits; "events", each a kind (text, data, ping, pong) and a
payload in hexadecimal digits; "end", a close code, and "server" when it is in the server's close frame or "client" when the
client fails the connection with it; null while the connection is open.
"""
import codecs
import json
import random
import struct
import sys

from websockets.frames import Opcode
from websockets.protocol import OPEN, Protocol, Side

chance = random.Random(int(sys.argv[2]))
TEXTS = ["", "a", "κόσμε", "\U0010ffff", "x" * 125, "y" * 126, "ß" * 400]
SIZES = [0, 1, 125, 126, 3000, 65535, 65536]
# Invalid UTF-8: an overlong form, a surrogate, a number above U+10FFFF, a lone continuation byte, a truncated character.
BAD = [b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80", b"ok\xe2\x82"]


def frame(opcode, payload, final=True, reserved=0, masked=False):
    head = bytes([final << 7 | reserved << 4 | opcode])
    mask = masked << 7
    if len(payload) < 126:
        head += bytes([mask | len(payload)])
    elif len(payload) < 1 << 16:
        head += struct.pack("!BH", mask | 126, len(payload))
    else:
        head += struct.pack("!BQ", mask | 127, len(payload))
    return head + (bytes(4) if masked else b"") + payload


def control():
    # A close frame has at most one fault, because of two faults a reader may report either.
    if chance.random() < 0.12:
        code = chance.choice([999, 1000, 1001, 1003, 1004, 1005, 1006, 1007, 1014, 1015, 1016, 2999, 3000, 4999, 5000])
        payloads = [b"", b"\x03", struct.pack("!H", code) + b"bye", struct.pack("!H", 1000) + chance.choice(BAD)]
        return frame(8, chance.choices(payloads, (2, 1, 5, 1))[0])
    return frame(chance.choice([9, 10]), chance.randbytes(chance.choice([0, 1, 8, 125])))


def message():
    """The frames of a message, with control frames between them."""
    is_text = chance.random() < 0.6
    payload = chance.choice(TEXTS).encode() if is_text else chance.randbytes(chance.choices(SIZES, (40, 40, 40, 40, 4, 1, 1))[0])
    # Bad bytes are in one frame, because after a part of them one reader may fail and another may wait for the rest.
    good = len(payload)
    if is_text and chance.random() < 0.06:
        payload += chance.choice(BAD)
    cuts = sorted(chance.randrange(good + 1) for _ in range(chance.choice([0, 0, 1, 2, 5])))
    pieces = [payload[a:b] for a, b in zip([0] + cuts, cuts + [len(payload)])]
    frames = []
    for index, piece in enumerate(pieces):
        opcode = 0 if index else 1 if is_text else 2
        frames.append([opcode, piece, index == len(pieces) - 1])
    out = []
    for opcode, piece, final in frames:
        fault = chance.random()
        if fault < 0.005:
            opcode = chance.choice([3, 7, 11, 15])
        elif fault < 0.01:
            final = not final
        elif fault < 0.015:
            opcode = chance.choice([0, 1, 2])
        elif fault < 0.02:
            opcode = chance.choice([9, 10])
        out.append(frame(opcode, piece, final, reserved=chance.choice([1, 2, 4]) if 0.02 <= fault < 0.025 else 0,
                         masked=0.025 <= fault < 0.03))
        if chance.random() < 0.3:
            out.append(control())
    return b"".join(out)


def read(wire):
    peer = Protocol(Side.CLIENT, state=OPEN, max_size=None)
    peer.receive_data(wire)
    events, kind, payload, decoder = [], None, b"", None
    for item in peer.events_received():
        if item.opcode in (Opcode.PING, Opcode.PONG):
            events.append([item.opcode.name.lower(), item.data.hex()])
        elif item.opcode is not Opcode.CLOSE:
            if item.opcode is not Opcode.CONT:
                kind, payload, decoder = "text" if item.opcode is Opcode.TEXT else "data", b"", codecs.getincrementaldecoder("utf-8")()
            # The library leaves the check of texts to its caller.
            try:
                kind == "text" and decoder.decode(item.data, final=item.fin)
            except UnicodeDecodeError:
                return events, [1007, "client"]
            payload += item.data
            if item.fin:
                events.append([kind, payload.hex()])
    if peer.close_rcvd is not None:
        return events, [peer.close_rcvd.code, "server"]
    if peer.parser_exc is not None:
        return events, [peer.close_sent.code, "client"]
    return events, None


for _ in range(int(sys.argv[1])):
    wire = b"".join(message() if chance.random() < 0.8 else control() for _ in range(chance.randrange(1, 8)))
    events, end = read(wire)
    print(json.dumps({"wire": wire.hex(), "events": events, "end": end}))
