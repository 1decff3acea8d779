"""Django's own server on a free loopback port, for the tests: django_site.py. Compresses what it sends (GZipMiddleware) and
answers If-None-Match (ConditionalGetMiddleware), in the order that Django's documentation asks for.

Prints `port N`. `/NAME` is a text of its own for each name, which is compressed, and `/short` one that is too short for it.
"""

from django.conf import settings
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import re_path


def text(request, name):
    content = name if name == "short" else f"{name}: the quick brown fox. " * 50
    return HttpResponse(content, content_type="text/plain", headers={"Cache-Control": "max-age=0"})


class Handler(WSGIRequestHandler):
    """Logs nothing."""

    def log_message(self, format, *args):
        pass


urlpatterns = [re_path("^(.*)$", text)]
settings.configure(
    ALLOWED_HOSTS=["127.0.0.1"],
    MIDDLEWARE=[
        "django.middleware.gzip.GZipMiddleware",
        "django.middleware.http.ConditionalGetMiddleware",
    ],
    ROOT_URLCONF=__name__,
    SECRET_KEY="for tests",
)
server = ThreadedWSGIServer(("127.0.0.1", 0), Handler)
server.set_app(get_wsgi_application())
print("port", server.server_address[1], flush=True)
server.serve_forever()
