"""Independent parsers of multipart bodies and sealed messages, for the tests. A WSGI application:

    POST /werkzeug          parses a multipart body with Werkzeug, as Flask does
    POST /python-multipart  parses a multipart body with python-multipart, as FastAPI and Starlette do
    *    /sealed/...        opens a sealed message (Documentation/SealedMessages.md), checks its signature if it has one, and
                            replies with a sealed message

The first two respond with the parts as JSON, with the length and SHA-256 of each. Contents are not stored, so a part may have
any size. The third uses the key "k1" of the bytes 0 to 31, and for signatures the key "0123456789abcdef" twice.
"""

import base64
import hashlib
import hmac
import json
import os
import struct
import time

from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from python_multipart.multipart import MultipartParser, parse_options_header
from werkzeug.formparser import FormDataParser


class Digest:
    """A file object that keeps only the length and digest of what is written."""

    def __init__(self):
        self.size = 0
        self.sha256 = hashlib.sha256()

    def write(self, data):
        self.size += len(data)
        self.sha256.update(data)
        return len(data)

    def seek(self, offset, whence=0):
        return 0

    def tell(self):
        return self.size

    def close(self):
        pass


def description(name, file_name, content_type, digest):
    return {
        "name": name, "fileName": file_name, "contentType": content_type, "size": digest.size,
        "sha256": digest.sha256.hexdigest(),
    }


def by_werkzeug(environ):
    parser = FormDataParser(
        stream_factory=lambda **_: Digest(), max_form_memory_size=1 << 24, max_form_parts=10000, silent=False)
    _, form, files = parser.parse_from_environ(environ)
    fields = [[name, value] for name, values in form.lists() for value in values]
    return fields, [
        description(file.name, file.filename, file.content_type, file.stream)
        for _, group in files.lists() for file in group
    ]


def by_python_multipart(environ):
    _, options = parse_options_header(environ["CONTENT_TYPE"])
    fields, files, part = [], [], {}

    def begin():
        part.update(header=b"", value=b"", headers={}, digest=Digest(), text=bytearray())

    def header_end():
        part["headers"][part["header"].lower()] = part["value"]
        part.update(header=b"", value=b"")

    def headers_finished():
        _, part["options"] = parse_options_header(part["headers"][b"content-disposition"])

    def data(bytes_, start, end):
        part["digest"].write(bytes_[start:end])
        if b"filename" not in part["options"]:
            part["text"] += bytes_[start:end]

    def end():
        name = part["options"][b"name"].decode()
        if b"filename" in part["options"]:
            content_type = part["headers"].get(b"content-type", b"").decode()
            files.append(description(name, part["options"][b"filename"].decode(), content_type, part["digest"]))
        else:
            fields.append([name, part["text"].decode()])

    parser = MultipartParser(options[b"boundary"], {
        "on_part_begin": begin, "on_part_data": data, "on_part_end": end, "on_header_end": header_end,
        "on_headers_finished": headers_finished,
        "on_header_field": lambda b, s, e: part.update(header=part["header"] + b[s:e]),
        "on_header_value": lambda b, s, e: part.update(value=part["value"] + b[s:e]),
    })
    while chunk := environ["wsgi.input"].read(1 << 20):
        parser.write(chunk)
    parser.finalize()
    return fields, files


SEALED = "application/vnd.lat.sealed"
CIPHERS = {1: AESGCM(bytes(range(32))), 2: ChaCha20Poly1305(bytes(range(32)))}


def open_message(message, method, target):
    """The cipher's number, the nonce, the media type and the content of a sealed request."""
    if message[:5] != b"LATS\x01" or message[6] != 1:
        raise ValueError("no sealed request of version 1")
    cipher, rest = message[5], message[7:]
    key_id, rest = rest[1:1 + rest[0]], rest[1 + rest[0]:]
    content_type, rest = rest[1:1 + rest[0]], rest[1 + rest[0]:]
    (milliseconds,), nonce, sealed = struct.unpack(">q", rest[:8]), rest[8:20], rest[20:]
    if key_id != b"k1" or abs(time.time() - milliseconds / 1000) > 300:
        raise ValueError(f"key {key_id!r}, time {milliseconds}")
    head = message[:len(message) - len(sealed)]
    content = CIPHERS[cipher].decrypt(nonce, sealed, head + f"{method}\n{target}\n".encode())
    return cipher, nonce, content_type.decode(), content


def seal_reply(content, cipher, request_nonce, method, target, status):
    content_type, nonce = b"application/json", os.urandom(12)
    head = (b"LATS\x01" + bytes([cipher, 2, 2]) + b"k1" + bytes([len(content_type)]) + content_type
            + struct.pack(">q", int(time.time() * 1000)) + nonce + request_nonce)
    associated = head + f"{method}\n{target}\n{status}\n".encode()
    return head + CIPHERS[cipher].encrypt(nonce, content, associated)


def has_right_signature(environ, method, target, body):
    def field(name):
        return environ.get("HTTP_" + name.upper().replace("-", "_"), "")

    if field("X-Signature-Body") not in ("UNSIGNED", hashlib.sha256(body).hexdigest()):
        return False
    lines = ["LAT-HMAC-SHA256", method, target, environ["HTTP_HOST"].lower(), field("X-Signature-Time"),
             field("X-Signature-Nonce")]
    for name in filter(None, field("X-Signature-Fields").split(";")):
        value = environ["CONTENT_TYPE"] if name == "content-type" else field(name)
        lines.append(f"{name}:{value.strip()}")
    text = "\n".join([*lines, field("X-Signature-Body")])
    code = hmac.new(b"0123456789abcdef" * 2, text.encode(), hashlib.sha256).digest()
    return hmac.compare_digest(code, base64.b64decode(field("X-Signature")))


def sealed_app(environ, start_response):
    method, target, body = environ["REQUEST_METHOD"], environ["RAW_URI"], environ["wsgi.input"].read()
    in_body = environ.get("CONTENT_TYPE") == SEALED
    message = body if in_body else base64.b64decode(environ["HTTP_SEALED_MESSAGE"])
    cipher, nonce, content_type, content = open_message(message, method, target)
    reply = {"method": method, "contentType": content_type, "content": content.decode()}
    if "HTTP_X_SIGNATURE" in environ:
        reply["signature"] = has_right_signature(environ, method, target, body)
    sealed = seal_reply(json.dumps(reply).encode(), cipher, nonce, method, target, 200)
    start_response("200 OK", [("Content-Type", SEALED), ("Content-Length", str(len(sealed)))])
    return [sealed]


def app(environ, start_response):
    parse = {"/werkzeug": by_werkzeug, "/python-multipart": by_python_multipart}.get(environ["PATH_INFO"])
    is_sealed = environ["PATH_INFO"].startswith("/sealed/")
    if parse is None and not is_sealed:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"forms"]
    try:
        if is_sealed:
            return sealed_app(environ, start_response)
        fields, files = parse(environ)
    except Exception as error:
        start_response("400 Bad Request", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{type(error).__name__}: {error}".encode()]
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({"fields": fields, "files": files}).encode()]
