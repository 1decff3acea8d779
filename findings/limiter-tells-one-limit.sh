#!/usr/bin/env bash
# Guess:    with two limits on a route, 5 a second and 8 a minute, the fields of a response tell the one that is closer to its
#           end, so that a client can slow down in time; and Retry-After comes only with a refusal.
# Version:  Flask-Limiter 4.1.1, slowapi 0.1.10 (both on limits 5.8.0).
# Found:    both tell the limit of the shortest window until the other one refuses: X-RateLimit-Remaining is 2 in the response
#           right before the 429, which then says "0 of 8". Every 200 carries Retry-After: 1, also with 4 of 5 left.
# Seen:     the eighth response   200  X-RateLimit-Limit: 5  X-RateLimit-Remaining: 2  Retry-After: 1
#           the ninth response    429  X-RateLimit-Limit: 8  X-RateLimit-Remaining: 0  Retry-After: 59
# Matters:  a client that keeps to the told quota is refused all the same, so it has to hold back after a 429 as well; one that
#           obeys Retry-After whatever the status sends one request a second.
# Everything is in a temporary folder; no socket is opened. Exits with 0 if the behaviour is as above, with 1 if it has
# changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

packages=(Flask-Limiter==4.1.1 limits==5.8.0 Flask==3.1.3 slowapi==0.1.10 fastapi==0.165.0 httpx==0.28.1)
if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check "${packages[@]}"; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" -W ignore - <<'PYTHON'
import logging, sys, time

logging.disable(logging.CRITICAL)


def of_flask():
    from flask import Flask
    from flask_limiter import Limiter

    app = Flask("app")
    limiter = Limiter(lambda: "all", app=app, headers_enabled=True, storage_uri="memory://")

    @app.get("/item")
    @limiter.limit("5 per second;8 per minute")
    def item():
        return "item"

    return app.test_client()


def of_slowapi():
    from fastapi import FastAPI, Request, Response
    from fastapi.testclient import TestClient
    from slowapi import Limiter, _rate_limit_exceeded_handler
    from slowapi.errors import RateLimitExceeded

    app = FastAPI()
    limiter = Limiter(key_func=lambda: "all", headers_enabled=True)
    app.state.limiter = limiter
    app.add_exception_handler(RateLimitExceeded, _rate_limit_exceeded_handler)

    @app.get("/item")
    @limiter.limit("5/second;8/minute")
    def item(request: Request, response: Response):
        return "item"

    return TestClient(app)


as_found = True
for name, client in (("Flask-Limiter", of_flask()), ("slowapi", of_slowapi())):
    seen = []
    for number in range(9):
        response = client.get("/item")
        fields = [response.headers.get(field) for field in ("X-RateLimit-Limit", "X-RateLimit-Remaining", "Retry-After")]
        seen.append((response.status_code, *fields))
        if number == 4:
            time.sleep(1.2)
    print(name, seen)
    as_found = as_found and seen[7][:3] == (200, "5", "2") and seen[8][:3] == (429, "8", "0")
    as_found = as_found and all(status == 429 or wait == "1" for status, _, _, wait in seen)
print("as found: the limit that refuses was not told before" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
