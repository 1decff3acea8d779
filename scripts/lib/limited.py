"""A server with limits of Flask-Limiter, on a free port of 127.0.0.1: limited.py LIMIT, such as "10 per 2 second".

GET /item has the limit, which its fields tell (X-RateLimit-Limit, -Remaining, -Reset, and Retry-After with a 429). The output
lines are "port N", and the status of each response.
"""

import sys

from flask import Flask
from flask_limiter import Limiter
from werkzeug.serving import make_server

app = Flask(__name__)
limiter = Limiter(lambda: "all", app=app, headers_enabled=True, storage_uri="memory://", strategy="fixed-window")


@app.get("/item")
@limiter.limit(sys.argv[1])
def item():
    return "item"


@app.after_request
def show(response):
    print(response.status_code, flush=True)
    return response


server = make_server("127.0.0.1", 0, app, threaded=True)
print("port", server.server_port, flush=True)
server.serve_forever()
