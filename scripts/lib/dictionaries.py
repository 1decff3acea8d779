"""Compression dictionaries (RFC 9842).

dictionaries.py serve: a server on a free port of 127.0.0.1. GET /app/N/main.js is version N of a program, of which each differs
a little from the others, and each serves as a dictionary for all. It is coded with zstandard, in `dcz` where the request offers a
version that was sent. The output lines are "port N", and "sent PATH CODING BYTES of BYTES" for each response. A request that
breaks a rule of the RFC gets 400.

dictionaries.py patterns FILE: reads lines of JSON, [pattern, base URL, URL], and prints for each whether a URL Pattern matches:
"true", "false", or "invalid".
"""

import asyncio
import hashlib
import json
import sys

import http_sf
import urlpattern
import zstandard
from aiohttp import web

known = {}


def program(version):
    lines = [f"export function handler{n}(event) {{ return route(event, '{hashlib.sha256(b'%d' % n).hexdigest()}'); }}"
             for n in range(4000)]
    lines[int(version) % len(lines)] = f"export const version = {version};"
    return "\n".join(lines).encode()


def offered(request, codings):
    field = request.headers.get("Available-Dictionary")
    if field is None:
        if "dcz" in codings or "Dictionary-ID" in request.headers:
            raise web.HTTPBadRequest(text="dcz or Dictionary-ID without Available-Dictionary")
        return None
    digest, parameters = http_sf.parse(field.encode(), tltype="item")
    if parameters or not isinstance(digest, bytes) or len(digest) != 32 or "dcz" not in codings:
        raise web.HTTPBadRequest(text=f"Available-Dictionary: {field}")
    if digest not in known:
        return None
    identity, _ = http_sf.parse(request.headers["Dictionary-ID"].encode(), tltype="item")
    if identity != known[digest][0]:
        raise web.HTTPBadRequest(text=f"Dictionary-ID: {identity}")
    return digest


async def main_js(request):
    version = request.match_info["version"]
    body = program(version)
    codings = [coding.strip() for coding in request.headers.get("Accept-Encoding", "").split(",")]
    digest = offered(request, codings)
    headers = {
        "Cache-Control": "max-age=3600", "ETag": f'"{version}"', "Vary": "accept-encoding, available-dictionary",
        "Use-As-Dictionary": f'match="/app/*/main.js", match-dest=("script"), id="version {version}"'}
    if digest:
        content = known[digest][1]
        dictionary = zstandard.ZstdCompressionDict(content, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
        coded = bytes.fromhex("5e2a4d1820000000") + digest
        coded += zstandard.ZstdCompressor(level=3, dict_data=dictionary, write_checksum=True).compress(body)
        headers["Content-Encoding"] = coding = "dcz"
    elif "zstd" in codings:
        coded = zstandard.ZstdCompressor(level=3).compress(body)
        headers["Content-Encoding"] = coding = "zstd"
    else:
        coded, coding = body, "identity"
    known[hashlib.sha256(body).digest()] = (f"version {version}", body)
    print("sent", request.path, coding, len(coded), "of", len(body), flush=True)
    return web.Response(body=coded, content_type="text/javascript", headers=headers)


async def serve():
    app = web.Application()
    app.router.add_get("/app/{version}/main.js", main_js)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print("port", site._server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


def patterns():
    for line in open(sys.argv[2], encoding="utf-8"):
        pattern, base, url = json.loads(line)
        try:
            print("true" if urlpattern.URLPattern(pattern, base).test(url) else "false")
        except Exception:  # The package throws its own types.
            print("invalid")


if sys.argv[1] == "patterns":
    patterns()
else:
    asyncio.run(serve())
