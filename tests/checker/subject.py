"""The tuples that a history plays with, what rows do to them, and what becomes of them when rows are replayed.

A tuple's state is None (absent), "" (written without a condition) or a year (written with the condition that expires in it).
An operation on a tuple is what it leaves behind: None for a delete, otherwise the state that a write makes."""

import re

HOT = [(f"user:h{n}", "viewer", "archive:hot") for n in range(12)]
COLD = [(f"user:c{n}", "viewer", f"archive:cold{n % 7}") for n in range(260)]
YEARS = ("2031", "2032", "2033")

# Written once at the start and never again: a row that writes one with another condition is refused for ever.
FIXED = [(f"user:f{n}", "viewer", "archive:fixed") for n in range(3)]
FIXED_STATE = "2030"


def condition(state):
    return {"name": "not_expired", "context": {"expires_at": f"{state}-01-01T00:00:00Z"}}


def state_of(name, context):
    """The state that a condition stands for; context: anything in whose text the date stands."""
    return re.search(r"(\d{4})-01-01T00:00:00Z", str(context)).group(1) if name else ""


def key(subject, state=None):
    made = dict(zip(("user", "relation", "object"), subject))
    if state:
        made["condition"] = condition(state)
    return made


def subject_of(made):
    return made["user"], made["relation"], made["object"]


def state_of_key(made):
    found = made.get("condition") or {}
    return state_of(found.get("name"), found.get("context"))


def operations(payload):
    """[(tuple, operation)] of a good payload, in the order in which they take effect: deletes first."""
    done = [(subject_of(k), None) for k in payload.get("deletes") or []]
    for k in payload.get("writes") or []:
        op = (subject_of(k), state_of_key(k))
        if op not in done:
            done.append(op)
    return done


def by_tuple(rows):
    """{tuple: [(id, [operation, …])]} of [(id, payload)] in ascending order of ids."""
    found = {}
    for id, payload in rows:
        of_row = {}
        for subject, op in operations(payload):
            of_row.setdefault(subject, []).append(op)
        for subject, ops in of_row.items():
            found.setdefault(subject, []).append((id, ops))
    return found
