"""Logits of the embedded models, causal and with a prefix, in float32.

Weights in int8 or float16 are left out: their products are taken by other instructions from CPU to CPU (int8 with or
without VNNI, float16 and bfloat16 with or without AMX), which moves logits by more than a fault might.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

TEXTS = {
    "lm": "The river rises in the mountains of the north, and flows for 350 miles to the sea. In 1863 a bridge was",
    "summarize": "The city lies on a hill. It has a castle of the 12th century, which was burnt twice and rebuilt.",
    "classify": "The violin has four strings, tuned in fifths, and is played with a bow of horse hair.",
    "translate": "Guten Morgen, wie geht es dir? Ich habe den Schlüssel in der Küche vergessen.",
}
EVENTS = [1, *((7 * n * n + 31 * n + 5) % 390 for n in range(47))]  # of music, whose tokens are no text
SHOWN = 12  # logits that are kept of the last position, evenly spread
MARGIN = 0.05  # by which the likeliest token must lead; where it leads by less, another CPU may choose the second


def compute() -> Iterator[tuple[str, Any]]:
    """Names of models with figures of their logits on a fixed sequence."""
    import torch

    import suite

    for name in ("lm", "summarize", "classify", "translate", "music"):
        model = suite.load(name)
        ids = EVENTS if name == "music" else model.tokenizer.encode(TEXTS[name])
        tokens = torch.tensor([ids])  # (1, T)
        prefix = torch.tensor([len(ids) * 2 // 3])
        with torch.no_grad():
            logits = {"causal": model.transformer(tokens)[0], "prefix": model.transformer(tokens, prefix=prefix)[0]}
        yield f"{name}: tokens", ids
        for kind, values in logits.items():
            first, second = values.topk(2).values.unbind(-1)  # (T,) each
            sure = (first - second > MARGIN).tolist()
            every = values.shape[1] // SHOWN
            yield (
                f"{name}: {kind}",
                {
                    "mean": round(values.double().mean().item(), 5),
                    "deviation": round(values.double().std().item(), 5),
                    "first": rounded(values[0, ::every]),
                    "last": rounded(values[-1, ::every]),
                    "greedy": [
                        best if lead else -1 for best, lead in zip(values.argmax(-1).tolist(), sure, strict=True)
                    ],
                },
            )


def rounded(values: Any) -> list[float]:
    """A few logits as plain numbers."""
    return [round(value, 4) for value in values[:SHOWN].tolist()]
