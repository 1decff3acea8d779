"""An API on aiohttp for tests: jobs that answer 202 until they are done, and a list in pages.

    jobs.py [SOCKET]

It serves on a free loopback port and prints "port N", or on the Unix domain socket SOCKET and prints "port 0".
"""
import asyncio
import sys

from aiohttp import web

jobs = {}
routes = web.RouteTableDef()


@routes.post("/jobs")
async def start(request):
    jobs["1"] = (await request.json())["answers"]
    return web.json_response({"state": "queued"}, status=202, headers={"Location": "/jobs/1", "Retry-After": "0"})


@routes.get("/jobs/{id}")
async def state(request):
    jobs[request.match_info["id"]] -= 1
    if jobs[request.match_info["id"]] > 0:
        return web.json_response({"state": "running"}, status=202)
    raise web.HTTPSeeOther("/results/1")


@routes.get("/results/1")
async def result(request):
    return web.json_response({"result": 42})


@routes.get("/v1/items")
async def items(request):
    page = int(request.query.get("page", "1"))
    headers = {"Link": f'<{request.path}?page={page + 1}>; rel="next"'} if page < 3 else {}
    return web.json_response({"data": [page * 10, page * 10 + 1], "host": request.host}, headers=headers)


async def main():
    application = web.Application()
    application.add_routes(routes)
    runner = web.AppRunner(application)
    await runner.setup()
    if len(sys.argv) > 1:
        await web.UnixSite(runner, sys.argv[1]).start()
        print("port 0", flush=True)
    else:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        print("port", runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
