"""Whether a relay goes on living while something else does not: its probe is asked all the time."""

import threading
import time

from process import wait_until
from relay import PATIENCE

# A loop that is blocked by its network is blocked for seconds at least, time and again; a machine that is busy is late once.
ALWAYS = 4 * PATIENCE
USUALLY = 1 * PATIENCE


class Pulse:
    """Asks /livez until stop(), which fails the test if answers were late."""

    def __init__(self, relay):
        self.relay = relay
        self.took = []
        self.failure = None
        wait_until(lambda: relay.readyz()[0], what="the probe to answer")
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._end.wait(0.05):
            began = time.monotonic()
            try:
                assert self.relay.request("GET", "/livez")[0] == 200
            except Exception as e:
                self.failure = e
                return
            self.took.append(time.monotonic() - began)

    def stop(self):
        self._end.set()
        self._thread.join(30)
        assert not self._thread.is_alive()
        if self.failure:
            raise self.failure
        late = [took for took in self.took if took > USUALLY]
        assert all(took < ALWAYS for took in late) and len(late) <= 2 + len(self.took) // 10, f"of {len(self.took)} answers of /livez, late: {late}"
