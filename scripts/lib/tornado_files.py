"""Tornado's server for static files, on a free loopback port, for the tests: tornado_files.py FOLDER [RATE].
RATE limits the bytes per second of each response.

Prints `port N`, then `STATUS RANGE` for each response, with `-` for a request without Range. Tornado computes the ETag of a
file once for its process, also when the file changes later, and does not know If-Range.
"""

import asyncio
import sys

import tornado.httpserver
import tornado.netutil
import tornado.web


class Handler(tornado.web.StaticFileHandler):
    """Sends at the given rate; Tornado flushes each piece of 64 KiB."""

    def flush(self, include_footers=False):
        flushed = super().flush(include_footers)
        if len(sys.argv) < 3 or include_footers:
            return flushed
        return asyncio.sleep((64 << 10) / int(sys.argv[2]))


def log(handler):
    print(handler.get_status(), handler.request.headers.get("Range", "-"), flush=True)


async def main():
    application = tornado.web.Application(
        [("/(.*)", Handler, {"path": sys.argv[1]})], log_function=log
    )
    sockets = tornado.netutil.bind_sockets(0, "127.0.0.1")
    tornado.httpserver.HTTPServer(application).add_sockets(sockets)
    print("port", sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
