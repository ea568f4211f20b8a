"""From what was measured to what is said: medians and their spread, and ratios."""

import json
from statistics import median


def summary(values):
    """The median of repetitions, and the least and the greatest of them."""
    return {"median": significant(median(values)), "low": significant(min(values)), "high": significant(max(values))}


def significant(value):
    return float(f"{value:.4g}")


def column(runs, name):
    return [run[name] for run in runs]


def ratios(runs, of, to, name):
    """One a repetition: its two runs were made one soon after the other."""
    return [a / b for a, b in zip(column(runs[of], name), column(runs[to], name))]


def drain_figures(part):
    runs = part["runs"]
    yield "drain: OpenFGA alone, rows/s", column(runs["direct"], "rows_per_s")
    yield "drain: relay, rows/s", column(runs["relay"], "rows_per_s")
    yield "drain: relay / OpenFGA alone", ratios(runs, "relay", "direct", "rows_per_s")
    for several in ("2 relays", "4 relays"):
        yield f"drain: {several} / one", ratios(runs, several, "relay", "rows_per_s")
    yield "drain: relay's processor time for 100,000 rows, s", column(runs["relay"], "cpu_s_per_100k")
    yield "drain: relay's peak resident memory, MiB", column(runs["relay"], "peak_rss_mib")
    yield "drain: relay's peak anonymous memory, MiB", column(runs["relay"], "peak_anonymous_mib")


def latency_figures(part):
    runs = part["runs"]
    for p in ("p50", "p99"):
        yield f"latency: direct write, {p}, ms", column(runs["direct"], f"{p}_ms")
        yield f"latency: relay, {p}, ms", column(runs["relay"], f"{p}_ms")
        yield f"latency: relay / direct write, {p}", ratios(runs, "relay", "direct", f"{p}_ms")


def insert_figures(part):
    runs = part["runs"]
    for clients in (8, 32):
        for arm in ("none", "sweep", "trigger"):
            yield f"insert: {clients} clients, {arm}, rows/s", column(runs[f"{arm} {clients}"], "inserts_per_s")
        for arm in ("sweep", "trigger"):
            yield f"insert: {clients} clients, {arm}, delivered meanwhile, rows/s", column(runs[f"{arm} {clients}"], "delivered_per_s")
        for base in ("sweep", "none"):
            yield f"insert: {clients} clients, trigger / {base}", ratios(runs, f"trigger {clients}", f"{base} {clients}", "inserts_per_s")


def claim_figures(part):
    conditions = part["conditions"]
    for unit in ("buffers", "ms"):
        first = median(column(conditions["empty"], unit))
        for name, rounds in conditions.items():
            yield f"claim: {name}, {unit}", column(rounds, unit)
            if name != "empty":
                yield f"claim: {name} / empty, {unit}", [value / first for value in column(rounds, unit)]
        through = column(part["through"], unit)
        yield f"claim: under an old snapshot all through / first, {unit}", [value / through[0] for value in through[1:]]
        yield f"claim: under an old snapshot last / first, {unit}", [through[-1] / through[0]]


def status_figures(part):
    for name, times in part["conditions"].items():
        yield f"status: {name}, ms", times


def reconcile_figures(part):
    runs = part["runs"]
    yield f"reconcile: reading {part['tuples']:,} tuples alone, s", column(runs["read"], "seconds")
    yield f"reconcile: {part['tuples']:,} tuples, s", column(runs["reconcile"], "seconds")
    yield "reconcile: relay / reading alone", ratios(runs, "reconcile", "read", "seconds")
    yield "reconcile: relay's peak resident memory, MiB", column(runs["reconcile"], "peak_rss_mib")


def figures(data):
    """{figure: {"median", "low", "high"}} of all parts that were measured."""
    parts = {"drain": drain_figures, "latency": latency_figures, "insert": insert_figures, "claim": claim_figures, "status": status_figures,
             "reconcile": reconcile_figures}
    return {name: summary(values) for part, of in parts.items() if part in data for name, values in of(data[part])}


def show(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def table(found):
    """Markdown."""
    lines = ["| figure | median | least | greatest |", "|---|---|---|---|"]
    lines += [f"| {name} | {show(f['median'])} | {show(f['low'])} | {show(f['high'])} |" for name, f in found.items()]
    return "\n".join(lines)


def dump(data, indent=""):
    """JSON with a line for whatever holds only numbers and texts: people read and compare it, too."""
    values = data.values() if isinstance(data, dict) else data if isinstance(data, list) else []
    if not any(isinstance(value, (dict, list)) for value in values):
        return json.dumps(data)
    deeper = indent + "  "
    if isinstance(data, dict):
        items = [f"{json.dumps(name)}: {dump(value, deeper)}" for name, value in data.items()]
        return "{\n" + ",\n".join(deeper + item for item in items) + f"\n{indent}}}"
    return "[\n" + ",\n".join(deeper + dump(value, deeper) for value in data) + f"\n{indent}]"
