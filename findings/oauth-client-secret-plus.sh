#!/usr/bin/env bash
# Guess:    a widely used OAuth client and a widely used OAuth server agree on HTTP Basic for the token endpoint, whatever
#           characters the client secret has.
# Version:  Authlib 1.9.10 with httpx2 2.16.2, django-oauth-toolkit 3.4.1 with Django 5.2.19, from PyPI.
# Found:    RFC 6749 §2.3.1 wants id and secret form-encoded before they go into the Basic credentials. The server decodes
#           them; the client does not encode them. A secret with "+" or with "%" before two hex digits is refused with 401
#           invalid_client; every other secret works, so that a rotation of secrets can break a service that ran for years.
#           The same secret works in the body (client_secret_post), and in Basic when it is form-encoded by hand.
# Seen:     secret         Basic by Authlib   post by Authlib   Basic, form-encoded
#           plain          ok                 ok                ok
#           a&b c:d        ok                 ok                ok
#           a+b            invalid_client     ok                ok
#           a%41b          invalid_client     ok                ok
# Matters:  a client SDK has to offer both forms, and an "invalid_client" need not mean that the secret is wrong.
#
# Everything is in a temporary folder with a venv of its own, on free loopback ports. Exits with 0 if the behaviour is as
# above, with 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q --disable-pip-version-check authlib==1.9.10 httpx2==2.16.2 django==5.2.19 django-oauth-toolkit==3.4.1; } >&2; then
    echo "the packages could not be installed" >&2
    exit 2
fi

"$work/venv/bin/python" - "$work" <<'PYTHON'
import base64, sys, urllib.parse, warnings
from django.conf import settings

warnings.simplefilter("ignore")
settings.configure(
    SECRET_KEY="finding", ROOT_URLCONF="__main__", ALLOWED_HOSTS=["localhost"], LOGGING_CONFIG=None,
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "oauth2_provider"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
import django
django.setup()
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.urls import path
import oauth2_provider, authlib
from oauth2_provider.models import Application
from oauth2_provider.views import TokenView
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import OAuth2Client
from authlib.integrations.httpx_client._compat import httpx2 as httpx

urlpatterns = [path("token", TokenView.as_view())]
call_command("migrate", verbosity=0)
transport = httpx.WSGITransport(get_wsgi_application())
url = "http://localhost/token"
expected = {"plain": ["ok"] * 3, "a&b c:d": ["ok"] * 3, "a+b": ["invalid_client", "ok", "ok"], "a%41b": ["invalid_client", "ok", "ok"]}

def by_authlib(identifier, secret, method):
    with OAuth2Client(identifier, secret, token_endpoint_auth_method=method, transport=transport) as client:
        try:
            client.fetch_token(url, grant_type="client_credentials")
            return "ok"
        except OAuthError as error:
            return error.error

def encoded(identifier, secret):
    pair = ":".join(map(urllib.parse.quote_plus, (identifier, secret)))
    fields = {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
    with httpx.Client(transport=transport) as client:
        response = client.post(url, data={"grant_type": "client_credentials"}, headers=fields)
    return "ok" if response.status_code == 200 else response.json()["error"]

print(f"Authlib {authlib.__version__}, django-oauth-toolkit {oauth2_provider.__version__}, Django {django.__version__}")
as_found = True
for number, (secret, results) in enumerate(expected.items()):
    identifier = f"client{number}"
    Application.objects.create(
        name=identifier, client_type="confidential", authorization_grant_type="client-credentials",
        client_id=identifier, client_secret=secret,
    )
    seen = [by_authlib(identifier, secret, f"client_secret_{kind}") for kind in ("basic", "post")] + [encoded(identifier, secret)]
    print(f"{secret:10}", *seen)
    as_found = as_found and seen == results
print("as found: a plus sign makes a right secret wrong" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
