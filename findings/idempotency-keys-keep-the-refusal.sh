#!/usr/bin/env bash
# Guess:    a retry with the same Idempotency-Key gets the stored response when the call was done, and is a new try when it was
#           not: 503 and 429 with Retry-After say that it was not. Middleware that promises "once" does so for each success.
# Version:  fastapi-idempotency 0.1.1, fastapi-idempotency-key 0.1.1, fastidempotent 0.1.0, ichido 0.1.0, idemkit 1.0.2,
#           asgi-idempotency-header 0.2.0, as their manuals say to add them; Starlette 1.10.0, fakeredis 2.41.0; PyPI.
# Found:    four of six store 429 and three 503, for one hour to a day: each retry after the time of Retry-After gets the refusal
#           again. Three run a call twice that has succeeded: when it answered 204 (two of them), or with a cookie.
# Seen:     the handler runs for the retry after    503    429    201    204    201 with Set-Cookie
#           fastapi-idempotency                     yes    no     no     no     yes
#           fastapi-idempotency-key                 yes    yes    no     no     no
#           fastidempotent                          no     no     no     no     no
#           ichido                                  no     no     no     no     no
#           idemkit                                 yes    yes    no     yes    no
#           asgi-idempotency-header                 no     no     no     yes    no, and the repeated 201 has no Location
# Matters:  a client that repeats with the same key, as it must, never gets through after a 503; one that takes a new key for
#           it orders twice. Whether a retry is safe depends on the status that the client has not seen.
# Everything is in a temporary folder with a venv of its own, without a server. Exits with 0 if the behaviour is as above, with
# 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check \
    fastapi==0.165.0 starlette==1.10.0 httpx==0.28.1 fakeredis==2.41.0 redis==8.1.0 fastapi-idempotency==0.1.1 \
    fastapi-idempotency-key==0.1.1 fastidempotent==0.1.0 ichido==0.1.0 idemkit==1.0.2 asgi-idempotency-header==0.2.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - <<'PYTHON'
import asyncio, logging, sys, warnings
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
import fakeredis, fastapi_idempotency, fastapi_idempotency_key, fastidempotent, httpx, ichido, idemkit
from idempotency_header_middleware import IdempotencyHeaderMiddleware
from idempotency_header_middleware.backends import MemoryBackend
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

middleware = {
    "fastapi-idempotency": lambda: (fastapi_idempotency.IdempotencyMiddleware, {}),
    "fastapi-idempotency-key": lambda: (fastapi_idempotency_key.IdempotencyMiddleware, {}),
    "fastidempotent": lambda: (fastidempotent.IdempotencyMiddleware, {"backend": fastidempotent.MemoryBackend(ttl=3600)}),
    "ichido": lambda: (ichido.IchidoMiddleware, {
        "store": ichido.RedisIdempotencyStore(fakeredis.FakeAsyncRedis(decode_responses=True)),
    }),
    "idemkit": lambda: (idemkit.IdempotencyMiddleware, {"backend": idemkit.InMemoryBackend()}),
    "asgi-idempotency-header": lambda: (IdempotencyHeaderMiddleware, {"backend": MemoryBackend()}),
}
wait = {"Retry-After": "1"}
responses = {
    "503": lambda: JSONResponse({}, 503, wait), "429": lambda: JSONResponse({}, 429, wait),
    "201": lambda: JSONResponse({}, 201, {"Location": "/orders/1"}), "204": lambda: Response(status_code=204),
    "201 with Set-Cookie": lambda: JSONResponse({}, 201, {"Set-Cookie": "seen=1"}),
}

async def called_twice(name, respond):
    """How often the handler runs for two equal calls with one key, and the two responses."""
    runs = 0

    async def order(request):
        nonlocal runs
        runs += 1
        return respond()

    shop = Starlette(routes=[Route("/orders", order, methods=["POST"])])
    kind, options = middleware[name]()
    shop.add_middleware(kind, **options)
    fields = {"Idempotency-Key": "3f0f2a52-7c3f-4f0e-9d1c-0a7f6f9b5c11"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(shop), base_url="http://shop.example") as client:
        answers = [await client.post("/orders", json={"item": 1}, headers=fields) for _ in range(2)]
    return runs, answers

async def seen():
    table, located = {}, {}
    for name in middleware:
        table[name] = ""
        for case, respond in responses.items():
            runs, answers = await called_twice(name, respond)
            if len({answer.status_code for answer in answers}) != 1:
                print(name, case, [answer.status_code for answer in answers])
            table[name] += "2" if runs == 2 else "1"
            if case == "201":
                located[name] = "Location" in answers[0].headers, "Location" in answers[1].headers
    return table, located

table, located = asyncio.run(seen())
print("how often the handler runs for two calls with one key, by its response:", ", ".join(responses))
for name, runs in table.items():
    print(f"    {name:24}", *runs, "  Location:", *located[name])
as_found = table == {
    "fastapi-idempotency": "21112", "fastapi-idempotency-key": "22111", "fastidempotent": "11111", "ichido": "11111",
    "idemkit": "22121", "asgi-idempotency-header": "11121",
} and [name for name, kept in located.items() if kept != (True, True)] == ["asgi-idempotency-header"]
print("as found: the refusal is kept, and some successes are not" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
