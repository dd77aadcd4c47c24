"""The confidence of translations: a regression that is fitted, saved, read and shown; none where none was fitted."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from suite import load
from suite.checkpoint import Model
from suite.data.parallel import Corpus, Pair
from suite.errors import CheckpointError
from suite.tasks.translate.checks import deviation, lost
from suite.tasks.translate.confidence import FEATURES, Confidence, calibrate, features, fit
from suite.tasks.translate.corpora import FilteredCorpus
from suite.tasks.translate.format import Languages, prompt
from suite.tasks.translate.pipeline import Translator
from suite.tasks.translate.plan import SentenceJob
from suite.tasks.translate.score import target_logprobs, token_logprobs
from suite.tasks.translate.task import finisher


@pytest.fixture(scope="module")
def model(words: str) -> Model:
    return load(words)


def test_a_fit_finds_the_probabilities_that_drew_its_answers() -> None:
    random = np.random.default_rng(1)
    rows = random.normal(3, 2, (4000, len(FEATURES)))
    rows[:, 4] = 7.0  # a feature that never varies gets no weight
    truth = Confidence(weights=(1.0, -0.5, 0, 0, 0.0, 0.2, 0), bias=-1.5)
    found = fit(rows, random.random(4000) < truth.probability(rows))
    assert np.abs(np.array(found.weights) - truth.weights).max() < 0.1
    assert np.abs(found.probability(rows) - truth.probability(rows)).mean() < 0.02


def test_what_is_separable_gets_finite_weights() -> None:
    rows = np.zeros((200, len(FEATURES)))
    rows[:, 0] = np.arange(200)
    found = fit(rows, np.arange(200) >= 100)
    assert np.isfinite(found.weights).all() and found.probability(rows)[[0, 199]].round(2).tolist() == [0.0, 1.0]


def test_what_a_checkpoint_says_comes_back_or_is_refused() -> None:
    made = Confidence(weights=tuple(map(float, range(len(FEATURES)))), bias=0.5)
    assert Confidence.from_extra({"confidence": made.to_extra()}, "x") == made
    assert Confidence.from_extra({}, "x") is None
    for wrong in ({"weights": [1.0], "bias": 0}, {"bias": 0}, [1], {"weights": ["a"], "bias": 0}):
        with pytest.raises(CheckpointError, match="x: "):
            Confidence.from_extra({"confidence": wrong}, "x")


def test_tokens_log_probabilities_sum_to_the_targets(model: Model) -> None:
    assert model.tokenizer is not None
    starts = [prompt(model.tokenizer, text, "de", "en") for text in ("eins", "zwei drei vier")]
    targets = [model.tokenizer.encode("one two"), []]
    each = token_logprobs(model.transformer, starts, targets)
    assert [len(one) for one in each] == [len(target) for target in targets]
    assert [one.sum() for one in each] == target_logprobs(model.transformer, starts, targets)


def test_features_do_not_depend_on_the_batch(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = Translator(model, source="de", target="en")
    jobs = [
        SentenceJob(source=text, languages=("de", "en"), forced="", terms=())
        for text in ("eins zwei", "drei", "eins eins eins eins", "zwei 1234")
    ]
    found = [best for [best] in translator._sentences.translate(jobs, 2, 1, None)]
    assert model.tokenizer is not None
    given = (model.transformer, model.tokenizer, translator.known)
    whole = features(*given, jobs, found)
    assert whole.shape == (4, len(FEATURES)) and whole[3, 3] == ("1234" not in found[3].text)
    monkeypatch.setattr("suite.tasks.translate.confidence.BATCH", 1)
    assert np.allclose(features(*given, jobs, found), whole, atol=1e-5)
    assert features(*given, [], []).shape == (0, len(FEATURES))
    for one, row in zip(found, whole, strict=True):
        assert np.isclose(row[0], one.score, atol=1e-5)


@pytest.mark.parametrize(("bias", "warned"), [(-2.0, True), (2.0, False)])
def test_a_sentence_that_is_probably_wrong_is_marked(model: Model, bias: float, warned: bool) -> None:
    sure = Confidence(weights=(0.0,) * len(FEATURES), bias=bias)
    marked = dataclasses.replace(model, extra=dict(model.extra) | {"confidence": sure.to_extra()})
    result = Translator(marked, source="de", target="en")("eins zwei")
    [sentence] = result.sentences
    assert sentence.confidence == pytest.approx(1 / (1 + np.exp(-bias)))
    assert any("probably wrong (confidence 12%)" in warning for warning in result.warnings) is warned
    assert sentence.to_dict()["confidence"] == sentence.confidence


def test_a_checkpoint_without_a_fit_has_no_confidence(model: Model) -> None:
    bare = dataclasses.replace(model, extra={key: value for key, value in model.extra.items() if key != "confidence"})
    result = Translator(bare, source="de", target="en")("eins zwei")
    assert result.sentences[0].confidence is None
    assert not any("probably" in warning for warning in result.warnings)


def test_the_end_of_training_fits_it_on_held_out_pairs(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("suite.tasks.translate.confidence.FEWEST", 4)
    assert model.tokenizer is not None
    known = Languages.from_extra(model.extra, "x")
    translator = Translator(model, source="de", target="en")
    right = [Pair(text, translator(text).text, 1) for text in ("eins", "zwei drei", "drei vier eins")]
    wrong = [Pair(text, "qqqqqqq", 1) for text in ("vier", "vier zwei", "eins drei drei")]
    corpus = FilteredCorpus(corpus=Corpus(source="de", target="en", name="x"), pairs=[*right, *wrong], note="")
    found = Confidence.from_extra(finisher([corpus], model.tokenizer, known, False, 600)(model.transformer), "x")
    assert found is not None and np.isfinite(found.weights).all()
    assert finisher([corpus], model.tokenizer, known, False, 0)(model.transformer) == {}
    assert finisher([corpus], model.tokenizer, known, False, 3)(model.transformer) == {}  # too few
    same = [(pair.source, pair.target, "de", "en") for pair in right]
    assert calibrate(model.transformer, model.tokenizer, known, same * 2) is None  # nothing wrong to tell from right


def test_the_length_and_what_is_lost() -> None:
    assert deviation("ab", "abcdef", None) == 0.0
    assert deviation("abcd", "abcdef" * 4, (0.0, 0.2)) > 3 and deviation("abcd", "abcd", (0.0, 0.2)) == 0.0
    assert lost("Ring 5678 or mail a@b.org", "Ruf 5678 an") == ["a@b.org"]
