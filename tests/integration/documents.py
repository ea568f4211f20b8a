"""The documents' fenced blocks, the commands in them, and whether what a command printed is what the document shows."""

import re
import textwrap
from dataclasses import dataclass, field

from relay import ROOT

NAMES = ("README.md", "docker/README.md")
LEFT_OUT = "…"  # in a line: what the document leaves out of it; alone: lines, any number


@dataclass
class Command:
    """text: as the shell gets it; output: the lines that the document shows after it."""

    text: str
    output: list = field(default_factory=list)


@dataclass
class Block:
    language: str
    text: str

    def commands(self):
        """Of a console: each line after a "$ ", with those that its \\ continues."""
        found, goes_on = [], False
        for line in self.text.splitlines():
            if goes_on:
                found[-1].text += "\n" + line
            elif line.startswith("$ "):
                found.append(Command(line[2:]))
            elif found:
                found[-1].output.append(line)
            else:
                raise ValueError(f"a console begins with a command, not with {line!r}")
            goes_on = line.endswith("\\") and (goes_on or line.startswith("$ "))
        return found


@dataclass
class Section:
    document: str
    title: str
    blocks: list = field(default_factory=list)

    def __str__(self):
        return f"{self.document}: {self.title}"


def read(name):
    with open(f"{ROOT}/{name}") as f:
        return f.read()


def sections(name, text):
    """The sections that have blocks in a language. A fence stands in a list's indentation or none."""
    found, fence, lines = [Section(name, "")], None, []
    for line in text.splitlines():
        if fence is None and (opening := re.fullmatch(r"( *)```(\w*)", line)):
            fence, lines = opening, []
        elif fence is not None and line == f"{fence[1]}```":
            if fence[2]:
                found[-1].blocks.append(Block(fence[2], textwrap.dedent("\n".join(lines))))
            fence = None
        elif fence is not None:
            lines.append(line)
        elif heading := re.fullmatch(r"#+ (.+)", line):
            found.append(Section(name, heading[1]))
    if fence is not None:
        raise ValueError(f"{found[-1]}: a fence has no end")
    return [section for section in found if section.blocks]


# What may differ from run to run, and nothing else may: times, ids, numbers, with the blanks that a right-aligned one has before it.
_VARIES = [
    (r"\b[0-9A-HJKMNP-TV-Z]{26}\b", "ULID"),
    (r"\d+ d \d+ h|\d+ h \d+ min|\d+ min \d+ s|\d+\.\d s", "AGE"),
    (r" *\d+(\.\d+)?", " 0"),
]


def _general(line):
    for pattern, instead in _VARIES:
        line = re.sub(pattern, instead, line)
    return line.rstrip()


def agrees(shown, printed):
    """Whether the lines that a document shows are those that were printed. It shows none: it does not say."""
    if not shown:
        return True
    wanted = "".join(r"(?:.*\n)*?" if line == LEFT_OUT else ".*".join(map(re.escape, _general(line).split(LEFT_OUT))) + r"\n" for line in shown)
    return re.fullmatch(wanted, "".join(f"{_general(line)}\n" for line in printed)) is not None
