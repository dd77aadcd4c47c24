"""`suite next`: the most likely next tokens with their true probabilities."""

from __future__ import annotations

import click

from suite.cli.options import prompt_text, tell_unseen
from suite.cli.session import Session, session
from suite.cli.settings import takes
from suite.cli.show import bar, percent, printable, table
from suite.tasks.lm.options import NextOptions
from suite.wording import count

BAR = 40  # character cells of a bar for probability 1


@click.command("next")
@click.argument("prompt", required=False)
@takes(NextOptions)
@session("lm")
def next_tokens(prompt: str | None, options: NextOptions, session: Session) -> None:
    """Show the most likely next tokens.

    They follow PROMPT, or begin a text if there is none. If PROMPT is -, or is left out and input is piped, standard
    input is read. Probabilities are over the whole vocabulary; the last line is the total of all tokens not shown.
    """
    text = prompt_text(prompt, options.file, quiet=session.quiet)
    model = session.load()
    from suite.tasks.lm.pipeline import Writer

    found = Writer(model).next(text, min(options.k, model.config.vocab_size))
    if not session.quiet:
        tell_unseen(found.prompt_tokens, model.config.context)
    if session.as_json:
        session.json(found)
        return
    rows = [[printable(one.text), percent(one.probability), bar(one.probability, BAR)] for one in found.next]
    rows.append([count(found.others, "other"), percent(found.rest), bar(found.rest, BAR)])
    lines = table(rows, "lrl")
    click.echo("\n".join([*lines[:-1], click.style(lines[-1], dim=True)]))
