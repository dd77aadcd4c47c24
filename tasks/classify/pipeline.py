"""`pipeline("classify")`: texts in, labels with probabilities out.

Shapes: `B` rows, `T` positions, `C` labels, `D` d_model.
"""

from __future__ import annotations

import dataclasses
import itertools
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from suite.checkpoint import Model, load
from suite.data.labelled import Labelled, check_classes, label_text, stratified_split
from suite.data.record_files import check_surrogates
from suite.errors import ConfigError, DataError
from suite.model.heads import Headed, pool_last
from suite.tables import from_table
from suite.tasks.classify.codec import Codec, Text
from suite.tasks.classify.metrics import fit_mixture
from suite.tasks.classify.ngrams import NGrams
from suite.training.batches import Batch, Example
from suite.training.recipe import Recipe

BATCH_TOKENS = 4096  # read at one time, padding included
Progress = Callable[[int], object]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Classified:
    """What a classifier says of one text.

    Attributes:
        text: as given; of a pair, the first.
        label: the likeliest, or None where its probability is below the asked-for minimum.
        probability: of the likeliest label.
        scores: probability of every label, likeliest first. They sum to one, except where a text may have several
            labels: then each stands for itself.
        labels: those that hold: the one, or with several labels a text, all at or above the threshold.
        pieces: in how many pieces the text was read, because it is longer than the model's context.
    """

    text: str
    label: str | None
    probability: float
    scores: Mapping[str, float]
    labels: tuple[str, ...]
    pieces: int = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explanation:
    """Which tokens of a text a label's logit was sensitive to.

    Attributes:
        label: the one explained.
        pieces: the text, cut into tokens; joined they give the text back (of a pair, the two texts one after the
            other). A character that falls into several tokens stands with the last of them.
        weights: gradient x input of each, and the share of its words in what the linear model of words says, where the
            classifier has one; above 0 it speaks for the label, to first order.
    """

    label: str
    pieces: tuple[str, ...]
    weights: tuple[float, ...]


class Classifier:
    """Labels texts with a model whose head was trained for it.

    Args:
        model: as `suite.load` gives it, with a head.
        threshold: with several labels a text, the least probability of those that hold.

    Raises:
        DataError: the model has no head or no tokenizer.

    Example:
        >>> from suite import pipeline
        >>> [result] = pipeline("classify")("The violin has four strings, tuned in fifths.")
        >>> result.label in result.scores
        True
    """

    def __init__(self, model: Model, *, threshold: float = 0.5) -> None:
        if model.head is None or model.tokenizer is None:
            raise DataError(
                f"{model.name} was not trained to classify: it has no head; train one with `suite train classify`, "
                "or name labels to choose from (--labels a,b,c)"
            )
        if not 0 <= threshold <= 1:
            raise ConfigError(f"threshold is {threshold}, but must be between 0 and 1")
        self.model, self.head, self.threshold = model, model.head, threshold
        self.codec = Codec.from_extra(model.tokenizer, model.extra, model.name)
        self.pairs: bool | None = model.extra.get("pairs")  # whether it was trained on pairs; older ones do not say
        if self.head.out_features != len(self.codec.labels):
            raise DataError(
                f"{model.name}: the head has {self.head.out_features} outputs, for {len(self.codec.labels)} labels"
            )
        self.ngrams = NGrams.from_tensors(model.tensors, len(self.codec.labels), model.name)

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes it knows."""
        return self.codec.labels

    @property
    def multi(self) -> bool:
        """Whether a text may have several labels."""
        return self.codec.multi

    def __call__(
        self, texts: Text | Sequence[Text], *, min_probability: float = 0.0, progress: Progress | None = None
    ) -> list[Classified]:
        """Label texts.

        Args:
            texts: one or several; a pair of texts is a tuple. A text longer than the model's context is read in pieces
                whose log-odds are averaged, each by its length.
            min_probability: of the likeliest label; below it the label is None.
            progress: takes the number of texts just done.

        Raises:
            ConfigError: min_probability is no probability.
            DataError: a text is not valid Unicode, or is a pair or none against what the model was trained on.
        """
        given, spread = as_texts(texts), self.spread
        for text in given:
            check_pairs(self.pairs, not isinstance(text, str))
        if not 0 <= min_probability <= 1:
            raise ConfigError(f"min_probability is {min_probability}, but must be between 0 and 1")
        results = []
        for text, (logits, pieces) in zip(given, self.logits(given, progress), strict=True):
            odds = spread(logits / self.codec.temperature)
            results.append(
                classified(
                    text, self.labels, odds.tolist(), min_probability, self.threshold if self.multi else None, pieces
                )
            )
        return results

    @property
    def spread(self) -> Callable[[Tensor], Tensor]:
        """From logits (..., C) to probabilities."""
        return torch.sigmoid if self.multi else lambda logits: logits.softmax(dim=-1)

    def logits(self, texts: Sequence[Text], progress: Progress | None = None) -> list[tuple[Tensor, int]]:
        """Logits (C,) of each text before the temperature, and in how many pieces it was read."""
        sequences = [(place, tokens) for place, text in enumerate(texts) for tokens in self.codec.pieces(text)]
        left = [0] * len(texts)
        for place, _ in sequences:
            left[place] += 1
        counts, sums, sizes = list(left), [torch.zeros(len(self.labels))] * len(texts), [0] * len(texts)
        for rows in by_length([tokens for _, tokens in sequences]):
            scores = self._scores([sequences[row][1] for row in rows])
            done = 0
            for row, score in zip(rows, scores, strict=True):
                place, tokens = sequences[row]
                sums[place] = sums[place] + score * len(tokens)
                sizes[place] += len(tokens)
                left[place] -= 1
                done += left[place] == 0
            if progress and done:
                progress(done)
        added = self.word_logits(texts)
        return [
            (total / size + more, count) for total, size, more, count in zip(sums, sizes, added, counts, strict=True)
        ]

    def word_logits(self, texts: Sequence[Text]) -> Tensor:
        """The share (N, C) of the linear model of words in what `logits` gives; zeros where there is none."""
        if self.ngrams is None:
            return torch.zeros(len(texts), len(self.labels))
        return torch.from_numpy(self.codec.ngram_weight * self.ngrams.logits(texts))

    @torch.inference_mode()
    def _scores(self, sequences: Sequence[Sequence[int]]) -> Tensor:
        """(B, C) logits of some sequences, on the CPU."""
        device = self.head.weight.device
        tokens, lengths = pad(sequences, device)
        prefix = lengths if self.codec.attention == "prefix" else None
        hidden = self.model.transformer.hidden(tokens, prefix=prefix)  # (B, T, D)
        scores: Tensor = self.head(pool_last(hidden, lengths))
        return scores.float().cpu()

    def explain(self, text: Text, label: str | None = None) -> Explanation:
        """Which tokens a label's logit was sensitive to, by gradient x input on the token embeddings.

        That shows what a small change nearby would do, to first order; it does not show why the model decided so.
        What the linear model of words adds to the logit is added to the tokens of those words, evenly by letters.
        Source: Shrikumar et al. 2016, "Not Just a Black Box".

        Args:
            text: at most the model's context.
            label: the one to explain (None: the likeliest).

        Raises:
            DataError: the text is longer than the model reads at once, there is no such label, or as for a call.
            ConfigError: the model was prepared for inference alone.
        """
        check_pairs(self.pairs, not isinstance(text, str))
        sequences = self.codec.pieces(text)
        if len(sequences) > 1:
            raise DataError(
                f"the text has more than the {self.codec.max_tokens} tokens that can be explained at once; shorten it"
            )
        if label is not None and label not in self.labels:
            raise DataError(f"no label {label!r}; available: {', '.join(self.labels)}")
        transformer = self.model.transformer
        if not isinstance(transformer.tokens, torch.nn.Embedding):
            raise ConfigError("gradients need float32 weights; load the model without quantize")
        captured: list[Tensor] = []

        def watch(module: Any, arguments: Any, output: Tensor) -> Tensor:
            captured.append(output.detach().requires_grad_())
            return captured[0]

        tokens, lengths = pad(sequences, self.head.weight.device)
        handle = transformer.tokens.register_forward_hook(watch)
        try:
            with torch.enable_grad():
                prefix = lengths if self.codec.attention == "prefix" else None
                scores = self.head(pool_last(transformer.hidden(tokens, prefix=prefix), lengths))[0]  # (C,)
                whole = scores.detach().cpu() + self.word_logits([text])[0]
                chosen = int(whole.argmax()) if label is None else self.labels.index(label)
                (gradient,) = torch.autograd.grad(scores[chosen], captured[0])
        finally:
            handle.remove()
        weights = (gradient * captured[0].detach()).sum(dim=-1)[0].tolist()  # T
        decoder = self.codec.tokenizer.stream()
        ids = sequences[0]
        specials = set(self.codec.tokenizer.specials.values())
        kept = [place for place, token in enumerate(ids) if token not in specials]
        pieces = [decoder.push(ids[place]) for place in kept]
        if kept:
            pieces[-1] += decoder.flush()
        shares = [weights[place] + more for place, more in zip(kept, self._by_words(text, pieces, chosen), strict=True)]
        return Explanation(label=self.labels[chosen], pieces=tuple(pieces), weights=tuple(shares))

    def _by_words(self, text: Text, pieces: Sequence[str], label: int) -> list[float]:
        """What the linear model adds to a label's logit, for each of the pieces that joined give the text."""
        sides = (text,) if isinstance(text, str) else text
        letters = [[0.0] * len(side) for side in sides]
        if self.ngrams is not None:
            for gram, share in self.ngrams.shares(text, label):
                for place in range(gram.start, gram.end):
                    letters[gram.side][place] += self.codec.ngram_weight * share / (gram.end - gram.start)
        row = itertools.chain.from_iterable(letters)
        return [sum(itertools.islice(row, len(piece))) for piece in pieces]


def fine_tune(
    texts: Sequence[Text],
    labels: Sequence[str | int | Sequence[str | int]],
    *,
    base: str = "lm",
    out: Path | str | None = None,
    settings: Sequence[str] = (),
    say: Callable[[str], object] | None = None,
) -> Classifier:
    """Make a classifier of labelled texts.

    Args:
        texts: at least two; a pair of texts is a tuple.
        labels: one a text, or a sequence of them where a text may have several; see `suite.data.labelled.label_text`.
        base: the model to start from, as for `suite.load`.
        out: directory of the run, to be loaded again with `suite.load` (None: kept in memory alone).
        settings: lines that change the default recipe, such as "run.epochs=3"; of its table `data`, which is about
            files, `data.held_out` and `data.limit` alone.
        say: as for `suite.training.fit.fit`.

    Raises:
        DataError: texts and labels are not equally many, one of them is none, there are fewer than two classes, or
            labels are free text (such as texts and labels the wrong way round; see
            `suite.data.labelled.check_classes`) without the setting "classify.free_labels=true".
        ConfigError: a setting is unknown or has the wrong type.

    Example:
        >>> texts = ["good", "fine film", "bad", "a poor film"] * 4
        >>> classifier = fine_tune(texts, ["yes", "yes", "no", "no"] * 4, settings=["run.epochs=1"])  # doctest: +SKIP
        >>> classifier("a good film").label in classifier.labels  # doctest: +SKIP
        True
    """
    from suite.tasks.classify.task import FREE, Classification, ClassifyConfig, DataConfig, draw
    from suite.training.fit import fit_data

    if len(texts) != len(labels):
        raise DataError(f"{len(texts)} texts came with {len(labels)} labels")
    task = Classification()
    recipe = Recipe.load(task.default_recipe(), [f'base="{base}"', *settings])
    options = from_table(DataConfig, recipe.data, "settings", "data.")
    if strange := recipe.data.keys() - {"held_out", "limit"}:
        raise ConfigError(f"settings: data.{min(strange)} is about files, but texts and labels are given here")
    records = [
        _record(text, label, f"text {place}") for place, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]
    if not from_table(ClassifyConfig, recipe.options, "settings", "classify.").free_labels:
        check_classes(
            records, "labels", f"give fine_tune(texts, labels) in this order, or force it with settings=[{FREE!r}]"
        )
    train, valid = stratified_split(records, options.held_out, recipe.seed)
    if options.limit:
        train = draw(train, options.limit, recipe.seed)
    data = task.prepare_records(recipe, train, valid)
    with tempfile.TemporaryDirectory() as scratch:
        fitted = fit_data(recipe, data, out or scratch, say=say)
        return Classifier(load(fitted.checkpoint))


def _record(text: Text, label: str | int | Sequence[str | int], where: str) -> Labelled:
    sides = text if isinstance(text, tuple) else (text,)
    for side in sides:
        if not isinstance(side, str):
            raise DataError(f"{where} is {type(side).__name__}, not text")
        check_surrogates(side, where)
    if not 1 <= len(sides) <= 2:
        raise DataError(f"{where} is {len(sides)} texts; a pair is two")
    several = [label] if isinstance(label, str) or not isinstance(label, Iterable) else label
    return Labelled(
        text=sides[0],
        pair=sides[1] if len(sides) == 2 else None,
        labels=tuple(dict.fromkeys(label_text(one, where) for one in several)),
        where=where,
    )


def calibrate(
    model: Headed, examples: Sequence[Example], linear: NDArray[np.float32] | None = None
) -> dict[str, float]:
    """What makes a trained model's probabilities honest on validation examples.

    Args:
        model: after training.
        examples: N that it was not trained on.
        linear: (N, C) logits of another model, to be weighed in.

    Returns:
        {"temperature": ..., "ngram_weight": ...}, for a checkpoint's `extra`.
    """
    device = model.output.weight.device
    order: list[int] = []
    logits: list[Tensor] = []
    labels: list[Tensor] = []
    with torch.inference_mode():
        for rows in by_length([example.tokens for example in examples]):
            batch = Batch.collate([examples[row] for row in rows]).to(device)
            assert batch.labels is not None
            order += rows
            logits.append(model(batch.tokens, batch.lengths, batch.prefix).cpu())
            labels.append(batch.labels.cpu())
    weight, temperature = fit_mixture(
        torch.cat(logits).numpy(), None if linear is None else linear[order], torch.cat(labels).numpy()
    )
    return {"temperature": temperature, "ngram_weight": weight}


def classified(
    text: Text, labels: Sequence[str], odds: Sequence[float], least: float, threshold: float | None, pieces: int
) -> Classified:
    """A result from probabilities; with a threshold, several labels may hold."""
    scores = dict(sorted(zip(labels, odds, strict=True), key=lambda item: -item[1]))
    first, probability = next(iter(scores.items()))
    label = first if probability >= least else None
    hold: tuple[str, ...]
    if threshold is None:
        hold = () if label is None else (label,)
    else:
        hold = tuple(name for name, odd in scores.items() if odd >= max(threshold, least))
    return Classified(
        text=text if isinstance(text, str) else text[0],
        label=label,
        probability=probability,
        scores=scores,
        labels=hold,
        pieces=pieces,
    )


def check_pairs(trained: bool | None, given: bool) -> None:
    """Raise a DataError where a model was trained on pairs of texts and is given single ones, or the other way round.

    Args:
        trained: whether on pairs; None where that is not known.
        given: whether it is given pairs.
    """
    if trained is not None and trained != given:
        raise DataError(
            "the model was trained on pairs; give the second text too (--pair, --pair-column)"
            if trained
            else "the model was trained on single texts; leave out the second one (--pair, --pair-column)"
        )


def as_texts(texts: Text | Sequence[Text]) -> list[Text]:
    """A list of what was given as one or several; a tuple of two strings is a pair, not two texts."""
    if isinstance(texts, str):
        return [texts]
    if isinstance(texts, tuple) and len(texts) == 2:
        first, second = texts
        if isinstance(first, str) and isinstance(second, str):
            return [(first, second)]
    return list(texts)


def by_length(sequences: Sequence[Sized]) -> Iterator[list[int]]:
    """Places of sequences in batches of like length, the longest first, so that memory is known from the start."""
    rows: list[int] = []
    for place in sorted(range(len(sequences)), key=lambda place: -len(sequences[place])):
        if rows and (len(rows) + 1) * len(sequences[rows[0]]) > BATCH_TOKENS:
            yield rows
            rows = []
        rows.append(place)
    if rows:
        yield rows


def pad(sequences: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Sequences side by side (B, T), padded on the right, and their lengths (B,)."""
    rows = [torch.as_tensor(tokens, dtype=torch.long) for tokens in sequences]
    tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return tokens.to(device), torch.tensor([len(row) for row in rows], device=device)
