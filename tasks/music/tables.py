"""Tables for the report of an evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from suite.cli.show import percent
from suite.evaluation import Figure, Interval, Report, Table
from suite.tasks.music.texture import texture_table
from suite.wording import count

UNITS = ("token", "note", "second")


def as_report(data: Mapping[str, Any]) -> Report:
    """Return a report of the values that `evaluate` measured."""
    return Report(
        data=data,
        tables=list(_tables(data)),
        notes=[
            *data["sources"],
            f"{count(data['recordings'], 'recording')} of {count(data['pieces'], 'piece')}, "
            f"{count(data['notes'], 'note')}, {data['seconds'] / 3600:.2f} hours, {count(data['tokens'], 'token')}",
            f"windows of {count(data['length'], 'token')} every {data['stride']:,}",
            f"n-grams counted on {data['ngrams_counted_on']}",
            *data["lost"],
        ],
    )


def _tables(data: Mapping[str, Any]) -> Iterator[Table]:
    yield _losses(data)
    if data["textures"] is not None:
        yield texture_table(data["textures"], data["texture_seconds"])
    if data["samples"] is not None:
        yield _likeness(data)
        if data["samples"]["copies"] is not None:
            yield _copies(data)


def _losses(data: Mapping[str, Any]) -> Table:
    rows = []
    for name, figures in data["results"].items():
        interval = None if figures["interval"] is None else Interval(*figures["interval"])
        first, *others = (figures[f"nats_per_{unit}"] for unit in UNITS)
        cells = [Figure(value=first, interval=interval, digits=3), *(Figure(value=one, digits=3) for one in others)]
        rows.append((_title(name, data), cells))
    return Table(columns=[f"nats/{unit}" for unit in UNITS], rows=rows)


def _likeness(data: Mapping[str, Any]) -> Table:
    samples = data["samples"]
    rows = [
        (feature, [f"{percent(one['overlap'])} {one['divergence']:8.3f}" for one in each.values()])
        for feature, each in samples["likeness"].items()
    ]
    return Table(
        title=f"{count(samples['count'], 'sample')} of {samples['seconds']:g} s: overlap of histograms with those of "
        "as many excerpts, and divergence from them in nats",
        columns=[_title(name, data) for name in next(iter(samples["likeness"].values()))],
        rows=rows,
    )


def _copies(data: Mapping[str, Any]) -> Table:
    rows = []
    for name, copied in data["samples"]["copies"].items():
        longest = copied["longest"]
        if longest is not None:
            place = f"{longest['seconds']:.1f} s", f"{longest['name']} at {longest['there']:.1f} s"
            rows.append((_title(name, data), [f"{copied['median_notes']:g}", f"{longest['notes']}", *place]))
    return Table(
        title="notes in a row that also occur in training, at any pitch and in any rhythm",
        columns=["median", "longest", "", "in"],
        rows=rows,
        align="rrrl",
    )


def _title(name: str, data: Mapping[str, Any]) -> str:
    return {"model": str(data["model"]), "reference": "the excerpts"}.get(name, name)
