#!/usr/bin/env bash
# Guess:    a body of Content-Encoding dcz (RFC 9842) is a skippable frame of 40 bytes with the hash of the dictionary, then a frame
#           of zstd: a decoder of zstd that has the dictionary skips the first and decodes the other, so the header needs no
#           code. A dictionary that was given as raw is raw (type=raw, RFC 9842 §2.1.4), whatever its bytes are.
# Version:  zstandard 0.25.0, pyzstd 0.20.0, backports.zstd 1.8.0 (the compression.zstd of Python 3.14); PyPI.
# Found:    the decoders that take pieces, as a client uses them, give nothing for the whole body, and say that the end is reached: the
#           header is all that they have decoded. decompress() of zstandard fails; that of the other two is right.
#           ZstdDict(…, is_raw=True) is not raw when the bytes look like a trained dictionary (37 A4 30 EC): frames get its ID
#           and a client that takes the bytes as raw, as zstandard with DICT_TYPE_RAWCONTENT, fails. When only the
#           first four bytes are so, both packages fail to compress for want of memory, they say.
# Seen:     zstandard decompressobj(), ZstdDecompressor of pyzstd and of backports.zstd    0 bytes, eof
#           zstandard decompress()                                                         ZstdError
#           zstandard stream_reader(); decompress() of pyzstd and backports.zstd           all bytes
#           trained dictionary, raw: zstandard's frame to all three                        all bytes, no dictionary ID
#           trained dictionary, is_raw: their frame to zstandard, RAWCONTENT               "Dictionary mismatch"
#           raw dictionary of 37 A4 30 EC and text, is_raw: compress()                     "Allocation error"
# Matters:  an empty page with status 200; `zstd --train` is how many make the dictionaries that they serve, and one side then reads
#           them as raw, the other not.
# Everything is in a temporary folder with a venv of its own. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    zstandard==0.25.0 pyzstd==0.20.0 backports.zstd==1.8.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" -W ignore - <<'PYTHON'
import hashlib, io, random, struct, sys
import pyzstd, zstandard
from backports import zstd

plain = b"function show(item) { return '<li class=\"entry\">' + item.title + '</li>'; }\n" * 40
page = plain.replace(b"entry", b"entry new", 3) + b"more();\n"

def raw(dictionary):
    return zstandard.ZstdCompressionDict(dictionary, dict_type=zstandard.DICT_TYPE_RAWCONTENT)

def decoder(dictionary):
    return zstandard.ZstdDecompressor(dict_data=raw(dictionary))

def result(call):
    try:
        return call()
    except Exception as error:
        return next((text for text in ("Dictionary mismatch", "Allocation error") if text in str(error)), type(error).__name__)

def in_pieces(decoding):
    return decoding.decompress(body), decoding.eof

frame = zstandard.ZstdCompressor(dict_data=raw(plain)).compress(page)
body = struct.pack("<II", 0x184D2A5E, 32) + hashlib.sha256(plain).digest() + frame
bodies = {
    "zstandard decompressobj()": lambda: in_pieces(decoder(plain).decompressobj()),
    "pyzstd ZstdDecompressor": lambda: in_pieces(pyzstd.ZstdDecompressor(pyzstd.ZstdDict(plain, is_raw=True))),
    "backports.zstd ZstdDecompressor": lambda: in_pieces(zstd.ZstdDecompressor(zstd_dict=zstd.ZstdDict(plain, is_raw=True))),
    "zstandard decompress()": lambda: decoder(plain).decompress(body),
    "zstandard stream_reader()": lambda: decoder(plain).stream_reader(io.BytesIO(body)).read() == page,
    "pyzstd decompress()": lambda: pyzstd.decompress(body, pyzstd.ZstdDict(plain, is_raw=True)) == page,
    "backports.zstd decompress()": lambda: zstd.decompress(body, zstd_dict=zstd.ZstdDict(plain, is_raw=True)) == page,
}
first = {name: result(call) for name, call in bodies.items()}

random.seed(1)
words = [b"function ", b"show(", b"item.", b"title", b"<li>"]
samples = [b"".join(random.choice([*words, b"%d" % random.randrange(999)]) for _ in range(200)) for _ in range(300)]
trained = zstandard.train_dictionary(4096, samples).as_bytes()
text = samples[3] + trained[2000:2600]

def decoded(made):
    """What the three make of a frame, each told that the dictionary is raw."""
    return [
        result(lambda: decoder(trained).decompress(made) == text),
        result(lambda: pyzstd.decompress(made, pyzstd.ZstdDict(trained, is_raw=True)) == text),
        result(lambda: zstd.decompress(made, zstd_dict=zstd.ZstdDict(trained, is_raw=True)) == text),
    ]

frames = {
    "zstandard": zstandard.ZstdCompressor(dict_data=raw(trained)).compress(text),
    "pyzstd": pyzstd.compress(text, None, pyzstd.ZstdDict(trained, is_raw=True)),
    "backports.zstd": zstd.compress(text, zstd_dict=zstd.ZstdDict(trained, is_raw=True)),
}
second = {name: (zstandard.get_frame_parameters(made).dict_id != 0, decoded(made)) for name, made in frames.items()}

magic = b"\x37\xa4\x30\xec" + plain
third = {
    "zstandard": result(lambda: decoder(magic).decompress(zstandard.ZstdCompressor(dict_data=raw(magic)).compress(page)) == page),
    "pyzstd": result(lambda: pyzstd.compress(page, None, pyzstd.ZstdDict(magic, is_raw=True))),
    "backports.zstd": result(lambda: zstd.compress(page, zstd_dict=zstd.ZstdDict(magic, is_raw=True))),
}
for name, found in first.items():
    print(f"dcz, {name:31}", found)
for name, (has_id, found) in second.items():
    print(f"trained, of {name:14}", "with an ID" if has_id else "without an ID", found)
print("37 A4 30 EC and text:", third)
as_found = (
    first == dict(zip(bodies, [(b"", True)] * 3 + ["ZstdError"] + [True] * 3)) and trained[:4] == magic[:4]
    and second == {
        "zstandard": (False, [True] * 3), "pyzstd": (True, ["Dictionary mismatch", True, True]),
        "backports.zstd": (True, ["Dictionary mismatch", True, True]),
    }
    and third == {"zstandard": True, "pyzstd": "Allocation error", "backports.zstd": "Allocation error"}
)
print("as found: the header is the body, and raw is not raw" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
