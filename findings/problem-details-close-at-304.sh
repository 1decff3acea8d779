#!/usr/bin/env bash
# Guess:    a package that makes problem details (RFC 9457) of FastAPI's errors concerns errors: HTTPException(304), (204) and a
#           status of one's own stay what they are without it, and so does a detail that is not text, which FastAPI allows.
# Version:  fastapi-problem 0.12.1, fastapi-problem-details 0.1.5, fastapi-rfc9457 0.2.4, FastAPI 0.165.0, uvicorn 0.54.0; PyPI.
# Found:    all three give a 304 and a 204 a JSON body, at which uvicorn closes the connection, after a header that does not say
#           so: the second call on it gets no response. Two answer 500 to a status without a name; one to a detail that is an
#           object, one leaves that out, and one sends it as it is, though `detail` is a string (§3.1.4).
# Seen:                                    FastAPI alone   problem       problem-details   rfc9457
#           two calls on a connection, 304   304, 304        304, closed   304, closed       304, closed
#           two calls on a connection, 204   204, 204        204, closed   204, closed       204, closed
#           HTTPException(456)               456             500           500               456
#           HTTPException(409, {"id": 5})    409             409           500               409 without it
# Matters:  each call that the ETag saves costs a connection, and a POST that comes next on it fails, as a client must not repeat
#           that on its own. Installed for the look of errors, the package breaks what was no error.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check fastapi==0.165.0 \
    starlette==1.10.0 uvicorn==0.54.0 h11==0.16.0 fastapi-problem==0.12.1 fastapi-problem-details==0.1.5 \
    fastapi-rfc9457==0.2.4; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" -W ignore - <<'PYTHON'
import http.client, json, logging, socket, sys, threading
import fastapi, fastapi_problem.handler, fastapi_problem_details, fastapi_rfc9457.integration, uvicorn

logging.disable(logging.CRITICAL)

def with_problem(app):
    fastapi_problem.handler.add_exception_handler(app, fastapi_problem.handler.new_exception_handler())

packages = {
    "FastAPI alone": lambda app: None, "fastapi-problem": with_problem,
    "fastapi-problem-details": fastapi_problem_details.init_app,
    "fastapi-rfc9457": fastapi_rfc9457.integration.add_problem_handlers,
}

def shop(install):
    app = fastapi.FastAPI()

    @app.get("/{status}")
    def item(status: int):
        if status == 409:
            raise fastapi.HTTPException(status, {"id": 5})
        raise fastapi.HTTPException(status, headers={"ETag": '"1"'})

    install(app)
    return app

def statuses(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.connect()
    connection.auto_open = 0
    seen = []
    for _ in range(2):
        try:
            connection.request("GET", path)
            response = connection.getresponse()
        except (http.client.NotConnected, http.client.RemoteDisconnected, ConnectionError):
            return seen + ["closed"]
        body = response.read()
        seen.append(response.status)
        if response.headers.get("Connection") == "close":
            return seen + ["told"]
    connection.close()
    return seen + ([json.loads(body).get("detail")] if seen[0] == 409 else [])

seen = {}
for name, install in packages.items():
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(shop(install), http="h11", log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    seen[name] = [statuses(listener.getsockname()[1], path) for path in ("/304", "/204", "/456", "/409")]
    server.should_exit = True
    thread.join(30)
    print(f"{name:24}", *seen[name])
closed = [[304, "closed"], [204, "closed"]]
as_found = seen == {
    "FastAPI alone": [[304, 304], [204, 204], [456, 456], [409, 409, {"id": 5}]],
    "fastapi-problem": [*closed, [500, "closed"], [409, 409, {"id": 5}]],
    "fastapi-problem-details": [*closed, [500, "closed"], [500, "closed"]],
    "fastapi-rfc9457": [*closed, [456, 456], [409, 409, None]],
}
print("as found: the connection ends at a 304" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
