"""Output of a text's labels and of an explanation, in a terminal or as JSON."""

from __future__ import annotations

from typing import Any

import click

from suite.cli.show import bar, notice, percent, printable, table, unicode_terminal
from suite.tasks.classify.results import Classified, Explanation
from suite.wording import count

BAR = 40  # cells of a bar
STRONGEST = 8  # tokens of an explanation that are listed
# backgrounds of the 256 colours, from weak to strong; blue and orange are told apart by nearly everyone
FOR, AGAINST, BLACK = (195, 153, 111, 75), (230, 223, 216, 209), 16


def json_of(result: Classified, pair: str | None, top_k: int | None, explanation: Explanation | None) -> dict[str, Any]:
    """A result as JSON values: its `top_k` highest scores, and the pair and the explanation if given."""
    found = {"text": result.text, **({} if pair is None else {"pair": pair}), **result.to_dict()}
    found["scores"] = dict(list(found["scores"].items())[:top_k])
    if explanation is not None:
        pieces = [[piece, weight] for piece, weight in zip(explanation.pieces, explanation.weights, strict=True)]
        found["explanation"] = {"method": "gradient x input", "label": explanation.label, "tokens": pieces}
    return found


def show_result(result: Classified, top_k: int, reach: float, *, multi: bool, indent: str) -> None:
    """Write the `top_k` most probable labels, and all assigned labels, with bars."""
    if not result.labels:
        click.secho(f"{indent}unsure: no label reaches {percent(reach)}", bold=True)
    shown = list(result.scores.items())[: max(top_k, len(result.labels) if multi else 1)]
    tick = "✓" if unicode_terminal() else "*"
    rows = []
    for label, share in shown:
        assigned = label in result.labels
        mark = [tick if assigned else " "] if multi else []
        rows.append([*mark, click.style(label, bold=True) if assigned else label, percent(share), bar(share, BAR)])
    if not multi and len(result.scores) > len(shown):
        rest = max(0.0, 1 - sum(share for _, share in shown))
        rows.append([count(len(result.scores) - len(shown), "other"), percent(rest), ""])
    lines = table(rows, "llrl" if multi else "lrl", indent=indent)
    click.echo("\n".join(lines))


def show_explanation(explanation: Explanation, *, quiet: bool) -> None:
    """Write the text with its tokens coloured, and the strongest of them."""
    strongest = max((abs(weight) for weight in explanation.weights), default=0) or 1
    click.echo()
    for piece, weight in zip(explanation.pieces, explanation.weights, strict=True):
        level = round(len(FOR) * abs(weight) / strongest)
        shade = (FOR if weight > 0 else AGAINST)[level - 1]
        for part in piece.splitlines(keepends=True):  # else the background colour would fill the rest of the line
            body = part.rstrip("\r\n")
            click.echo(
                (click.style(body, bg=shade, fg=BLACK) if level and body else body) + part[len(body) :], nl=False
            )
    click.echo("\n")
    total = sum(map(abs, explanation.weights)) or 1
    order = sorted(range(len(explanation.pieces)), key=lambda place: -abs(explanation.weights[place]))
    rows = []
    for place in order[:STRONGEST]:
        weight = explanation.weights[place] / total
        side = (
            click.style("for", bg=FOR[1], fg=BLACK) if weight > 0 else click.style("against", bg=AGAINST[1], fg=BLACK)
        )
        rows.append([printable(explanation.pieces[place]), side, percent(abs(weight)), bar(abs(weight), BAR)])
    click.echo("\n".join(table(rows, "llrl", ["token", explanation.label, "share of weight", ""])))
    if not quiet:
        notice(
            "gradient x input: how sensitive the label's score is to each token of this text; it does not show why the "
            "model decided so"
        )
