"""Evaluation: token losses, n-gram and xz baselines, bootstrap intervals, and reports."""

from suite.evaluation.baselines import NGrams, xz_bits_per_byte
from suite.evaluation.bootstrap import Interval, bootstrap
from suite.evaluation.losses import token_losses
from suite.evaluation.report import Figure, Report, Table

__all__ = [
    "Figure",
    "Interval",
    "NGrams",
    "Report",
    "Table",
    "bootstrap",
    "token_losses",
    "xz_bits_per_byte",
]
