"""Payloads as the ledger makes them."""

import json


def key(user, relation, object, condition=None):
    made = {"user": user, "relation": relation, "object": object}
    if condition is not None:
        made["condition"] = condition
    return made


def writes(*tuples):
    return {"writes": [key(*t) for t in tuples]}


def deletes(*tuples):
    return {"deletes": [key(*t) for t in tuples]}


def archive_tuples(n):
    """What the ledger writes for archive n: archive to job, and job to organization."""
    return (f"capture_job:j{n}", "parent", f"archive:a{n}"), ("organization:acme", "parent", f"capture_job:j{n}")


def archive(n):
    return writes(*archive_tuples(n))


def archives(numbers):
    return [archive(n) for n in numbers]


def all_tuples(numbers):
    return {t for n in numbers for t in archive_tuples(n)}


def viewer(user, object):
    return f"user:{user}", "viewer", f"archive:{object}"


def unknown(n):
    """A row that this model refuses."""
    return writes((f"spaceship:s{n}", "parent", f"archive:a{n}"))


def tuples_of(body, part="writes"):
    """The tuples of a Write request's body, as a list of (user, relation, object)."""
    found = json.loads(body).get(part, {}).get("tuple_keys", [])
    return [(t["user"], t["relation"], t["object"]) for t in found]
