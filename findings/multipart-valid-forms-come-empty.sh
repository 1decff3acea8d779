#!/usr/bin/env bash
# Guess:    a parser of forms takes what RFC 2046 and RFC 7578 let a sender write: a preamble, spaces behind a boundary, a field
#           that goes on in the next line, none behind a colon, "Multipart/Form-Data" in capitals. What it does not take, it refuses.
# Version:  Werkzeug 3.1.9, Starlette 1.10.0 with python-multipart 0.0.34, Tornado 6.6.1, aiohttp 3.14.5, Sanic 25.12.1,
#           multipart 2.0.1, Falcon 4.4.0, Django 5.2.19; PyPI.
# Found:    none takes all five, and several lose data without an error: Werkzeug and Tornado read a form in capitals as an empty
#           one, Sanic drops the field behind such a boundary, Falcon and Django make a file a field without a file name.
# Seen:                             Werkzeug  Starlette  Tornado  aiohttp  Sanic    multipart  Falcon   Django
#           plain                   whole     whole      whole    whole    whole    whole      whole    whole
#           preamble                whole     refused    refused  whole    whole    whole      whole    whole
#           boundary, spaces        whole     refused    refused  whole    lost     refused    refused  whole
#           folded field            whole     refused    refused  refused  refused  whole      lost     lost
#           no space behind ":"     whole     whole      whole    whole    whole    whole      lost     whole
#           in capitals             lost      whole      lost     whole    whole    whole      refused  refused
# Matters:  a gateway or a mail library that writes forms its own way works with one framework; in another the handler runs with
#           no field at all, and answers 200.
# Everything is in a temporary folder with a venv of its own, without a server. Exits with 0 if the behaviour is as above, with
# 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check werkzeug==3.1.9 \
    starlette==1.10.0 python-multipart==0.0.34 tornado==6.6.1 aiohttp==3.14.5 sanic==25.12.1 multipart==2.0.1 falcon==4.4.0 \
    django==5.2.19; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - <<'PYTHON'
import asyncio, io, logging, sys
logging.disable(logging.CRITICAL)
import aiohttp, django, falcon, falcon.testing, multipart, tornado.httputil
from aiohttp.base_protocol import BaseProtocol
from django.conf import settings
from django.test import RequestFactory
from sanic.headers import parse_content_header
from sanic.request.form import parse_multipart_form
from starlette.datastructures import Headers
from starlette.formparsers import MultiPartParser
from werkzeug.formparser import parse_form_data

settings.configure()
django.setup()

# Each gives the fields as (name, value), and the files as (name, file name, content).

def environ(kind, body):
    return {
        "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body)), "CONTENT_TYPE": kind, "REQUEST_METHOD": "POST",
    }

def with_werkzeug(kind, body):
    _, fields, files = parse_form_data(environ(kind, body), silent=False)
    return [*fields.items(multi=True), *((name, file.filename, file.read()) for name, file in files.items(multi=True))]

def with_starlette(kind, body):
    async def pieces():
        yield body

    async def parse():
        form = await MultiPartParser(Headers({"content-type": kind}), pieces()).parse()
        return [
            (name, item) if isinstance(item, str) else (name, item.filename, await item.read())
            for name, item in form.multi_items()
        ]

    return asyncio.run(parse())

def with_tornado(kind, body):
    fields, files = {}, {}
    tornado.httputil.parse_body_arguments(kind, body, fields, files)
    return [
        *((name, value.decode()) for name, values in fields.items() for value in values),
        *((name, file.filename, file.body) for name, parts in files.items() for file in parts),
    ]

def with_aiohttp(kind, body):
    async def parse():
        loop = asyncio.get_running_loop()
        stream = aiohttp.StreamReader(BaseProtocol(loop), 65536, loop=loop)
        stream.feed_data(body)
        stream.feed_eof()
        reader, form = aiohttp.MultipartReader({"Content-Type": kind}, stream), []
        while (part := await reader.next()) is not None:
            form.append(
                (part.name, await part.text()) if part.filename is None else (part.name, part.filename, bytes(await part.read()))
            )
        return form

    return asyncio.run(parse())

def with_sanic(kind, body):
    fields, files = parse_multipart_form(body, parse_content_header(kind)[1]["boundary"].encode())
    return [
        *((name, value) for name, values in fields.items() for value in values),
        *((name, file.name, file.body) for name, parts in files.items() for file in parts),
    ]

def with_multipart(kind, body):
    fields, files = multipart.parse_form_data(environ(kind, body), ignore_errors=False)
    return [*fields.iterallitems(), *((name, file.filename, file.file.read()) for name, file in files.iterallitems())]

def with_falcon(kind, body):
    form = []

    class Upload:
        def on_post(self, request, response):
            for part in request.get_media():
                data = part.get_data()
                form.append((part.name, data.decode()) if part.filename is None else (part.name, part.filename, data))

    app = falcon.App()
    app.add_route("/", Upload())
    answer = falcon.testing.simulate_post(app, "/", headers={"Content-Type": kind}, body=body)
    if answer.status_code != 200:
        raise ValueError(answer.text)
    return form

def with_django(kind, body):
    request = RequestFactory().generic("POST", "/", body, kind)
    return [
        *((name, value) for name, values in request.POST.lists() for value in values),
        *((name, file.name, file.read()) for name, files in request.FILES.lists() for file in files),
    ]

parsers = (
    with_werkzeug, with_starlette, with_tornado, with_aiohttp, with_sanic, with_multipart, with_falcon, with_django,
)
kind = "multipart/form-data; boundary=limit"
form = (
    b'--limit\r\nContent-Disposition: form-data; name="item"\r\n\r\nbook\r\n'
    b'--limit\r\nContent-Disposition: form-data; name="photo"; filename="a.txt"\r\n\r\ndata\r\n--limit--\r\n'
)
whole = [("item", "book"), ("photo", "a.txt", b"data")]
cases = {
    "plain": (kind, form), "preamble": (kind, b"A form.\r\n" + form),
    "boundary, spaces": (kind, form.replace(b"--limit\r\n", b"--limit  \r\n")),
    "folded field": (kind, form.replace(b"; filename", b";\r\n filename")),
    "no space": (kind, form.replace(b"Disposition: ", b"Disposition:")),
    "in capitals": (kind.replace("multipart/form-data", "Multipart/Form-Data"), form),
}

def outcome(parser, body):
    try:
        return "whole" if parser(*body) == whole else "lost"
    except Exception:
        return "refused"

seen = {case: [outcome(parser, body) for parser in parsers] for case, body in cases.items()}
print(f"{'':18}", *(f"{parser.__name__[5:]:9}" for parser in parsers))
for case, outcomes in seen.items():
    print(f"{case:18}", *(f"{outcome:9}" for outcome in outcomes))
as_found = [outcomes for outcomes in seen.values()] == [[{"w": "whole", "r": "refused", "l": "lost"}[letter] for letter in row] for row in (
    "wwwwwwww", "wrrwwwww", "wrrwlrrw", "wrrrrwll", "wwwwwwlw", "lwlwwwrr",
)]
print("as found: no parser takes all of a valid form" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
