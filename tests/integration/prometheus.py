"""A real Prometheus that scrapes relays by docker/monitoring, a hundred times as often."""

import http.client
import json
import os
import re
import shutil
from urllib.parse import urlencode

from process import free_port, spawn, wait_until
from relay import ROOT

MONITORING = f"{ROOT}/docker/monitoring"


def _quickened(text):
    """Seconds where the file has minutes, and none before an alert fires. What the expressions look back on stays."""
    text = re.sub(r"^( *(?:scrape|evaluation)_interval:) 15s$", r"\1 150ms", text, flags=re.M)
    return re.sub(r"^( *for:) \d+m$", r"\1 0s", text, flags=re.M)


class Prometheus:
    """folder: a new one for its files. targets: "host:port" in place of the configuration's relay:8090."""

    def __init__(self, folder, *targets):
        program = shutil.which("prometheus")
        assert program, "no prometheus: Debian's package of that name"
        os.mkdir(folder)
        for name in ("prometheus.yml", "alerts.yml"):
            with open(f"{MONITORING}/{name}") as f:
                text = _quickened(f.read()).replace("[relay:8090]", f"[{', '.join(targets)}]")
            with open(f"{folder}/{name}", "w") as f:
                f.write(text)
        self.port = free_port()
        self.folder = folder
        self.log = open(f"{folder}/log", "wb")
        self.process = spawn(
            [program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{self.port}"],
            stdout=self.log, stderr=self.log)
        wait_until(self._answers, 30, what="Prometheus to start")

    def _answers(self):
        assert self.process.poll() is None, open(f"{self.folder}/log").read()[-2000:]
        try:
            return self.get("/-/ready")[0] == 200
        except OSError:
            return False

    def get(self, path, **parameters):
        """(status, text)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", f"{path}?{urlencode(parameters)}")
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def data(self, path, **parameters):
        """What its API answers (https://prometheus.io/docs/prometheus/latest/querying/api)."""
        status, text = self.get(f"/api/v1/{path}", **parameters)
        answer = json.loads(text)
        assert (status, answer["status"]) == (200, "success"), text
        return answer["data"]

    def value(self, query):
        """Of a query that is about one series; None where there is none now."""
        found = self.data("query", query=query)["result"]
        return float(found[0]["value"][1]) if found else None

    def firing(self):
        """{alert: its annotations}"""
        return {a["labels"]["alertname"]: a["annotations"] for a in self.data("alerts")["alerts"] if a["state"] == "firing"}

    def wait_firing(self, alert):
        """Returns its annotations as one text."""
        found = wait_until(lambda: self.firing().get(alert), 60, what=lambda: f"{alert}; there are {self.data('alerts')}")
        return f"{found['summary']}. {found['description']}"

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
