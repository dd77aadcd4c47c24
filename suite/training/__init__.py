"""Training: batches, loss, optimizers, the loop, and the state it resumes from."""

from suite.training.batches import Batch, Example, PackedSource, ShuffledSource
from suite.training.loop import TrainResult, train
from suite.training.loss import cross_entropy, language_modelling
from suite.training.recipe import Recipe

__all__ = [
    "Batch",
    "Example",
    "PackedSource",
    "Recipe",
    "ShuffledSource",
    "TrainResult",
    "cross_entropy",
    "language_modelling",
    "train",
]
