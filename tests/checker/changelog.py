"""Whether OpenFGA's changelog of a tuple is one that the rows on it allow.

Allowed: every row's operations in ascending order of ids, each row any number of times, but at least once to its end, before the next
one begins. A repetition may begin anew in the middle, as a row of several requests does when its relay dies. An operation that changes
nothing leaves no entry, and a write over another condition is refused."""


def _effect(state, op):
    """"silent", "change" or "refused"."""
    if state == op:
        return "silent"
    if op is None or state is None:
        return "change"
    return "refused"


def _closure(places, rows, state):
    """All places that can be reached without an entry. A place is (row, operation of it that comes next)."""
    found, open_ = set(places), list(places)
    while open_:
        row, op = open_.pop()
        if row == len(rows):
            continue
        following = [(row, 0)] if op > 0 else []
        if op == len(rows[row]):
            following.append((row + 1, 0))
        elif _effect(state, rows[row][op]) == "silent":
            following.append((row, op + 1))
        for place in following:
            if place not in found:
                found.add(place)
                open_.append(place)
    return found


def first_wrong(rows, entries):
    """The index of the first entry that the rows do not allow; len(entries) when the entries end too early; None when all is well.

    rows: a list of operations a row; entries: operations."""
    state = None
    places = _closure({(0, 0)}, rows, state)
    for n, entry in enumerate(entries):
        places = {
            (row, op + 1)
            for row, op in places
            if row < len(rows) and op < len(rows[row]) and rows[row][op] == entry and _effect(state, entry) == "change"
        }
        if not places:
            return n
        state = entry
        places = _closure(places, rows, state)
    return None if (len(rows), 0) in places else len(entries)
