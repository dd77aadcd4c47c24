"""Identify the language of a text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

ENOUGH = 4000  # number of characters of a text to use


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def language_probabilities(text: str, languages: Iterable[str] | None = None) -> dict[str, float]:
    """Probability of each language, most likely first; a word or two are not reliable.

    Args:
        text: text in a single language.
        languages: codes to choose from (None: all that are known). Codes that the identifier lacks are left out.

    Returns:
        code -> probability; they sum to 1.

    Example:
        >>> list(language_probabilities("Wo ist der Bahnhof?", ["de", "en", "tlh"]))
        ['de', 'en']
    """
    ranked = dict(_identifier().rank(text[:ENOUGH]))
    if languages is None:
        return ranked
    chosen = {code: ranked[known] for code in languages if (known := _plain(code)) in ranked}
    total = sum(chosen.values())
    likeliest = sorted(chosen, key=lambda code: -chosen[code])
    return {code: chosen[code] / total if total else 1 / len(chosen) for code in likeliest}


def same_language(one: str, other: str) -> bool:
    """Whether two codes are the same up to script or region, such as pt and pt-BR."""
    return _plain(one) == _plain(other)


def _plain(code: str) -> str:
    return re.split("[-_]", code)[0].lower()
