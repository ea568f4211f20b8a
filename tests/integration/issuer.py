"""An issuer of tokens (OAuth's client credentials, OpenID's discovery), whose key a real OpenFGA trusts."""

import base64
import json
import subprocess
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from process import free_port

AUDIENCE = "https://fga.example/"
CLIENT, SECRET = "relay-client", "right-secret/of+the client&0123456789"


def _encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Signer:
    """Makes JSON web tokens, signed with RS256 by openssl."""

    def __init__(self, folder):
        self.key = f"{folder}/token.key"
        self.name = None  # the issuer whose tokens they are
        subprocess.run(["openssl", "genrsa", "-out", self.key, "2048"], check=True, capture_output=True)
        modulus = subprocess.run(["openssl", "rsa", "-in", self.key, "-noout", "-modulus"], check=True, capture_output=True, text=True).stdout
        n = bytes.fromhex(modulus.strip().partition("=")[2])
        self.jwks = {"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1", "n": _encode(n), "e": _encode(b"\1\0\1")}]}
        self.made = 0

    def token(self, lifetime=3600, audience=AUDIENCE):
        """One that lives so many seconds, or up to one more: its times are whole seconds."""
        now = int(time.time())
        self.made += 1
        claims = {"iss": self.name, "aud": audience, "sub": CLIENT, "iat": now, "exp": now + 1 + lifetime, "jti": str(self.made)}
        text = ".".join(_encode(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT", "kid": "1"}, claims))
        signed = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.key], input=text.encode(), check=True, capture_output=True)
        return f"{text}.{_encode(signed.stdout)}"


@dataclass
class Fetch:
    """A request for a token, and the answer."""

    path: str
    form: dict
    at: float
    status: int = 0
    token: str = ""


class Issuer:
    """Grants tokens at /oauth/token on a port of its own; stop() and start() keep the port.

    expires_in: what it says (None: nothing); lifetime: how long the token is really good. hook(fetch), where set, may return
    (status, answer) in its place, and may wait. authority: whose certificate it shows, by https. port: a free one unless given."""

    def __init__(self, signer, expires_in=3600, lifetime=3600, audience=AUDIENCE, authority=None, port=None):
        self.signer = signer
        self.expires_in = expires_in
        self.lifetime = lifetime
        self.audience = audience
        self.hook = None
        self.fetches = []
        self.port = port or free_port()
        self.authority = authority
        self.url = f"http{'s' if authority else ''}://127.0.0.1:{self.port}"
        self.server = None
        self.start()

    @property
    def tokens(self):
        return [f.token for f in self.fetches if f.token]

    def start(self):
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                if self.path == "/.well-known/openid-configuration":
                    self.reply(200, {"issuer": issuer.signer.name, "jwks_uri": f"{issuer.url}/jwks"})
                elif self.path == "/jwks":
                    self.reply(200, issuer.signer.jwks)
                else:
                    self.reply(404, {})

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                assert self.headers["Content-Type"] == "application/x-www-form-urlencoded"
                fetch = Fetch(self.path, {k: v[0] for k, v in parse_qs(body, strict_parsing=True).items()}, time.monotonic())
                issuer.fetches.append(fetch)
                status, answer = (issuer.hook and issuer.hook(fetch)) or issuer.grant(fetch)
                fetch.status = status
                self.reply(status, answer)

            def reply(self, status, answer):
                body = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.server.daemon_threads = True
        if self.authority:
            self.server.socket = self.authority.context().wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def grant(self, fetch):
        """The answer to a right request, or how it is wrong (RFC 6749, section 5)."""
        form = dict(fetch.form)
        form.pop("scope", None)
        if fetch.path != "/oauth/token":
            return 404, {"error": "not_found"}
        if (form.get("client_id"), form.get("client_secret")) != (CLIENT, SECRET):
            return 401, {"error": "invalid_client", "error_description": f"{form.get('client_secret')} is not the secret"}
        if form != {"grant_type": "client_credentials", "client_id": CLIENT, "client_secret": SECRET, "audience": AUDIENCE}:
            return 400, {"error": "invalid_request"}
        fetch.token = self.signer.token(self.lifetime, self.audience)
        answer = {"access_token": fetch.token, "token_type": "Bearer"}
        if self.expires_in is not None:
            answer["expires_in"] = self.expires_in
        return 200, answer

    def stop(self):
        if self.server is not None:
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    def settings(self, **others):
        """A relay's environment."""
        return {"FGA_CLIENT_ID": CLIENT, "FGA_CLIENT_SECRET": SECRET, "FGA_API_TOKEN_ISSUER": self.url, "FGA_API_AUDIENCE": AUDIENCE, **others}
