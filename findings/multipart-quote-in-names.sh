#!/usr/bin/env bash
# Guess:    a quote in the name of an uploaded file arrives: browsers have sent %22 for years (WHATWG), mail programs \"
#           (RFC 2045). A parser of forms knows at least the first, and the five usual ones agree.
# Version:  Werkzeug 3.1.9, Starlette 1.10.0 with python-multipart 0.0.34, Tornado 6.6.1, aiohttp 3.14.5, Sanic 25.12.1; PyPI.
# Found:    no spelling works in all. %22 is a quote to Werkzeug and Sanic only; the others keep the three characters. \" is
#           a quote to all but Sanic, which ends the name at it and loses the rest.
# Seen:     filename="a%22b.txt"    Werkzeug, Sanic  a"b.txt       Starlette, Tornado, aiohttp  a%22b.txt
#           filename="a\"b.txt"     Sanic  a\                       the other four  a"b.txt
# Matters:  a client cannot know which one the server reads. A name without quotes, or one the app makes itself, is the only one
#           that arrives everywhere.
# Everything is in a temporary folder with a venv of its own, without a server. Exits with 0 if the behaviour is as above, with
# 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check werkzeug==3.1.9 \
    starlette==1.10.0 python-multipart==0.0.34 tornado==6.6.1 aiohttp==3.14.5 sanic==25.12.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - <<'PYTHON'
import asyncio, io, sys
import aiohttp, tornado.httputil
from aiohttp.base_protocol import BaseProtocol
from sanic.request.form import parse_multipart_form
from starlette.datastructures import Headers
from starlette.formparsers import MultiPartParser as OfStarlette
from werkzeug.formparser import MultiPartParser as OfWerkzeug

kind = "multipart/form-data; boundary=limit"

def with_werkzeug(body):
    return OfWerkzeug().parse(io.BytesIO(body), b"limit", len(body))[1]["file"].filename

def with_starlette(body):
    async def pieces():
        yield body

    async def parse():
        return (await OfStarlette(Headers({"content-type": kind}), pieces()).parse())["file"].filename

    return asyncio.run(parse())

def with_tornado(body):
    fields, files = {}, {}
    tornado.httputil.parse_multipart_form_data(b"limit", body, fields, files)
    return files["file"][0].filename

def with_aiohttp(body):
    async def parse():
        loop = asyncio.get_running_loop()
        stream = aiohttp.StreamReader(BaseProtocol(loop), 65536, loop=loop)
        stream.feed_data(body)
        stream.feed_eof()
        return (await aiohttp.MultipartReader({"Content-Type": kind}, stream).next()).filename

    return asyncio.run(parse())

def with_sanic(body):
    return parse_multipart_form(body, b"limit")[1].get("file").name

parsers = (with_werkzeug, with_starlette, with_tornado, with_aiohttp, with_sanic)

def names(spelled):
    head = f'Content-Disposition: form-data; name="file"; filename="{spelled}"\r\nContent-Type: text/plain'
    body = f"--limit\r\n{head}\r\n\r\ndata\r\n--limit--\r\n".encode()
    found = [parser(body) for parser in parsers]
    print(spelled, "->", ", ".join(f"{parser.__name__[5:]} {name}" for parser, name in zip(parsers, found)))
    return found

as_found = (
    names("plain.txt") == ["plain.txt"] * 5
    and names("a%22b.txt") == ['a"b.txt', "a%22b.txt", "a%22b.txt", "a%22b.txt", 'a"b.txt']
    and names(r"a\"b.txt") == ['a"b.txt'] * 4 + ["a\\"]
)
print("as found: no spelling of a quote arrives everywhere" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
