"""An OAuth 2.0 server made with Authlib, on a free port of 127.0.0.1: oauth.py [--lifetime SECONDS] [--interval SECONDS].

It has the grants of client credentials, refresh tokens with rotation, device codes and authorization codes with PKCE, metadata
(RFC 8414) with the issuer in authorization responses (RFC 9207), and revocation (RFC 7009). The clients are "service" with the
secret "s3cret/+ %" and "cli" without one. GET /resource needs a token. A user who opens the page of the authorization endpoint
has consented at once; GET /device/approve?user_code=…&allow=1 is what a user does on another device. The output lines are
"port N", and the grant type of each token request.
"""

import argparse
import os
import secrets
import threading
import time

os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"

from authlib.integrations.flask_oauth2 import AuthorizationServer, ResourceProtector
from authlib.oauth2.rfc6749 import ClientMixin, TokenMixin, grants
from authlib.oauth2.rfc6750 import BearerTokenValidator
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc8628 import DeviceAuthorizationEndpoint, DeviceCodeGrant, DeviceCredentialDict
from authlib.oauth2.rfc9207 import IssuerParameter
from flask import Flask, jsonify, request
from werkzeug.serving import make_server

options = argparse.ArgumentParser()
options.add_argument("--lifetime", type=int, default=3600)
options.add_argument("--interval", type=int, default=5)
options = options.parse_args()
lock = threading.Lock()
tokens, codes, devices, decisions, polls = [], {}, {}, {}, {}
USER = "ada"
ISSUER = ""


class Client(ClientMixin):
    def __init__(self, client_id, secret, types):
        self.client_id, self.secret, self.types = client_id, secret, types

    def get_client_id(self):
        return self.client_id

    def get_default_redirect_uri(self):
        return None

    def get_allowed_scope(self, scope):
        return " ".join(word for word in (scope or "").split() if word in ("read", "write"))

    def check_redirect_uri(self, uri):
        return uri.startswith("http://127.0.0.1:")

    def check_client_secret(self, secret):
        return secrets.compare_digest(self.secret or "", secret)

    def check_endpoint_auth_method(self, method, endpoint):
        return (method == "none") == (self.secret is None)

    def check_response_type(self, response_type):
        return response_type == "code"

    def check_grant_type(self, grant_type):
        return grant_type in self.types


class Token(TokenMixin):
    def __init__(self, data, client, user):
        self.data, self.client, self.user = data, client, user
        self.end, self.revoked, self.used = time.time() + data["expires_in"], False, False

    def check_client(self, client):
        return self.client is client

    def get_scope(self):
        return self.data.get("scope", "")

    def get_expires_in(self):
        return self.data["expires_in"]

    def is_expired(self):
        return time.time() > self.end

    def is_revoked(self):
        return self.revoked

    def get_user(self):
        return self.user

    def get_client(self):
        return self.client


class Code:
    def __init__(self, asked):
        payload = asked.payload
        self.redirect_uri, self.scope = payload.redirect_uri, payload.scope
        self.code_challenge = payload.data.get("code_challenge")
        self.code_challenge_method = payload.data.get("code_challenge_method")

    def get_redirect_uri(self):
        return self.redirect_uri

    def get_scope(self):
        return self.scope


DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
clients = {
    "service": Client("service", "s3cret/+ %", ["client_credentials"]),
    "cli": Client("cli", None, ["refresh_token", "authorization_code", DEVICE]),
}
METHODS = ["client_secret_basic", "client_secret_post", "none"]


class ClientCredentials(grants.ClientCredentialsGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = METHODS


class Refresh(grants.RefreshTokenGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = METHODS
    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_refresh_token(self, text):
        for token in tokens:
            if token.data.get("refresh_token") == text:
                if token.used:
                    # A refresh token that is used twice was stolen: nothing of its family is valid any more.
                    for other in tokens:
                        other.revoked = True
                return None if token.revoked or token.used else token

    def authenticate_user(self, token):
        return token.user

    def revoke_old_credential(self, token):
        token.used = True


class AuthorizationCode(grants.AuthorizationCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = METHODS

    def save_authorization_code(self, code, asked):
        codes[code] = Code(asked)

    def query_authorization_code(self, code, client):
        return codes.get(code)

    def delete_authorization_code(self, code):
        for text in [text for text, known in codes.items() if known is code]:
            del codes[text]

    def authenticate_user(self, code):
        return USER


class Device(DeviceCodeGrant):
    def query_device_credential(self, code):
        return devices.get(code)

    def query_user_grant(self, user_code):
        return decisions.get(user_code)

    def should_slow_down(self, credential):
        # Asks for slower questions once, whatever the clock says.
        count = polls[credential["device_code"]] = polls.get(credential["device_code"], 0) + 1
        return count == 2


class DeviceAuthorization(DeviceAuthorizationEndpoint):
    CLIENT_AUTH_METHODS = METHODS
    INTERVAL = options.interval

    def get_verification_uri(self):
        return ISSUER + "/device"

    def save_device_credential(self, client_id, scope, data):
        devices[data["device_code"]] = DeviceCredentialDict(
            data | {"client_id": client_id, "scope": scope or "", "expires_at": time.time() + data["expires_in"]}
        )


class Revocation(RevocationEndpoint):
    CLIENT_AUTH_METHODS = METHODS

    def query_token(self, text, hint):
        return next((t for t in tokens if text in (t.data["access_token"], t.data.get("refresh_token"))), None)

    def revoke_token(self, token, asked):
        token.revoked = True


class Issuer(IssuerParameter):
    def get_issuer(self):
        return ISSUER


class Validator(BearerTokenValidator):
    def authenticate_token(self, text):
        return next((token for token in tokens if token.data["access_token"] == text), None)


app = Flask(__name__)
app.config["OAUTH2_REFRESH_TOKEN_GENERATOR"] = True
app.config["OAUTH2_TOKEN_EXPIRES_IN"] = {
    name: options.lifetime for name in ["client_credentials", "refresh_token", "authorization_code", DEVICE]
}
app.config["OAUTH2_SCOPES_SUPPORTED"] = ["read", "write"]
server = AuthorizationServer(
    app, clients.get, lambda data, asked: tokens.append(Token(dict(data), asked.client, asked.user))
)
server.register_grant(ClientCredentials)
server.register_grant(Refresh)
server.register_grant(AuthorizationCode, [CodeChallenge(required=True)])
server.register_grant(Device)
server.register_endpoint(DeviceAuthorization)
server.register_endpoint(Revocation)
server.register_extension(Issuer())
protected = ResourceProtector()
protected.register_token_validator(Validator())


@app.get("/.well-known/oauth-authorization-server")
def metadata():
    return jsonify(
        issuer=ISSUER,
        token_endpoint=ISSUER + "/token",
        authorization_endpoint=ISSUER + "/authorize",
        device_authorization_endpoint=ISSUER + "/device_authorization",
        revocation_endpoint=ISSUER + "/revoke",
        authorization_response_iss_parameter_supported=True,
        response_types_supported=["code"],
    )


@app.post("/token")
def token():
    print(request.form.get("grant_type"), flush=True)
    with lock:
        return server.create_token_response()


@app.get("/authorize")
def authorize():
    with lock:
        grant = server.get_consent_grant(end_user=USER)
        user = None if request.args.get("prompt") == "refuse" else USER
        return server.create_authorization_response(grant_user=user, grant=grant)


@app.post("/device_authorization")
def device_authorization():
    return server.create_endpoint_response(DeviceAuthorization.ENDPOINT_NAME)


@app.get("/device/approve")
def approve():
    with lock:
        decisions[request.args["user_code"]] = (USER, request.args.get("allow") == "1")
    return "done"


@app.post("/revoke")
def revoke():
    with lock:
        return server.create_endpoint_response(Revocation.ENDPOINT_NAME)


@app.get("/resource")
@protected("read", optional=False)
def resource():
    return jsonify(user="ada")


@app.post("/end")
def end():
    """Ends all access tokens, as a server does that was restarted."""
    with lock:
        for known in tokens:
            known.end = 0
    return "done"


http = make_server("127.0.0.1", 0, app, threaded=True)
ISSUER = f"http://127.0.0.1:{http.server_port}"
print("port", http.server_port, flush=True)
http.serve_forever()
