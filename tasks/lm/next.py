"""`suite next`: what the model expects to come next, with true probabilities."""

from __future__ import annotations

import click

from suite.cli.options import file_option, json_option, load_model, model_options, prompt_text, tell_unseen
from suite.cli.show import bar, percent, printable, table, write_json
from suite.wording import count

BAR = 40  # cells of a certainty


@click.command("next")
@click.argument("prompt", required=False)
@file_option
@click.option(
    "-k",
    "--top",
    "k",
    type=click.IntRange(min=1),
    default=10,
    metavar="K",
    help="Number of tokens to show.  [default: 10]",
)
@model_options("lm")
@json_option
def next_tokens(
    prompt: str | None,
    file: str | None,
    k: int,
    model: str,
    revision: str | None,
    device: str,
    quantize: str,
    as_json: bool,
) -> None:
    """Show the most likely next tokens.

    They follow PROMPT, or begin a text if there is none. If PROMPT is -, or is left out and input is piped, standard
    input is read. Probabilities are over the whole vocabulary; the last line is the total of all tokens not shown.
    """
    text = prompt_text(prompt, file)
    loaded = load_model(model, revision, device, quantize)
    from suite.tasks.lm.pipeline import Writer

    writer = Writer(loaded)
    size = loaded.config.vocab_size
    tokens = len(writer.encode(text))
    tell_unseen(tokens, loaded.config.context)
    found = writer.next(text, min(k, size))
    others = size - len(found.tokens)
    if as_json:
        shown = [{"id": id, "text": word, "probability": share} for id, word, share in found.tokens]
        write_json({"prompt": text, "prompt_tokens": tokens, "next": shown, "rest": found.rest, "others": others})
        return
    rows = [[printable(word), percent(share), bar(share, BAR)] for _, word, share in found.tokens]
    rows.append([count(others, "other"), percent(found.rest), bar(found.rest, BAR)])
    lines = table(rows, "lrl")
    click.echo("\n".join([*lines[:-1], click.style(lines[-1], dim=True)]))
