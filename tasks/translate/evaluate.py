"""How well a model translates: BLEU by two protocols and chrF, with intervals, beside copying and looking up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from suite.checkpoint import Model
from suite.data.hub import to_evaluate
from suite.data.parallel import Corpus, read_pairs
from suite.errors import ConfigError, DataError
from suite.sampling import beam_search
from suite.tasks.translate.format import Languages, prompt

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

RESAMPLES = 1000
SEED = 12345  # of the resamples
CHUNK = 64  # sentences looked up at a time: their similarities to all training sentences are dense
MULTI30K = "lowercased, punctuation normalised, tokenised as Multi30k's own files (Moses's scripts in sacremoses {})"


def evaluate(
    model: Model,
    data: Sequence[str],
    *,
    source: str,
    target: str,
    train: Sequence[str] = (),
    columns: Sequence[str] = (),
    beams: int = 5,
    length_penalty: float = 1.0,
    batch: int = 32,
    limit: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> dict[str, Any]:
    """Translate one side of a corpus and compare with the other.

    Every pair counts: only those with an empty side are left out, and counted. Each sentence is translated whole, even
    if it is longer than what the model has learnt from.

    Args:
        model: to evaluate.
        data: corpora as `suite.data.parallel.Corpus.parse` reads them. One that names its languages may have them the
            other way round; of one that does not, the first side is `source`.
        source, target: languages to translate from and to.
        train: corpora in which a baseline looks up the nearest source sentence and takes its translation.
        columns: of the corpora, if not the usual ones; see `suite.data.parallel.read_pairs`.
        beams: of the search; 1 is greedy.
        length_penalty: power of the length that hypotheses' log-probabilities are divided by.
        batch: sentences translated side by side.
        limit: pairs from the start of the data (None: all).
        progress: called with the number of sentences just translated.

    Returns:
        plain values: what was done (`sentences`, `beams`, `seconds` and so on), `signatures` by metric, and under
        `results` for "model", "copy" and "nearest training sentence" the `score`, `low` and `high` of each metric:
        "BLEU" (sacreBLEU's own, cased), "BLEU lowercased" (Multi30k's protocol, 4-grams, no smoothing) and "chrF2".
        `low` and `high` bound 95% of the scores of 1000 resamples of the sentences (fixed seed).
        `lengths` is the words of all hypotheses to those of all references.

    Raises:
        ConfigError: the model does not translate in this direction.
        DataError: the data cannot be read or has no pairs, or the model has no tokenizer.
    """
    known = Languages.from_extra(model.extra, model.name)
    if (source, target) not in known.directions:
        ways = ", ".join(f"{start} to {end}" for start, end in known.directions)
        raise ConfigError(f"{model.name} does not translate {source} to {target}; available: {ways}")
    told: list[str] = []
    pairs = list(_oriented(data, source, target, columns, told))
    whole = [pair for pair in pairs if all(pair)]
    chosen = whole[:limit]
    if not chosen:
        raise DataError(f"{', '.join(data)}: no pairs to evaluate on")
    sources, references = [pair[0] for pair in chosen], [pair[1] for pair in chosen]
    started = time.perf_counter()
    settings = {"beams": beams, "length_penalty": length_penalty, "batch": batch}
    found, cut, over = _translate(model, known, sources, source, target, settings, progress)
    seconds = time.perf_counter() - started
    systems = {"model": found, "copy": sources}
    if train:
        systems["nearest training sentence"] = nearest(sources, list(_oriented(train, source, target, columns)))
    results, signatures = _scores(systems, references, target)
    return {
        "model": model.name,
        "source": source,
        "target": target,
        "sources": told,
        "sentences": len(chosen),
        "left_out_empty": len(pairs) - len(whole),
        "longer_than_learnt": over,
        "cut_off": cut,
        **settings,
        "seconds": seconds,
        "sentences_per_second": len(chosen) / seconds,
        "signatures": signatures,
        "results": results,
    }


def nearest(sources: Sequence[str], pairs: Sequence[tuple[str, str]]) -> list[str]:
    """For each sentence the translation of the training sentence most like it.

    Likeness is the cosine of tf-idf over words and over two and three words in a row.

    Args:
        sources: sentences.
        pairs: (source, target) to look up in.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectoriser = TfidfVectorizer(token_pattern=r"\w+", ngram_range=(1, 3))
    memory = vectoriser.fit_transform([pair[0] for pair in pairs]).T.tocsr()  # n-grams x pairs
    queries = vectoriser.transform(sources)
    found: list[str] = []
    for start in range(0, len(sources), CHUNK):
        likeness = (queries[start : start + CHUNK] @ memory).toarray()
        found.extend(pairs[place][1] for place in likeness.argmax(axis=1).tolist())
    return found


def multi30k_tokens(texts: Sequence[str], language: str) -> list[str]:
    """Lowercase, normalise punctuation and tokenise, as the texts that Multi30k papers report BLEU on are.

    Source: `scripts/task1-tokenize.sh` of https://github.com/multi30k/dataset, which runs Moses's scripts
    lowercase.perl, normalize-punctuation.perl and tokenizer.perl in this order.

    Example:
        >>> multi30k_tokens(["Ein Hund läuft „schnell“."], "de")
        ['ein hund läuft &quot; schnell &quot; .']
    """
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    normaliser, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    return [tokenizer.tokenize(normaliser.normalize(text.lower()), return_str=True) for text in texts]


# ---- parts


def _oriented(
    data: Sequence[str], source: str, target: str, columns: Sequence[str], told: list[str] | None = None
) -> Iterator[tuple[str, str]]:
    """(source, target) of all pairs, whichever way round their corpus has them.

    To evaluate on them, `told` takes lines on the splits of hub data sets that were chosen.
    """
    for text in data:
        corpus = Corpus.parse(text, source, target)
        if {corpus.source, corpus.target} != {source, target}:
            raise DataError(f"{text} is in {corpus.source} and {corpus.target}, not in {source} and {target}")
        if told is not None:
            (name,), lines = to_evaluate(corpus.name)
            corpus = replace(corpus, name=name)
            told += lines
        for pair in read_pairs(corpus, columns=columns):
            yield (pair.source, pair.target) if corpus.source == source else (pair.target, pair.source)


def _translate(
    model: Model,
    known: Languages,
    texts: Sequence[str],
    source: str,
    target: str,
    settings: dict[str, Any],
    progress: Callable[[int], object] | None,
) -> tuple[list[str], int, int]:
    """Translations in the order of the texts, how many were cut off, and how many sources are longer than learnt."""
    tokenizer = model.tokenizer
    if tokenizer is None or tokenizer.eos is None:
        raise DataError(f"{model.name} has no tokenizer with an <eos>, so it cannot translate")
    prompts = [prompt(tokenizer, text, source, target, causal=known.causal) for text in texts]
    found = [""] * len(texts)
    cut = 0
    order = sorted(range(len(texts)), key=lambda place: len(prompts[place].tokens))
    for start in range(0, len(order), settings["batch"]):
        places = order[start : start + settings["batch"]]
        searched = beam_search(
            model.transformer,
            [prompts[place].tokens for place in places],
            prefixes=[prompts[place].prefix for place in places],
            beams=settings["beams"],
            length_penalty=settings["length_penalty"],
            max_new_tokens=[2 * len(prompts[place].tokens) + 20 for place in places],
            stop_tokens=[tokenizer.eos],
        )
        for place, [best] in zip(places, searched, strict=True):
            found[place] = tokenizer.decode(best.tokens).strip()
            cut += best.finish == "length"
        if progress is not None:
            progress(len(places))
    extra = len(prompt(tokenizer, "", source, target).tokens)
    return found, cut, sum(len(one.tokens) - extra > known.source_limit for one in prompts)


def _scores(
    systems: dict[str, list[str]], references: Sequence[str], target: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """By system and metric the scores, and by metric the signature."""
    import sacremoses
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    tokenised = multi30k_tokens(references, target)
    results: dict[str, Any] = {}
    signatures: dict[str, str] = {}
    for system, texts in systems.items():
        lowercased = BLEU(tokenize="none", smooth_method="none", force=True)
        figures = {
            "BLEU": _score(cased := BLEU(), texts, references),
            "BLEU lowercased": _score(lowercased, multi30k_tokens(texts, target), tokenised),
            "chrF2": _score(characters := CHRF(), texts, references),
        }
        words = [sum(len(text.split()) for text in side) for side in (texts, references)]
        results[system] = figures | {"lengths": words[0] / max(1, words[1])}
        signatures = {
            "BLEU": str(cased.get_signature()),
            "BLEU lowercased": f"{lowercased.get_signature()}; text {MULTI30K.format(sacremoses.__version__)}",
            "chrF2": str(characters.get_signature()),
        }
    return results, signatures


def _score(metric: Metric, texts: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """A score and its bootstrap interval.

    Source: Koehn 2004, "Statistical Significance Tests for Machine Translation Evaluation". Not by the metric's own
    `n_bootstrap`, which fails where some resamples score 0 (sacreBLEU 2.6).
    """
    sentences = np.array(metric._extract_corpus_statistics(list(texts), [list(references)]), dtype=np.float64)
    random = np.random.default_rng(SEED)
    scores = [
        metric._compute_score_from_stats(sentences[random.integers(len(sentences), size=len(sentences))].sum(0)).score
        for _ in range(RESAMPLES)
    ]
    low, high = np.percentile(np.array(scores, dtype=np.float64), (2.5, 97.5))
    whole = metric.corpus_score(list(texts), [list(references)]).score
    return {"score": float(whole), "low": float(low), "high": float(high)}
