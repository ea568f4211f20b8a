"""The decisions know no outside party: src/base and src/core are a library of their own."""

import glob
import os
import re
import subprocess

from relay import BINARY, ROOT

OUTSIDE = re.compile(r'^\s*#\s*include\s*[<"](libpq|postgres|event|evhttp|evdns|curl|pg_config|sys/socket|netinet|netdb)', re.M)
CORE = os.environ.get("RELAY_CORE", os.path.join(os.path.dirname(BINARY), "librelay_core.a"))


ROOMS = ["base", "core", "io", "relay", "cmd"]


def sources(*rooms):
    return [path for room in rooms for path in glob.glob(f"{ROOT}/src/{room}/*.[ch]")]


def test_there_are_these_rooms_and_no_others():
    assert {entry.name for entry in os.scandir(f"{ROOT}/src") if entry.is_dir()} == set(ROOMS)
    assert all(sources(room) for room in ROOMS)


def test_base_and_core_include_no_outside_party():
    for path in sources("base", "core"):
        with open(path) as f:
            assert not OUTSIDE.search(f.read()), path


def test_includes_point_one_way():
    for room in ROOMS:
        for path in sources(room):
            with open(path) as f:
                for included in re.findall(r'^\s*#\s*include "(\w+)/', f.read(), re.M):
                    assert included in ROOMS and ROOMS.index(included) <= ROOMS.index(room), (path, included)


def undefined():
    """(member of the library, symbol it needs from elsewhere)"""
    names = subprocess.run(["nm", "-A", "--undefined-only", CORE], check=True, capture_output=True, text=True).stdout
    return re.findall(r":(\S+\.o):\s+U (\S+)", names)


def test_the_library_needs_nothing_of_the_outside_but_cjson():
    symbols = {symbol for _, symbol in undefined()}
    assert "memcpy" in symbols
    assert not [s for s in symbols if re.match(r"PQ|pg_|curl_|event_|evhttp_|evbuffer_|evdns_|bufferevent_", s)]


def test_the_core_reads_no_clock_and_opens_no_socket():
    core = {os.path.basename(path) + ".o" for path in sources("core")}
    outside = re.compile(r"(clock_gettime|clock_ms|clock_us|clock_wall_ms|time|gettimeofday|getrandom|rand|random|socket|connect|send|recv|usleep|nanosleep)$")
    assert not [(member, s) for member, s in undefined() if member in core and outside.fullmatch(s)]
