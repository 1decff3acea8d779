#!/usr/bin/env bash
# Guess:    a GraphQL subscription over HTTP (multipart/mixed) is negotiated with Accept and Content-Type as those fields are
#           defined: a list in any order, names in any case, `boundary="graphql"` the same as `boundary=graphql`.
# Version:  Strawberry 0.341.2 on uvicorn 0.54.0, gql 4.4.0 with aiohttp 3.14.5; PyPI.
# Found:    Strawberry takes the whole Accept for one media type, so that only a list that begins with `multipart/mixed`, in
#           lower case, gets the stream. All others get 200 and JSON with `Cannot return null for non-nullable field`, as the
#           subscription is run as a query. Its own Content-Type is a list of two types. gql looks for the letters
#           `boundary=graphql`, and refuses the quoted form, which is the one that Apollo Router sends.
# Seen:     Accept: multipart/mixed;subscriptionSpec=1.0, application/json     3 results, with the
#               Content-Type: multipart/mixed;boundary=graphql;subscriptionSpec=1.0,application/json
#           Accept: application/json, multipart/mixed;subscriptionSpec=1.0     200, Cannot return null
#           Accept: Multipart/Mixed;subscriptionSpec=1.0                       200, Cannot return null
#           gql and multipart/mixed;boundary=graphql;subscriptionSpec=1.0      2 results
#           gql and multipart/mixed;boundary="graphql";subscriptionSpec=1.0    TransportProtocolError
# Matters:  a client or a proxy that sorts or adds to Accept turns the stream into an error that blames the schema; each pair of
#           client and server has to be tried, since one that works with one server is refused by the next.
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check strawberry-graphql==0.341.2 \
    uvicorn==0.54.0 starlette==1.10.0 gql==4.4.0 aiohttp==3.14.5 requests==2.34.2; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" -W ignore - <<'PYTHON'
import asyncio, http.server, json, logging, socket, sys, threading
from collections.abc import AsyncGenerator
import gql, gql.transport.aiohttp, requests, strawberry, strawberry.asgi, uvicorn

logging.disable(logging.CRITICAL)

@strawberry.type
class Query:
    name: str = "shop"

@strawberry.type
class Subscription:
    @strawberry.subscription
    async def count(self) -> AsyncGenerator[int, None]:
        for number in range(3):
            yield number
            await asyncio.sleep(0.05)

schema = strawberry.Schema(Query, subscription=Subscription)
listener = socket.create_server(("127.0.0.1", 0))
server = uvicorn.Server(uvicorn.Config(
    strawberry.asgi.GraphQL(schema, subscription_protocols=["multipart-subscription"]), log_level="critical", lifespan="off",
))
threading.Thread(target=server.run, args=([listener],), daemon=True).start()
url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
session = requests.Session()
session.trust_env = False

def subscribe(accept):
    response = session.post(url, json={"query": "subscription { count }"}, headers={"Accept": accept}, timeout=30)
    kind = response.headers["Content-Type"]
    if kind == "application/json":
        return response.status_code, json.loads(response.content)["errors"][0]["message"], kind
    return response.status_code, response.content.count(b'"payload"'), kind

class Router(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        boundary = "graphql" if self.path == "/plain" else '"graphql"'
        part = '--graphql\r\ncontent-type: application/json\r\n\r\n{{"payload":{{"data":{{"count":{}}}}}}}\r\n'
        body = (part.format(0) + part.format(1) + "--graphql--\r\n").encode()
        self.send_response(200)
        self.send_header("Content-Type", f"multipart/mixed;boundary={boundary};subscriptionSpec=1.0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass

async def with_gql(target):
    results = []
    try:
        async with gql.Client(transport=gql.transport.aiohttp.AIOHTTPTransport(url=target)) as client:
            async for result in client.subscribe(gql.gql("subscription { count }")):
                results.append(result["count"])
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:120]
    return results

router = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Router)
threading.Thread(target=router.serve_forever, daemon=True).start()
accepts = [
    "multipart/mixed;subscriptionSpec=1.0, application/json", "application/json, multipart/mixed;subscriptionSpec=1.0",
    "Multipart/Mixed;subscriptionSpec=1.0",
]
seen = [subscribe(accept) for accept in accepts]
for accept, (status, result, kind) in zip(accepts, seen):
    print(f"Accept: {accept}\n    {status} {kind}, results: {result}")
pairs = [asyncio.run(with_gql(url))]
pairs += [asyncio.run(with_gql(f"http://127.0.0.1:{router.server_port}/{name}")) for name in ("plain", "quoted")]
for name, result in zip(("Strawberry", "boundary=graphql", 'boundary="graphql"'), pairs):
    print(f"gql and {name}: {result}")
router.shutdown()
server.should_exit = True
null = (200, "Cannot return null for non-nullable field Subscription.count.", "application/json")
kind = "multipart/mixed;boundary=graphql;subscriptionSpec=1.0,application/json"
as_found = (
    seen == [(200, 3, kind), null, null] and pairs[:2] == [[0, 1, 2], [0, 1]]
    and pairs[2].startswith("TransportProtocolError: Unexpected content-type")
)
print("as found: the spelling decides" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
