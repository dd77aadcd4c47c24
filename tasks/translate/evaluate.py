"""How well a model translates: BLEU by two protocols and chrF, with intervals, beside copying and looking up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from suite.checkpoint import Model
from suite.data.hub import to_evaluate
from suite.data.parallel import Corpus, read_pairs
from suite.errors import ConfigError, DataError
from suite.evaluation import Figure, Interval, Report, Table, bootstrap
from suite.sampling import beam_search
from suite.tasks.translate.format import Languages, prompt
from suite.tasks.translate.options import TranslateEvalOptions
from suite.wording import count

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

SEED = 12345  # of the resamples; published intervals were drawn with it
CHUNK = 64  # sentences looked up at a time: their similarities to all training sentences are dense
MULTI30K = "lowercased, punctuation normalised, tokenised as Multi30k's own files (Moses's scripts in sacremoses {})"


def evaluate(
    model: Model,
    data: Sequence[str],
    options: TranslateEvalOptions,
    *,
    progress: Callable[[int], object] | None = None,
) -> Report:
    """Translate one side of a corpus and compare with the other.

    Every pair counts: only those with an empty side are left out, and counted. Each sentence is translated whole, even
    if it is longer than what the model has learnt from.

    Args:
        model: to evaluate.
        data: corpora as `suite.data.parallel.Corpus.parse` reads them. One that names its languages may have them the
            other way round; of one that does not, the first side is `options.source`.
        options: languages, baseline and search.
        progress: called with the number of sentences just translated.

    Returns:
        a report. Its `data` has counts, settings and times, `signatures` by metric, and under `results` for "model",
        "copy" and "nearest training sentence" the `score`, `low` and `high` (95% of 1000 resamples of the sentences) of
        "BLEU" (sacreBLEU's own, cased), "BLEU lowercased" (Multi30k's protocol, 4-grams, no smoothing) and "chrF2", and
        `lengths`, the words of all translations to those of all references.

    Raises:
        ConfigError: the model does not translate in this direction.
        DataError: the data cannot be read or has no pairs, or the model has no tokenizer.
    """
    known = _known(model, options)
    told: list[str] = []
    pairs = list(_oriented(data, options, told))
    whole = [pair for pair in pairs if all(pair)]
    chosen = whole[: options.limit]
    if not chosen:
        raise DataError(f"{', '.join(data)}: no pairs to evaluate on")
    sources, references = map(list, zip(*chosen, strict=True))
    started = time.perf_counter()
    found, cut, longer = _translate(model, known, sources, options, progress)
    seconds = time.perf_counter() - started
    systems = {"model": found, "copy": sources}
    if options.train:
        systems["nearest training sentence"] = nearest(sources, list(_oriented(options.train, options)))
    return _report(
        {
            "model": model.name,
            "source": options.source,
            "target": options.target,
            "sources": told,
            "sentences": len(chosen),
            "left_out_empty": len(pairs) - len(whole),
            "longer_than_learnt": longer,
            "cut_off": cut,
            **{name: getattr(options, name) for name in ("beams", "length_penalty", "batch")},
            "seconds": seconds,
            "sentences_per_second": len(chosen) / seconds,
            **_scores(systems, references, options.target),
        }
    )


def _known(model: Model, options: TranslateEvalOptions) -> Languages:
    """The model's languages; a ConfigError where it does not translate between those of the options."""
    known = Languages.from_extra(model.extra, model.config_file)
    if (options.source, options.target) not in known.directions:
        ways = ", ".join(f"{start} to {end}" for start, end in known.directions)
        wanted = f"{options.source} to {options.target}"
        raise ConfigError(f"{model.name} does not translate {wanted}; available: {ways}")
    return known


def _report(data: Mapping[str, Any]) -> Report:
    """A table of the results, and notes of what was done."""
    metrics = list(data["signatures"])
    rows = []
    for name, scores in data["results"].items():
        cells = [
            Figure(value=one["score"], interval=Interval(one["low"], one["high"]), digits=1)
            for one in (scores[metric] for metric in metrics)
        ]
        rows.append((data["model"] if name == "model" else name, [*cells, Figure(value=scores["lengths"])]))
    notes = [
        *data["sources"],
        f"{count(data['sentences'], 'sentence')} from {data['source']} to {data['target']} in "
        f"{data['seconds']:,.1f} s ({data['sentences_per_second']:,.1f} per second), {count(data['beams'], 'beam')}",
    ]
    for key, noun, what in (
        ("left_out_empty", "pair", "with an empty side left out"),
        ("longer_than_learnt", "sentence", "longer than those the model was trained on"),
        ("cut_off", "translation", "cut off"),
    ):
        if data[key]:
            notes.append(f"{count(data[key], noun)} {what}")
    notes += [f"{metric}: {signature}" for metric, signature in data["signatures"].items()]
    return Report(data=data, tables=[Table(columns=[*metrics, "length"], rows=rows)], notes=notes)


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
    data: Sequence[str], options: TranslateEvalOptions, told: list[str] | None = None
) -> Iterator[tuple[str, str]]:
    """(source, target) of all pairs, whichever way round their corpus has them.

    To evaluate on them, `told` takes lines on the splits of hub data sets that were chosen.
    """
    source, target = options.source, options.target
    for text in data:
        corpus = Corpus.parse(text, source, target)
        if {corpus.source, corpus.target} != {source, target}:
            raise DataError(f"{text} is in {corpus.source} and {corpus.target}, not in {source} and {target}")
        if told is not None:
            (name,), lines = to_evaluate(corpus.name)
            corpus = replace(corpus, name=name)
            told += lines
        for pair in read_pairs(corpus, columns=options.columns or ()):
            yield (pair.source, pair.target) if corpus.source == source else (pair.target, pair.source)


def _translate(
    model: Model,
    known: Languages,
    texts: Sequence[str],
    options: TranslateEvalOptions,
    progress: Callable[[int], object] | None,
) -> tuple[list[str], int, int]:
    """Translations in the order of the texts, how many were cut off, and how many sources are longer than learnt."""
    tokenizer = model.tokenizer
    if tokenizer is None or tokenizer.eos is None:
        raise DataError(f"{model.name} has no tokenizer with an <eos>, so it cannot translate")
    source, target = options.source, options.target
    prompts = [prompt(tokenizer, text, source, target, causal=known.causal) for text in texts]
    found = [""] * len(texts)
    cut = 0
    order = sorted(range(len(texts)), key=lambda place: len(prompts[place].tokens))
    for start in range(0, len(order), options.batch):
        places = order[start : start + options.batch]
        searched = beam_search(
            model.transformer,
            [prompts[place].tokens for place in places],
            prefixes=[prompts[place].prefix for place in places],
            beams=options.beams,
            length_penalty=options.length_penalty,
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


def _scores(systems: dict[str, list[str]], references: Sequence[str], target: str) -> dict[str, Any]:
    """The `signatures` by metric, and the `results` by system and metric."""
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
    return {"signatures": signatures, "results": results}


def _score(metric: Metric, texts: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """A score and its bootstrap interval.

    Source: Koehn 2004, "Statistical Significance Tests for Machine Translation Evaluation". Not by the metric's own
    `n_bootstrap`, which fails where some resamples score 0 (sacreBLEU 2.6).
    """
    sentences = np.array(metric._extract_corpus_statistics(list(texts), [list(references)]), dtype=np.float64)

    def score(rows: NDArray[np.floating]) -> float:
        return float(metric._compute_score_from_stats(rows.sum(0)).score)

    low, high = bootstrap(sentences, score, seed=SEED)
    whole = metric.corpus_score(list(texts), [list(references)]).score
    return {"score": float(whole), "low": low, "high": high}
