"""A real browser: Debian's Chromium, headless, which Selenium drives."""

import json
import os

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service


class Browser:
    """With logs of what it asks for, and of everything that it complains of. size: of the window's inside, in CSS pixels."""

    def __init__(self, folder, size=(1120, 900)):
        options = Options()
        options.binary_location = "/usr/bin/chromium"
        # The sandbox needs a user other than root, and containers have a small /dev/shm.
        for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}/chromium"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver", log_path=os.devnull), options=options)
        self.size(*size)

    def size(self, width, height, mobile=False):
        self._do("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def scheme(self, name):
        """light or dark, as the system is set."""
        self._do("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def _do(self, command, **arguments):
        return self.driver.execute_cdp_cmd(command, arguments)

    def open(self, url):
        self.driver.get(url)

    def run(self, script, *arguments):
        """What the script returns."""
        return self.driver.execute_script(script, *arguments)

    def text(self, selector):
        """What a person sees there; empty where nothing is shown."""
        return self.run("return [...document.querySelectorAll(arguments[0])].map((e) => (e.checkVisibility() ? e.innerText : '')).join('\\n')", selector)

    def complaints(self):
        """Of the console, violations of the policy among them, since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("WARNING", "SEVERE")]

    def requests(self):
        """The addresses of everything that was asked for since the last call."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]

    def close(self):
        self.driver.quit()
