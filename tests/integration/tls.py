"""A certificate authority of our own, made by openssl."""

import ssl
import subprocess


class _Socket(ssl.SSLSocket):
    """Closed when it is forgotten: wrap_socket leaves it open where the client has reset the connection before."""

    def __del__(self):
        self.close()


class Authority:
    """names: of the server, beside localhost and 127.0.0.1."""

    def __init__(self, folder, names=()):
        self.ca = f"{folder}/ca.pem"
        self.key, self.certificate = f"{folder}/server.key", f"{folder}/server.pem"
        request, extensions = f"{folder}/server.csr", f"{folder}/ext"
        with open(extensions, "w") as f:
            f.write("subjectAltName = " + ", ".join(["DNS:localhost", "IP:127.0.0.1", *(f"DNS:{name}" for name in names)]) + "\n")
        self._openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{folder}/ca.key", "-out", self.ca, "-days", "2",
                      "-subj", "/CN=relay tests", "-addext", "basicConstraints=critical,CA:TRUE")
        self._openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", self.key, "-out", request, "-subj", "/CN=localhost")
        self._openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", f"{folder}/ca.key", "-CAcreateserial",
                      "-out", self.certificate, "-days", "2", "-extfile", extensions)

    @staticmethod
    def _openssl(*args):
        subprocess.run(["openssl", *args], check=True, capture_output=True)

    def context(self):
        """For a server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.sslsocket_class = _Socket
        context.load_cert_chain(self.certificate, self.key)
        return context
