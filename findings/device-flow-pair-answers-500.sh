#!/usr/bin/env bash
# Guess:    the two libraries that make an OAuth server of Django, in the versions that pip chooses, do the device flow (RFC 8628):
#           a code for the device, authorization_pending, and expired_token when the time is over. A client that proves who it is
#           by HTTP Basic needs no client_id in the body (§3.1).
# Version:  django-oauth-toolkit 3.4.1 with oauthlib 4.0.1, which it allows and pip chooses, and with oauthlib 3.3.1; Django
#           5.2.19; PyPI.
# Found:    with oauthlib 4.0.1 each device gets 500: that answers with a scope, which the toolkit does not expect. With 3.3.1 the
#           flow works, but a code that has ended is authorization_pending for ever, and Basic alone is invalid_request.
# Seen:                                        oauthlib 4.0.1      oauthlib 3.3.1
#           a code for the device              500                 200
#           the same with HTTP Basic           400                 400 invalid_request, client_id is missing
#           poll                               -                   400 authorization_pending
#           poll an hour after its end         -                   400 authorization_pending
# Matters:  an update of a library below ends the sign-in of all devices, with nothing in their own code. A client must count
#           expires_in itself: one that polls until the server says expired_token never ends.
# Everything is in a temporary folder with two venvs of its own, without a server. Exits with 0 if the behaviour is as above, with
# 1 if it has changed, with another code if it could not be tried.
set -euo pipefail

work="$(mktemp -d "${TMPDIR:-/tmp}/finding.XXXXXX")"
trap 'rm -rf "$work"' EXIT

for version in 4.0.1 3.3.1; do
    if ! { python3 -m venv "$work/$version" && "$work/$version/bin/pip" install -q --disable-pip-version-check \
        django==5.2.19 django-oauth-toolkit==3.4.1 oauthlib=="$version"; } >&2; then
        echo "the packages could not be installed" >&2
        exit 2
    fi
done

cat > "$work/shop.py" <<'PYTHON'
import base64, datetime, json, logging
from urllib.parse import urlencode
import django
from django.conf import settings

logging.disable(logging.CRITICAL)
settings.configure(
    SECRET_KEY="not a secret", ROOT_URLCONF="__main__", USE_TZ=True, ALLOWED_HOSTS=["testserver"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "oauth2_provider"],
    OAUTH2_PROVIDER={"OAUTH_DEVICE_VERIFICATION_URI": "http://shop.example/device", "SCOPES": {"read": "Read"}},
)
django.setup()
from django.core.management import call_command
from django.test import Client
from django.urls import include, path
from oauth2_provider.models import get_application_model, get_device_grant_model

urlpatterns = [path("", include("oauth2_provider.urls"))]
call_command("migrate", verbosity=0)
grant = "urn:ietf:params:oauth:grant-type:device_code"
for name, kind, secret in (("television", "public", ""), ("printer", "confidential", "secret")):
    get_application_model().objects.create(
        client_id=name, client_type=kind, client_secret=secret, authorization_grant_type=grant, name=name,
    )
browser = Client(raise_request_exception=False)
basic = {"Authorization": "Basic " + base64.b64encode(b"printer:secret").decode()}

def answer(url, fields, headers=None):
    response = browser.post(url, urlencode(fields), "application/x-www-form-urlencoded", headers=headers or {})
    body = json.loads(response.content) if "json" in response["Content-Type"] else {}
    return body, [response.status_code, body.get("error")]

body, code = answer("/device-authorization/", {"client_id": "television", "scope": "read"})
seen = [code, answer("/device-authorization/", {"scope": "read"}, basic)[1]]
if device := body.get("device_code"):
    poll = {"grant_type": grant, "device_code": device, "client_id": "television"}
    seen.append(answer("/token/", poll)[1])
    ended = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)
    assert get_device_grant_model().objects.filter(device_code=device).update(expires=ended) == 1
    seen.append(answer("/token/", poll)[1])
print(json.dumps(seen))
PYTHON

python3 - "$work" <<'PYTHON'
import json, subprocess, sys

work, seen = sys.argv[1], {}
for version in ("4.0.1", "3.3.1"):
    output = subprocess.check_output([f"{work}/{version}/bin/python", f"{work}/shop.py"], text=True, timeout=120)
    seen[version] = json.loads(output.splitlines()[-1])
    for name, (status, error) in zip(("a code", "with HTTP Basic", "poll", "poll after its end"), seen[version]):
        print(f"oauthlib {version}  {name}:", status, error or "")
invalid, pending = [400, "invalid_request"], [400, "authorization_pending"]
as_found = seen == {"4.0.1": [[500, None], invalid], "3.3.1": [[200, None], invalid, pending, pending]}
print("as found: the two do not fit" if as_found else "the behaviour has changed")
sys.exit(0 if as_found else 1)
PYTHON
