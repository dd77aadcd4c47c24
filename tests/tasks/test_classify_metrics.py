"""The figures of a classifier, by hand and beside scikit-learn."""

import math
import warnings

import numpy as np
import pytest
import torch
from sklearn import metrics as reference

from suite.tasks.classify import metrics
from suite.tasks.classify.calibrate import fit_temperature

RANDOM = np.random.default_rng(0)
TRUTH = RANDOM.integers(0, 5, 400)
PROBABILITIES = RANDOM.dirichlet(np.ones(5), 400)
PROBABILITIES[np.arange(400), TRUTH] += 0.3
PROBABILITIES /= PROBABILITIES.sum(axis=1, keepdims=True)
PREDICTED = PROBABILITIES.argmax(axis=1)
YES = RANDOM.random((300, 4)) < [0.5, 0.2, 0.8, 0.1]
CHANCES = np.where(YES, RANDOM.beta(3, 2, YES.shape), RANDOM.beta(2, 3, YES.shape))


# ---- right and wrong


def test_class_scores_are_those_of_scikit_learn() -> None:
    found = metrics.class_scores(metrics.indicators(PREDICTED, 5), metrics.indicators(TRUTH, 5))
    precision, recall, f1, support = reference.precision_recall_fscore_support(TRUTH, PREDICTED)
    np.testing.assert_allclose(found.precision, precision)
    np.testing.assert_allclose(found.recall, recall)
    np.testing.assert_allclose(found.f1, f1)
    np.testing.assert_array_equal(found.support, support)
    assert found.macro_f1 == pytest.approx(reference.f1_score(TRUTH, PREDICTED, average="macro"))


def test_a_class_without_examples_or_predictions_has_no_score_and_lowers_no_mean() -> None:
    """Counted as 0, a class that the test data lacks would halve the macro-F1 of a perfect classifier."""
    classes = np.array([0, 0, 1])
    perfect = metrics.class_scores(metrics.indicators(classes, 4), metrics.indicators(classes, 4))
    assert perfect.macro_f1 == 1.0 and np.isnan(perfect.f1[2:]).all()
    predicted = metrics.class_scores(metrics.indicators(np.array([0, 2, 1]), 4), metrics.indicators(classes, 4))
    assert predicted.precision[2] == 0 and np.isnan(predicted.recall[2]) and np.isnan(predicted.precision[3])
    assert predicted.macro_f1 == pytest.approx((2 / 3 + 1 + 0) / 3)


def test_confusion_has_the_truth_in_its_rows() -> None:
    """Transposed, it tells the opposite of every mistake."""
    found = metrics.confusion_matrix(PREDICTED, metrics.indicators(TRUTH, 5))
    np.testing.assert_array_equal(found, reference.confusion_matrix(TRUTH, PREDICTED))
    assert metrics.confusion_matrix(np.array([1, 1]), np.array([[True, False]] * 2)).tolist() == [[0, 2], [0, 0]]


def test_one_of_several_right_classes_is_no_confusion() -> None:
    """Counted for the named one alone, a class that always comes with another would have an empty row."""
    truth = np.array([[True, True, False], [True, True, False], [False, False, False]])
    assert metrics.confusion_matrix(np.array([1, 2, 0]), truth).tolist() == [[1, 0, 1], [0, 1, 1], [0, 0, 0]]


def test_most_confused_pairs_leave_out_what_was_right() -> None:
    matrix = np.array([[50, 3, 0], [3, 7, 1], [0, 4, 0]])
    found = metrics.most_confused(matrix, top=3)
    assert [(one.truth, one.predicted, one.count) for one in found] == [(2, 1, 4), (1, 0, 3), (0, 1, 3)]
    assert found[0].share == 1.0 and found[1].share == pytest.approx(3 / 11)
    assert metrics.most_confused(np.diag([3, 0])) == []


# ---- ranking


def test_auroc_is_that_of_scikit_learn_with_ties() -> None:
    scores = np.round(PROBABILITIES[:, 0], 1)
    assert metrics.auroc(scores, TRUTH == 0) == pytest.approx(reference.roc_auc_score(TRUTH == 0, scores))
    assert metrics.auroc(np.zeros(4), np.array([True, False, False, True])) == 0.5
    assert math.isnan(metrics.auroc(np.arange(3.0), np.ones(3, dtype=bool)))


def test_class_aurocs_are_one_against_the_rest() -> None:
    expected = reference.roc_auc_score(TRUTH, PROBABILITIES, multi_class="ovr", average="macro")
    assert metrics.single_label(PROBABILITIES, TRUTH)["auc"] == pytest.approx(expected)
    absent = np.concatenate([PROBABILITIES, np.full((400, 1), 0.01)], axis=1)
    assert metrics.single_label(absent, TRUTH)["auc"] == pytest.approx(expected)


def test_unsure_examples_are_out_of_scope() -> None:
    probabilities = np.array([[0.9, 0.1, 0.0], [0.4, 0.3, 0.3], [0.8, 0.1, 0.1], [0.5, 0.5, 0.0]])
    outside = np.array([False, True, False, True])
    assert metrics.out_of_scope_auroc(probabilities, outside) == {"max_probability": 1.0, "entropy": 1.0}
    assert metrics.out_of_scope_auroc(probabilities, ~outside) == {"max_probability": 0.0, "entropy": 0.0}


# ---- probabilities


def test_negative_log_likelihood() -> None:
    found = metrics.negative_log_likelihood(PROBABILITIES, TRUTH)
    assert found == pytest.approx(reference.log_loss(TRUTH, PROBABILITIES))
    assert metrics.negative_log_likelihood(np.array([[0.5, 0.25]]), np.array([[True, False]])) == pytest.approx(
        (math.log(2) + math.log(4 / 3)) / 2
    )


def test_one_impossible_example_leaves_the_mean_finite() -> None:
    assert metrics.negative_log_likelihood(np.array([[1.0, 0.0]]), np.array([1])) == pytest.approx(15 * math.log(10))


def test_calibration_error_by_hand() -> None:
    confidence = np.array([0.95, 0.95, 0.95, 0.85, 0.55, 0.55])
    right = np.array([True, True, False, True, True, False])
    found = metrics.reliability(confidence, right, bins=10)
    assert found.count.tolist() == [0, 0, 0, 0, 0, 2, 0, 0, 1, 3]
    assert found.accuracy[9] == pytest.approx(2 / 3) and found.confidence[9] == pytest.approx(0.95)
    assert np.isnan(found.accuracy[0])
    assert found.error == pytest.approx((2 * 0.05 + 1 * 0.15 + 3 * (0.95 - 2 / 3)) / 6)


def test_every_prediction_has_a_bin() -> None:
    """0 has no bin below its lower edge, and float32 probabilities come out a little above 1."""
    confidence = np.array([0.0, 1.0, 1.0000001, 0.2, 0.20001])
    found = metrics.reliability(confidence, np.ones(5, dtype=bool), bins=5)
    assert found.count.tolist() == [2, 1, 0, 0, 2]
    assert metrics.reliability(PROBABILITIES.max(axis=1), PREDICTED == TRUTH).count.shape == (15,)


# ---- several labels


def test_multi_label_figures_are_those_of_scikit_learn() -> None:
    named = CHANCES >= 0.5
    found = metrics.multi_label(CHANCES, named, YES)
    assert found["subset_accuracy"] == pytest.approx(reference.accuracy_score(YES, named))
    assert found["micro_f1"] == pytest.approx(reference.f1_score(YES, named, average="micro"))
    assert found["macro_f1"] == pytest.approx(reference.f1_score(YES, named, average="macro"))
    assert found["auc"] == pytest.approx(reference.roc_auc_score(YES, CHANCES, average="macro"))
    assert found["nll"] == pytest.approx(np.mean([reference.log_loss(YES[:, k], CHANCES[:, k]) for k in range(4)]))


def test_the_top_label_is_right_if_it_is_one_of_several() -> None:
    """An example without labels has no right answer, and counts for neither side."""
    probabilities = np.array([[0.4, 0.3, 0.1], [0.2, 0.9, 0.8], [0.9, 0.1, 0.1]])
    truth = np.array([[True, True, False], [True, False, True], [False, False, False]])
    found = metrics.multi_label(probabilities, probabilities >= 0.5, truth)
    assert found["top_accuracy"] == 0.5
    assert found["top_ece"] == pytest.approx((0.6 + 2 * 0.9) / 3)  # 0.4 right; 0.9 and 0.9, in one bin, wrong


# ---- temperature


def nll(logits: np.ndarray, truth: np.ndarray, temperature: float) -> float:
    return float(torch.nn.functional.cross_entropy(torch.tensor(logits) / temperature, torch.tensor(truth)))


def test_the_temperature_that_made_logits_too_sharp_is_found_again() -> None:
    """Labels drawn from the softmax itself are calibrated, so three times the logits needs a temperature of three."""
    random = np.random.default_rng(1)
    logits = 2 * random.standard_normal((20_000, 6))
    truth = (logits + random.gumbel(size=logits.shape)).argmax(axis=1)
    assert fit_temperature(logits, truth) == pytest.approx(1, rel=0.02)
    assert fit_temperature(torch.tensor(3 * logits), torch.tensor(truth)) == pytest.approx(3, rel=0.02)


def test_no_temperature_nearby_is_likelier() -> None:
    logits = 4 * np.log(PROBABILITIES)
    best = fit_temperature(logits, TRUTH)
    assert nll(logits, TRUTH, best) < min(nll(logits, TRUTH, best * 0.9), nll(logits, TRUTH, best * 1.1))


def test_independent_classes_share_one_temperature() -> None:
    random = np.random.default_rng(2)
    logits = 1.5 * random.standard_normal((8000, 5))
    truth = random.random(logits.shape) < 1 / (1 + np.exp(-logits))
    assert fit_temperature(4 * logits, truth) == pytest.approx(4, rel=0.04)


def test_one_sided_examples_give_a_usable_temperature() -> None:
    """Ten examples that are all right must not make every probability one, nor ten wrong ones divide by zero."""
    logits = np.tile([3.0, 0.0, 0.0], (10, 1))
    right = fit_temperature(logits, np.zeros(10, dtype=int))
    assert 0.3 < right < 3
    top = np.exp(3 / right) / (np.exp(3 / right) + 2)
    assert top == pytest.approx((10 + 1 / 3) / 11)  # what the smoothed labels say
    assert fit_temperature(logits, np.ones(10, dtype=int)) == 100
    assert fit_temperature(np.zeros((4, 3)), np.array([0, 1, 2, 0])) == 1
    assert fit_temperature(np.empty((0, 3)), np.empty(0, dtype=int)) == 1
    assert fit_temperature(logits - 1e4, np.zeros(10, dtype=int)) == pytest.approx(right)


def test_extreme_logits_raise_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_temperature(np.array([[1e4, -1e4], [-1e4, 1e4]]), np.array([0, 0]))
        fit_temperature(np.array([[1e4, -1e4], [-1e4, 1e4]]), np.array([[True, False], [True, False]]))
