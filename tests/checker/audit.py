"""What must be true when the dust has settled."""

import json

import subject
from changelog import first_wrong

SHOWN = 40  # rows, entries and requests of a tuple that a violation shows on either side of what is wrong

# OpenFGA's changelog orders by the moment at which a Write began. This column orders by when it had the tuple's lock.
SCHEMA = "ALTER TABLE changelog ADD COLUMN IF NOT EXISTS seq bigserial"


class Audit:
    """Reads everything once; `violations` is a list of texts, empty when all is well."""

    def __init__(self, database, store, gates):
        self.violations = []
        self._journal = sorted(entry for gate in gates for entry in gate.journal)
        outbox = {
            id: (payload, processed is not None, attempts, error)
            for id, payload, processed, attempts, error in database.execute(
                "SELECT id, payload, processed_at, attempts, last_error FROM fga_outbox"
            ).fetchall()
        }
        kinds = dict(database.execute("SELECT id, kind FROM ledger").fetchall())
        planned = {tuple(name.split(" ")): state for name, state in database.execute("SELECT name, state FROM subject").fetchall()}
        self.counts = {kind: list(kinds.values()).count(kind) for kind in sorted(set(kinds.values()))}
        self._rows(outbox, kinds)
        self._tuples(outbox, kinds, planned, store)

    def _violated(self, text):
        self.violations.append(text)

    def _rows(self, outbox, kinds):
        if set(outbox) != set(kinds):
            self._violated(f"rows were deleted: {sorted(set(kinds) - set(outbox))}, or appeared: {sorted(set(outbox) - set(kinds))}")
        left = [id for id, (_, processed, _, _) in sorted(outbox.items()) if kinds[id] != "bad" and not processed]
        if left:
            self._violated(f"{len(left)} good rows are not processed: {left[:SHOWN]}")
        for id, (payload, processed, attempts, error) in sorted(outbox.items()):
            kind, shown = kinds[id], f"row {id} ({kinds[id]}): attempts={attempts} last_error={error!r} {json.dumps(payload)[:300]}"
            if kind == "bad":
                if processed:
                    self._violated(f"a bad row is processed: {shown}")
                elif attempts < 1 or not error:
                    self._violated(f"a bad row was never refused, or has no reason: {shown}")
            elif kind != "sick" and (attempts or error):
                self._violated(f"a good row was refused: {shown}")

    def _tuples(self, outbox, kinds, planned, store):
        rows = subject.by_tuple((id, payload) for id, (payload, *_) in sorted(outbox.items()) if kinds[id] != "bad")
        found = {subject.subject_of(k): subject.state_of_key(k) for k in store.keys()}
        entries = _changes(store)
        # While good rows are left, what OpenFGA has is what it should have after some of them.
        complete = all(processed or kinds[id] == "bad" for id, (_, processed, _, _) in outbox.items())
        for t in sorted(set(rows) | set(found) | set(entries)):
            of_tuple = rows.get(t, [])
            wanted = of_tuple[-1][1][-1] if of_tuple else None
            wrong = first_wrong([ops for _, ops in of_tuple], entries.get(t, []))
            if t in planned and planned[t] != wanted:
                self._violated(f"{' '.join(t)}: the application has {planned[t]!r}, its rows say {wanted!r}: the checker is at fault")
            if complete and found.get(t) != wanted:
                self._violated(f"{' '.join(t)}: OpenFGA has {found.get(t)!r}, the rows say {wanted!r}\n{self._evidence(t, of_tuple, entries, wrong)}")
            elif wrong is not None and (complete or wrong < len(entries.get(t, []))):
                self._violated(f"{' '.join(t)}: the changelog has what the rows do not allow\n{self._evidence(t, of_tuple, entries, wrong)}")

    def _evidence(self, t, of_tuple, entries, wrong):
        changes = entries.get(t, [])
        at = len(changes) if wrong is None else wrong
        # A row makes about one entry, so what matters of the rows is not far from there.
        before = [n for n, (_, ops) in enumerate(of_tuple) if ops[-1] == (changes[at - 1] if at else None)]
        middle = min(len(of_tuple), max(before[0] if before else 0, at))
        rows = of_tuple[max(0, middle - SHOWN):middle + SHOWN]
        texts = [f"  first entry that is wrong: {at} of {len(changes)}", "  rows, and what they do (None: delete, '': write, a year: write with that condition):"]
        texts += [f"    {id}: {ops}" for id, ops in rows]
        texts += ["  changelog:"] + [f"    {n}: {changes[n]!r}" for n in range(max(0, at - SHOWN), min(len(changes), at + 5))]
        texts += ["  requests (begun, ended, relay, status, what):"]
        named = [(b, e, who, status, _about(body, t)) for b, e, who, status, body in self._journal]
        texts += [f"    {b:.3f} {e:.3f} {who} {status} {what}" for b, e, who, status, what in named if what][-3 * SHOWN:]
        return "\n".join(texts)


def _about(body, t):
    """What a request does to a tuple; empty when nothing."""
    made = json.loads(body)
    does = [["delete"] for k in made.get("deletes", {}).get("tuple_keys", []) if subject.subject_of(k) == t]
    does += [["write", subject.state_of_key(k)] for k in made.get("writes", {}).get("tuple_keys", []) if subject.subject_of(k) == t]
    return does


def _changes(store):
    """{tuple: [operation, …]} of OpenFGA's changelog."""
    found = {}
    with store.server.database.cluster.connect(store.server.database.name) as connection:
        rows = connection.execute(
            "SELECT _user, relation, object_type || ':' || object_id, operation, condition_name, condition_context FROM changelog"
            " WHERE store = %s ORDER BY seq", [store.id]
        ).fetchall()
    for user, relation, object, operation, name, context in rows:
        state = None if operation == 1 else subject.state_of(name, bytes(context or b""))
        found.setdefault((user, relation, object), []).append(state)
    return found
