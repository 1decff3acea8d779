#!/usr/bin/env bash
# Guess:    the response cache of a web framework gives what the application has answered: its status and its fields. It keeps no
#           503, nothing with no-store, and what has a Vary only for requests that are alike in that. Its ETag is the same in each
#           process.
# Version:  fastapi-cache2 0.2.2 with FastAPI 0.165.0, Litestar 2.25.0, Flask-Caching 2.5.1 with Flask 3.1.3, Django 5.2.19 (the
#           newest one for Python 3.11), from PyPI.
# Found:    fastapi-cache2 keeps the body alone: a 503 with Retry-After is a 200 with max-age from the second call on, and a 203
#           too, without the fields. The ETag is a number without quotes that another process or a restart makes another one.
#           fastapi-cache2, Litestar and Flask-Caching keep a response with no-store, and give the one of another language to all.
#           Flask-Caching keeps a 503 as well. Django does none of that.
# Seen:     what the second call gets            503           no-store   another Accept-Language, with Vary
#           fastapi-cache2                       200, stored   stored     the first language
#           Flask-Caching                        503, stored   stored     the first language
#           Litestar                             503, anew     stored     the first language
#           Django                               503, anew     anew       its own
# Matters:  an error document is a success for a minute, and for the caches in front as well, because it says max-age. Pages have
#           the language of whoever came first.
# Everything is in a temporary folder with a venv of its own, without a network. Exits with 0 if the behaviour is as above, with
# 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check fastapi-cache2==0.2.2 \
    fastapi==0.165.0 litestar==2.25.0 Flask-Caching==2.5.1 Flask==3.1.3 Django==5.2.19 httpx==0.28.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

cat > "$work/try.py" <<'PYTHON'
import asyncio, itertools, json, logging, subprocess, sys

import django, django.conf, fastapi, flask, flask_caching, httpx, litestar
from fastapi_cache import FastAPICache
from fastapi_cache.backends.inmemory import InMemoryBackend
from fastapi_cache.decorator import cache

calls = itertools.count(1)

def answer(path, language):
    """What each application answers: body, fields, status."""
    fields = {"X-Total-Count": "3"}
    fields |= {
        "fault": {"Retry-After": "5"}, "private": {"Cache-Control": "no-store"},
        "page": {"Vary": "Accept-Language", "Content-Language": language}, "copy": {}, "same": {},
    }[path]
    body = {} if path == "same" else {"call": next(calls), "language": language}
    return body, fields, {"fault": 503, "copy": 203}.get(path, 200)

FastAPICache.init(InMemoryBackend())
with_fastapi = fastapi.FastAPI()

@with_fastapi.get("/{path}")
@cache(expire=60)
async def fastapi_page(path: str, request: fastapi.Request, response: fastapi.Response):
    body, fields, response.status_code = answer(path, request.headers["Accept-Language"])
    response.headers.update(fields)
    return body

@litestar.get("/{path:str}", cache=60)
async def litestar_page(path: str, request: litestar.Request) -> litestar.Response:
    body, fields, status = answer(path, request.headers["Accept-Language"])
    return litestar.Response(body, headers=fields, status_code=status)

with_litestar = litestar.Litestar([litestar_page], logging_config=None)
with_flask = flask.Flask("pages")
flask_cache = flask_caching.Cache(with_flask, config={"CACHE_TYPE": "SimpleCache"})

@with_flask.get("/<path>")
@flask_cache.cached(timeout=60)
def flask_page(path):
    body, fields, status = answer(path, flask.request.headers["Accept-Language"])
    return flask.Response(json.dumps(body), status, fields)

django.conf.settings.configure(
    ROOT_URLCONF=__name__, SECRET_KEY="test", ALLOWED_HOSTS=["*"], USE_I18N=False, LOGGING_CONFIG=None,
    CACHES={"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}})
django.setup()
from django.core.wsgi import get_wsgi_application
from django.http import JsonResponse
from django.urls import path as route
from django.views.decorators.cache import cache_page

@cache_page(60)
def django_page(request, path):
    body, fields, status = answer(path, request.headers["Accept-Language"])
    return JsonResponse(body, status=status, headers=fields)

urlpatterns = [route("<path>", django_page)]
logging.disable()

def get(application, path, language):
    fields = {"Accept-Language": language}
    if application not in (with_fastapi, with_litestar):
        with httpx.Client(transport=httpx.WSGITransport(application), base_url="http://test.example") as client:
            return client.get(path, headers=fields)

    async def run():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://test.example") as client:
            return await client.get(path, headers=fields)

    return asyncio.run(run())

if sys.argv[1:]:
    print(get(with_fastapi, "/same", "en").headers["ETag"])
    sys.exit()

def second(application, path, language="en"):
    """Status of the second response, whether it is the first one, its count, its Cache-Control."""
    first = get(application, path, "en")
    response = get(application, path, language)
    return (
        first.status_code, response.status_code, response.json()["call"] == first.json()["call"],
        response.headers.get("X-Total-Count"), response.headers.get("Cache-Control"),
    )

applications = {
    "fastapi-cache2": with_fastapi, "Flask-Caching": with_flask, "Litestar": with_litestar, "Django": get_wsgi_application(),
}
found = {}
for name, application in applications.items():
    found[name] = [
        second(application, "/fault"), second(application, "/copy"), second(application, "/private"),
        second(application, "/page", "de"),
    ]
    print(f"{name:15}", *found[name])
tags = [subprocess.run([sys.executable, __file__, "tag"], capture_output=True, text=True).stdout.strip() for _ in range(2)]
print("tags of one content in two processes:", *tags)
expected = {
    "fastapi-cache2": [
        (503, 200, True, None, "max-age=60"), (203, 200, True, None, "max-age=60"), (200, 200, True, None, "max-age=60"),
        (200, 200, True, None, "max-age=60")],
    "Flask-Caching": [
        (503, 503, True, "3", None), (203, 203, True, "3", None), (200, 200, True, "3", "no-store"), (200, 200, True, "3", None)],
    "Litestar": [
        (503, 503, False, "3", None), (203, 203, True, "3", None), (200, 200, True, "3", "no-store"), (200, 200, True, "3", None)],
    "Django": [
        (503, 503, False, "3", None), (203, 203, False, "3", None), (200, 200, False, "3", "no-store"),
        (200, 200, False, "3", "max-age=60")],
}
as_found = (
    {name: [(*result[:4], result[4] and result[4].replace("=59", "=60")) for result in results]
     for name, results in found.items()} == expected
    and tags[0] != tags[1] and all(tag.startswith("W/") and '"' not in tag for tag in tags)
)
print("as found: a 503 is a 200 afterwards" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
env -u PYTHONHASHSEED "$work/venv/bin/python" "$work/try.py"
