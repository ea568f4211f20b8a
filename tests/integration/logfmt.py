"""Reads logfmt (https://brandur.org/logfmt) strictly: a line that is not logfmt fails the test."""

import json
import re

_PAIR = re.compile(r'([A-Za-z_][A-Za-z0-9_.]*)=(?:("(?:[^"\\]|\\.)*")|([^\s"=]*))(?: |$)')


def parse(line):
    """{key: text}"""
    fields, at = {}, 0
    while at < len(line):
        match = _PAIR.match(line, at)
        assert match, f"not logfmt at {line[at:at + 40]!r}: {line!r}"
        key, quoted, plain = match.groups()
        assert key not in fields, f"{key} twice: {line!r}"
        fields[key] = json.loads(quoted) if quoted is not None else plain
        at = match.end()
    return fields
