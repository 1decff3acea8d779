#!/usr/bin/env bash
# Guess:    GraphQL servers of this year answer as "GraphQL over HTTP" says: application/graphql-response+json when Accept asks
#           for it; 200 with errors when a resolver fails; 405 for a mutation with GET; an error when a document has two
#           operations and none is named. A client that raises for a 503 or 429 tells the status.
# Version:  Strawberry 0.341.2 and Ariadne 1.1.1 (both on graphql-core 3.3.2), gql 4.4.0; PyPI.
# Found:    neither server ever sends the new media type, and both refuse `Application/JSON` with 400. Strawberry runs the first
#           of two operations, a mutation as well. Ariadne answers 400, as if the call were wrong, when a resolver fails, and to a
#           mutation with GET that the operation's name is missing. gql does not tell the status when the body has errors.
# Seen:                                                       Strawberry                 Ariadne
#           Accept: application/graphql-response+json         application/json           application/json
#           `mutation A {...} query B {...}`, no name         200, A has been run        400
#           a resolver of a field that is not null fails      200                        400
#           GET, a mutation                                   400, text/plain            400, "'operationName' is required"
#           Content-Type: Application/JSON                    400                        400
#           gql, 503 or 429 with {"errors": [...]}            TransportQueryError, no code; TransportServerError with 503 for HTML
# Matters:  a client that repeats by status, or shows 4xx as a mistake of its user, does the wrong thing with Ariadne; with gql it
#           cannot tell "later" from "never". A document kept for two uses changes data with one server and fails with another.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check strawberry-graphql==0.341.2 \
    ariadne==1.1.1 graphql-core==3.3.2 starlette==1.10.0 httpx==0.28.1 gql==4.4.0 requests==2.34.2 \
    requests-toolbelt==1.0.0; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" -W ignore - <<'PYTHON'
import http.server, logging, sys, threading
import ariadne, ariadne.asgi, gql, gql.transport.exceptions, gql.transport.requests
import starlette.testclient, strawberry, strawberry.asgi

logging.disable(logging.CRITICAL)
runs = []

def run():
    runs.append("A")
    return "done"

def fail(*_):
    raise ValueError("broken")

@strawberry.type
class Query:
    @strawberry.field
    def name(self) -> str:
        return "shop"

    @strawberry.field
    def broken(self) -> str:
        return fail()

@strawberry.type
class Mutation:
    @strawberry.mutation
    def buy(self) -> str:
        return run()

query, mutation = ariadne.QueryType(), ariadne.MutationType()
query.set_field("name", lambda *_: "shop")
query.set_field("broken", fail)
mutation.set_field("buy", lambda *_: run())
types = "type Query { name: String! broken: String! } type Mutation { buy: String! }"
apps = {
    "Strawberry": strawberry.asgi.GraphQL(strawberry.Schema(Query, mutation=Mutation)),
    "Ariadne": ariadne.asgi.GraphQL(ariadne.make_executable_schema(types, query, mutation), execute_get_queries=True),
}

def ask(app):
    client = starlette.testclient.TestClient(app, raise_server_exceptions=False)
    kind = "application/graphql-response+json"

    def post(text, media="application/json"):
        return client.post("/", content=f'{{"query": "{text}"}}', headers={"Accept": kind, "Content-Type": media})

    runs.clear()
    named = int(post("mutation A { buy } query B { name }").status_code), list(runs)
    get = client.get("/", params={"query": "mutation { buy }"}, headers={"Accept": kind})
    return {
        "media type": post("{ name }").headers["Content-Type"], "two operations": named,
        "failed": int(post("{ broken }").status_code),
        "GET": (int(get.status_code), get.headers["Content-Type"].split(";")[0], "operationName" in get.text),
        "case": int(post("{ name }", "Application/JSON").status_code),
    }

class Busy(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        html = self.path == "/html"
        body = b"<h1>later</h1>" if html else b'{"errors": [{"message": "later"}]}'
        self.send_response(503 if html else int(self.path[1:]))
        self.send_header("Content-Type", "text/html" if html else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass

busy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Busy)
threading.Thread(target=busy.serve_forever, daemon=True).start()

def with_gql(path):
    transport = gql.transport.requests.RequestsHTTPTransport(url=f"http://127.0.0.1:{busy.server_port}/{path}")
    try:
        with gql.Client(transport=transport) as session:
            session.execute(gql.gql("{ name }"))
    except gql.transport.exceptions.TransportError as error:
        return type(error).__name__, getattr(error, "code", None)

seen = {name: ask(app) for name, app in apps.items()}
raised = {path: with_gql(path) for path in ("503", "429", "html")}
busy.shutdown()
for name, answers in seen.items():
    print(name, answers)
print("gql", raised)
as_found = seen == {
    "Strawberry": {
        "media type": "application/json", "two operations": (200, ["A"]), "failed": 200, "case": 400,
        "GET": (400, "text/plain", False),
    },
    "Ariadne": {
        "media type": "application/json", "two operations": (400, []), "failed": 400, "case": 400,
        "GET": (400, "application/json", True),
    },
} and raised == {
    "503": ("TransportQueryError", None), "429": ("TransportQueryError", None), "html": ("TransportServerError", 503),
}
print("as found: the status is not that of the specification" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
