"""moto's S3 on a port of 127.0.0.1 with the bucket "bucket": s3_server.py [--part-size BYTES] [--rate BYTES].

It prints "port N", and then a line for each request when it is answered: method, status, the number of bytes of the body, and
the target. A body that ends early is "cut". With --part-size, parts may be as small as this; S3 takes no less than 5 MiB. --rate
limits the bytes of each body per second.
"""

import argparse
import os
import time

os.environ.setdefault("AWS_ACCESS_KEY_ID", "id")
os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "key")

import moto.s3.models
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

options = argparse.ArgumentParser()
options.add_argument("--part-size", type=int, default=5 << 20)
options.add_argument("--rate", type=int)
options = options.parse_args()
moto.s3.models.S3_UPLOAD_PART_MIN_SIZE = options.part_size
moto.s3.models.s3_backends["123456789012"]["aws"].create_bucket("bucket", "us-east-1")
application = DomainDispatcherApplication(create_backend_app)


class Counted:
    """Counts the bytes that are read from the body."""

    def __init__(self, stream):
        self.stream, self.count = stream, 0

    def read(self, *arguments):
        data = self.stream.read(*arguments)
        self.count += len(data)
        if options.rate:
            time.sleep(len(data) / options.rate)
        return data

    def readline(self, *arguments):
        data = self.stream.readline(*arguments)
        self.count += len(data)
        return data


def counted(environment, start):
    body = environment["wsgi.input"] = Counted(environment["wsgi.input"])
    target = environment["PATH_INFO"] + "?" + environment.get("QUERY_STRING", "")
    status = ["cut"]

    def begin(text, *arguments):
        status[0] = text[:3]
        return start(text, *arguments)

    try:
        return list(application(environment, begin))
    finally:
        print(environment["REQUEST_METHOD"], status[0], body.count, target, flush=True)


class Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *arguments):
        pass


server = make_server("127.0.0.1", 0, counted, threaded=True, request_handler=Handler)
print("port", server.server_port, flush=True)
server.serve_forever()
