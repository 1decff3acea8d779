#!/usr/bin/env bash
# Guess:    a client that repeats calls by itself waits as long as Retry-After says, or gives up when that is too long for it.
#           None calls again before that time, and none waits longer than the timeout that it was given.
# Version:  urllib3 2.8.0, httpx-retries 0.6.0, aiohttp-retry 2.9.1, openai 3.57.0, anthropic 2.14.0, stripe 16.1.0,
#           microsoft-kiota-http 1.16.0, slack_sdk 3.48.0 with its handler for 429; from PyPI.
# Found:    three of eight call again too early, three sleep for the whole hour in the call, with a timeout of 10 s, and two give
#           up. A date, the other form of the field, ends a call of slack_sdk with ValueError.
# Seen:     Retry-After: 3600                    then
#           urllib3, anthropic, slack_sdk        3600 s of sleep, and again
#           httpx-retries                        120 s of sleep, and again
#           aiohttp-retry, stripe                less than a second of sleep, and again; with 5 too
#           openai, microsoft-kiota-http         an error at once
# Matters:  a server that asks for an hour is called by some after half a second, and its users look at a program that hangs for
#           an hour with the others. No two SDKs in a program do the same.
# Everything is in a temporary folder with a venv of its own, on free loopback ports; the sleeps are noted, not slept. Exits
# with 0 if the behaviour is as above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check urllib3==2.8.0 \
    httpx-retries==0.6.0 aiohttp-retry==2.9.1 openai==3.57.0 anthropic==2.14.0 stripe==16.1.0 microsoft-kiota-http==1.16.0 \
    slack_sdk==3.48.0 httpx==0.28.1 aiohttp==3.14.5 requests==2.34.2; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - <<'PYTHON'
import asyncio, datetime, email.utils, http.server, os, sys, threading, time

for name in list(os.environ):
    if name.lower().endswith("_proxy"):
        del os.environ[name]
import aiohttp_retry, anthropic, anyio, httpx, httpx_retries, openai, slack_sdk, stripe, urllib3
from kiota_http.kiota_client_factory import KiotaClientFactory
from slack_sdk.http_retry.builtin_handlers import RateLimitErrorRetryHandler

refusal, calls, slept = {}, [], []

class Server(http.server.BaseHTTPRequestHandler):
    """Refuses the first call with Retry-After, and takes the second."""
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        calls.append(self.path)
        body = b'{"ok": true, "object": "list", "data": []}'
        self.send_response(refusal["status"] if len(calls) == 1 else 200)
        if len(calls) == 1:
            self.send_header("Retry-After", refusal["wait"])
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *arguments):
        pass

class Quiet(http.server.ThreadingHTTPServer):
    def handle_error(self, *arguments):
        pass

sleep, sleep_async = time.sleep, asyncio.sleep

def noted(seconds):
    if seconds > 0.05:
        slept.append(seconds)
    else:
        sleep(seconds)

async def noted_async(seconds, *arguments):
    if seconds > 0.05:
        slept.append(seconds)
    await sleep_async(0, *arguments)

time.sleep, asyncio.sleep, anyio.sleep = noted, noted_async, noted_async
server = Quiet(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"

def with_urllib3():
    urllib3.PoolManager(retries=urllib3.Retry(2, status_forcelist=[503]), timeout=10).request("GET", url)

def with_httpx_retries():
    with httpx.Client(transport=httpx_retries.RetryTransport(), timeout=10) as client:
        client.get(url).raise_for_status()

def with_aiohttp_retry():
    async def get():
        async with aiohttp_retry.RetryClient(retry_options=aiohttp_retry.ExponentialRetry(2)) as client:
            async with client.get(url) as response:
                response.raise_for_status()

    asyncio.run(get())

def with_openai():
    openai.OpenAI(api_key="key", base_url=url, timeout=10).models.list()

def with_anthropic():
    anthropic.Anthropic(api_key="key", base_url=url, timeout=10).models.list()

def with_stripe():
    stripe.StripeClient("sk_test_key", base_addresses={"api": url}, max_network_retries=2).raw_request("get", "/v1/orders")

def with_kiota():
    async def get():
        async with KiotaClientFactory.create_with_default_middleware() as client:
            (await client.get(url)).raise_for_status()

    asyncio.run(get())

def with_slack_sdk():
    client = slack_sdk.WebClient(token="token", base_url=url + "/", timeout=10)
    client.retry_handlers.append(RateLimitErrorRetryHandler(max_retry_count=1))
    client.api_test()

def what_happens(client, wait):
    calls.clear()
    slept.clear()
    refusal.update(status=429 if client is with_slack_sdk else 503, wait=wait)
    try:
        client()
        fault = None
    except Exception as error:
        fault = type(error).__name__
    return len(calls), round(sum(slept), 1), fault

date = email.utils.format_datetime(datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1), usegmt=True)
clients = (
    with_urllib3, with_anthropic, with_slack_sdk, with_httpx_retries, with_aiohttp_retry, with_stripe, with_openai, with_kiota,
)
seen = {client: [what_happens(client, wait) for wait in ("5", "3600", date)] for client in clients}
print("calls, seconds of sleep, error   for Retry-After: 5, 3600, a date")
for client, results in seen.items():
    print(f"    {client.__name__[5:]:14}", *results)

def waits(result, least, most):
    return result[0] == 2 and least <= result[1] <= most and result[2] is None

def gives_up(result):
    return result[0] == 1 and result[1] == 0 and result[2] is not None

as_found = (
    all(waits(seen[client][0], 5, 7) for client in clients if client not in (with_aiohttp_retry, with_stripe))
    and all(waits(seen[client][1], 3600, 3605) for client in (with_urllib3, with_anthropic, with_slack_sdk))
    and waits(seen[with_httpx_retries][1], 120, 120)
    and all(waits(result, 0, 1) for client in (with_aiohttp_retry, with_stripe) for result in seen[client])
    and all(gives_up(seen[client][1]) for client in (with_openai, with_kiota))
    and seen[with_slack_sdk][2] == (1, 0, "ValueError")
)
print("as found: too early, or for an hour" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
