"""The linear model of words beside a classifier's head."""

import numpy as np
import pytest
import torch

from suite.errors import CheckpointError, ConfigError
from suite.tasks.classify.calibrate import fit_mixture
from suite.tasks.classify.metrics import indicators
from suite.tasks.classify.task import ClassifyOptions
from suite.tasks.classify.word_model import WordModel, grams, regress

TEXTS = ["a good film", "good, good fun", "a bad film", "bad fun?", "not good film", "not bad fun?"] * 3
LABELS = [1, 1, 0, 0, 0, 1] * 3


def fitted() -> WordModel:
    found = WordModel.fit(TEXTS, indicators(np.array(LABELS), 2), multi=False)
    assert found is not None
    return found


def test_it_is_tf_idf_and_logistic_regression() -> None:
    """Its logits are those of scikit-learn's pieces, put together."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\w+|[^\w\s]", min_df=2)
    model = LogisticRegression(C=10, solver="newton-cg").fit(words.fit_transform(TEXTS), LABELS)
    new = ["a good good film, not bad?", "never seen", "", "FUN not good"]
    logits = fitted().logits(new)
    assert logits[:, 1] - logits[:, 0] == pytest.approx(model.decision_function(words.transform(new)), abs=1e-4)


def test_order_counts() -> None:
    """ "not good" and "good" speak for different labels."""
    negative, positive = fitted().logits(["not good", "good"])
    assert negative.argmax() == 0 and positive.argmax() == 1


def test_it_comes_back_from_its_tensors_and_names_the_one_that_is_wrong() -> None:
    one = fitted()
    tensors = one.tensors()
    again = WordModel.from_tensors(tensors, 2, "here")
    assert again is not None and np.array_equal(again.logits(TEXTS), one.logits(TEXTS))
    assert WordModel.from_tensors({"other": torch.zeros(1)}, 2, "here") is None
    for name in tensors:
        with pytest.raises(CheckpointError, match=f"here: tensor '{name}' is missing"):
            WordModel.from_tensors({key: tensor for key, tensor in tensors.items() if key != name}, 2, "here")
    with pytest.raises(CheckpointError, match=r"'ngrams\.weight' is missing, or has another shape"):
        WordModel.from_tensors(tensors, 3, "here")
    with pytest.raises(CheckpointError, match=r"'ngrams\.codes' is torch\.int64"):
        WordModel.from_tensors(tensors | {"ngrams.codes": tensors["ngrams.codes"].long()}, 2, "here")


def test_shares_add_up_to_the_logit_and_stand_where_the_words_do() -> None:
    """Also of a word that occurs twice, and where small letters would be longer than capitals."""
    one, text = fitted(), "İ Good, good fun"
    shares = one.shares(text, 1)
    assert sum(share for _, share in shares) + one.bias[1] == pytest.approx(one.logits([text])[0, 1], abs=1e-5)
    assert {text[gram.start : gram.end] for gram, _ in shares} >= {"Good", "good", "Good,", ", good", "good fun"}


def test_the_two_texts_of_a_pair_are_told_apart() -> None:
    """What the first says is not taken for the second's, and no pair of words reaches across."""
    first, second = (list(grams(pair)) for pair in (("a b", "c"), ("c", "a b")))
    assert not {gram.code for gram in first} & {gram.code for gram in second}
    assert len(first) == 4


def test_texts_without_common_words_give_nothing() -> None:
    assert WordModel.fit(["a", "b", "c d"], indicators(np.array([0, 1, 1]), 2), multi=False) is None


def test_labels_that_all_or_no_rows_have_need_no_regression() -> None:
    inputs = np.eye(4)
    truth = np.array([[True, False, True], [True, False, False], [True, False, True], [True, False, False]])
    weights, biases = regress(inputs, truth, 1.0, multi=True)
    assert not weights[:2].any() and biases[0] == -biases[1] > 2 and weights[2].any()
    weights, biases = regress(inputs, indicators(np.array([0, 0, 2, 2]), 3), 1.0, multi=False)
    assert biases[1] == -np.inf and not weights[1].any() and np.isfinite(biases[[0, 2]]).all()


@pytest.mark.parametrize("several", [False, True])
def test_a_mixture_takes_what_helps(several: bool) -> None:
    """Of two independent witnesses both are heard, of noise nothing, and without another model it is a temperature."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 2000)
    labels = indicators(truth, 3) if several else truth
    witness, other = (2.0 * indicators(truth, 3) + rng.normal(size=(2000, 3)) for _ in range(2))
    if several:  # log-odds of a normal at 2 against one at 0
        witness, other = (2 * (part - 1) - np.log(2) for part in (witness, other))
    weight, temperature = fit_mixture(witness, other, labels)
    assert weight == 1.0 and temperature == pytest.approx(1.0 if several else 0.5, rel=0.15)
    assert fit_mixture(witness, 3 * rng.normal(size=(2000, 3)), labels)[0] == 0.0
    assert fit_mixture(witness, None, labels)[0] == 0.0


def test_without_calibration_there_is_nothing_to_weigh_them_by() -> None:
    with pytest.raises(ConfigError, match="set both to false"):
        ClassifyOptions(ngrams=True, calibrate=False)
