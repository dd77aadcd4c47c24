"""`pipeline("classify")`: texts in, labels with probabilities out.

Shapes: `B` rows, `T` positions, `C` labels, `D` d_model.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from suite.checkpoint import Model, load
from suite.data.labelled import Labelled, check_classes, label_text, stratified_split
from suite.data.record_files import check_surrogates
from suite.errors import CheckpointError, ConfigError, DataError
from suite.model.heads import pool_last
from suite.task.results import alike
from suite.tasks.classify.codec import ClassifyCodec, Text, by_length, pad
from suite.tasks.classify.results import Explanation, check_minimum, classified, read_texts
from suite.tasks.classify.word_model import WordModel
from suite.training.recipe import Recipe

Progress = Callable[[int], object]


class Classifier:
    """Labels texts with a model that has a trained classification head.

    Args:
        model: a model from `suite.load`, with a head.
        threshold: least probability at which a label is assigned, if a text may have several.

    Raises:
        DataError: the model has no head or no tokenizer.

    Example:
        >>> from suite import pipeline
        >>> result = pipeline("classify")("The violin has four strings, tuned in fifths.")
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
        self.codec = ClassifyCodec.from_extra(model.tokenizer, model.extra, model.config_file)
        self.pairs: bool | None = model.extra.get("pairs")  # trained on pairs? None: an older checkpoint
        if self.head.out_features != len(self.codec.labels):
            raise DataError(
                f"{model.name}: the head has {self.head.out_features} outputs, for {len(self.codec.labels)} labels"
            )
        if self.codec.max_tokens > model.config.context:
            raise CheckpointError(
                f"{model.config_file}: extra.max_tokens is {self.codec.max_tokens}, but model.context "
                f"{model.config.context}"
            )
        self.words = WordModel.from_tensors(model.tensors, len(self.codec.labels), model.name)

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes, in the order of the head's outputs."""
        return self.codec.labels

    @property
    def multi(self) -> bool:
        """Whether a text may have several labels."""
        return self.codec.multi

    def __call__(self, texts: Any, *, min_probability: float = 0.0, progress: Progress | None = None) -> Any:
        """Label texts: a single text gives a `Classified`, a sequence gives a list of them.

        Args:
            texts: a text or a sequence; a pair is a tuple of two strings (see `read_texts`). A text longer than the
                model's context is read in pieces whose log-odds are averaged, weighted by length.
            min_probability: least probability of the top label; below it the label is None.
            progress: called with the number of texts just done.

        Raises:
            ConfigError: min_probability is not in [0, 1].
            DataError: a text is not a string or not valid Unicode, or is a pair for a model of single texts, or a
                single text for a model of pairs.
        """
        given, many = read_texts(texts, self.pairs)
        check_minimum(min_probability)
        threshold = self.threshold if self.multi else None
        results = []
        for text, (logits, pieces) in zip(given, self.logits(given, progress), strict=True):
            probabilities = self.to_probabilities(logits / self.codec.temperature).tolist()
            results.append(classified(text, self.labels, probabilities, min_probability, threshold, pieces))
        return alike(results, many)

    def to_probabilities(self, logits: Tensor) -> Tensor:
        """Probabilities from logits (..., C): a sigmoid per label if a text may have several, else a softmax."""
        return torch.sigmoid(logits) if self.multi else logits.softmax(dim=-1)

    def logits(self, texts: Sequence[Text], progress: Progress | None = None) -> list[tuple[Tensor, int]]:
        """Logits (C,) of each text before the temperature, and the number of pieces it was read in."""
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
        if not all(total.isfinite().all() for total in sums):
            raise CheckpointError(f"the logits of {self.model.directory} are not numbers; its weights are damaged")
        added = self.word_logits(texts)
        return [
            (total / size + more, count) for total, size, more, count in zip(sums, sizes, added, counts, strict=True)
        ]

    def word_logits(self, texts: Sequence[Text]) -> Tensor:
        """The linear model's contribution (N, C) to `logits`; zeros if there is no linear model."""
        if self.words is None:
            return torch.zeros(len(texts), len(self.labels))
        return torch.from_numpy(self.codec.ngram_weight * self.words.logits(texts))

    @torch.inference_mode()
    def _scores(self, sequences: Sequence[Sequence[int]]) -> Tensor:
        """Logits (B, C) of token sequences, on the CPU."""
        tokens, lengths = pad(sequences, self.head.weight.device)
        prefix = lengths if self.codec.attention == "prefix" else None
        hidden = self.model.transformer.hidden(tokens, prefix=prefix)  # (B, T, D)
        scores: Tensor = self.head(pool_last(hidden, lengths))
        return scores.float().cpu()

    def explain(self, text: Text, label: str | None = None) -> Explanation:
        """The sensitivity of a label's logit to each token, as gradient x input on the token embeddings.

        That is the effect of a small change, to first order; it does not show why the model decided as it did.
        The linear model's contribution of each word is shared among the word's tokens in proportion to their letters.
        Source: Shrikumar et al. 2016, "Not Just a Black Box".

        Args:
            text: a text or a pair that fits in the model's context.
            label: the label to explain (None: the most probable).

        Raises:
            DataError: the text is longer than the model's context, the label is unknown, or as for a call.
            ConfigError: the model was prepared for inference only.
        """
        [text], _ = read_texts([text], self.pairs)
        sequences = self.codec.pieces(text)
        if len(sequences) > 1:
            raise DataError(
                f"the text has more than the {self.codec.max_tokens} tokens that can be explained at once; shorten it"
            )
        if label is not None and label not in self.labels:
            raise DataError(f"no label {label!r}; available: {', '.join(self.labels)}")
        weights, chosen = self._gradients(sequences[0], text, label)
        decoder = self.codec.tokenizer.stream()
        ids = sequences[0]
        specials = set(self.codec.tokenizer.specials.values())
        kept = [place for place, token in enumerate(ids) if token not in specials]
        pieces = [decoder.push(ids[place]) for place in kept]
        if kept:
            pieces[-1] += decoder.flush()
        shares = [weights[place] + more for place, more in zip(kept, self._by_words(text, pieces, chosen), strict=True)]
        return Explanation(label=self.labels[chosen], pieces=tuple(pieces), weights=tuple(shares))

    def _gradients(self, sequence: Sequence[int], text: Text, label: str | None) -> tuple[list[float], int]:
        """Gradient x input of a label's logit at each of T tokens, and the label's index."""
        transformer = self.model.transformer
        if not isinstance(transformer.tokens, torch.nn.Embedding):
            raise ConfigError("gradients need float32 weights; load the model without quantize")
        captured: list[Tensor] = []

        def watch(module: Any, arguments: Any, output: Tensor) -> Tensor:
            captured.append(output.detach().requires_grad_())
            return captured[0]

        tokens, lengths = pad([sequence], self.head.weight.device)
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
        return (gradient * captured[0].detach()).sum(dim=-1)[0].tolist(), chosen

    def _by_words(self, text: Text, pieces: Sequence[str], label: int) -> list[float]:
        """The linear model's contribution to a label's logit, for each of the pieces that join to the text."""
        sides = (text,) if isinstance(text, str) else text
        letters = [[0.0] * len(side) for side in sides]
        if self.words is not None:
            for gram, share in self.words.shares(text, label):
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
    """Train a classifier on labelled texts.

    Args:
        texts: at least two; a pair of texts is a tuple.
        labels: a label for each text, or a sequence of labels if texts may have several; see
            `suite.data.labelled.label_text`.
        base: the model to start from, as for `suite.load`.
        out: directory of the run, which `suite.load` can load again (None: the model is only kept in memory).
        settings: changes to the default recipe, such as "run.epochs=3"; in its table `data`, which is about files,
            only `data.held_out` and `data.limit`.
        say: as for `suite.training.fit.fit`.

    Raises:
        DataError: there are not as many labels as texts, a text or label is invalid, there are fewer than two classes,
            or labels are free text (for example because texts and labels are swapped; see
            `suite.data.labelled.check_classes`) without the setting "classify.free_labels=true".
        ConfigError: a setting is unknown or has the wrong type.

    Example:
        >>> texts = ["good", "fine film", "bad", "a poor film"] * 4
        >>> classifier = fine_tune(texts, ["yes", "yes", "no", "no"] * 4, settings=["run.epochs=1"])  # doctest: +SKIP
        >>> classifier("a good film").label in classifier.labels  # doctest: +SKIP
        True
    """
    from suite.tasks.classify.task import FREE, ClassifyTask, draw
    from suite.training.fit import fit_data

    if len(texts) != len(labels):
        raise DataError(f"{len(texts)} texts came with {len(labels)} labels")
    task = ClassifyTask()
    recipe = Recipe.load(task.default_recipe(), [f'base="{base}"', *settings])
    given = {"train": ["texts"]}  # a recipe must have a source; nothing reads this name
    tables = task.tables(replace(recipe, data={**given, **recipe.data}))
    if about_files := recipe.data.keys() - {"held_out", "limit"}:
        raise ConfigError(f"settings: data.{min(about_files)} is about files, but texts and labels are given here")
    records = [
        _record(text, label, f"text {place}") for place, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]
    if not tables.options.free_labels:
        check_classes(
            records, "labels", f"give fine_tune(texts, labels) in this order, or force it with settings=[{FREE!r}]"
        )
    train, valid = stratified_split(records, tables.data.held_out, recipe.seed)
    if tables.data.limit:
        train = draw(train, tables.data.limit, recipe.seed)
    data = task.prepare_records(recipe, tables, train, valid)
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
