"""Sampling: from a transformer and prompts to new tokens."""

from suite.sampling.generate import Generated, Step, generate, stream
from suite.sampling.rules import Grammar, Sampling

__all__ = ["Generated", "Grammar", "Sampling", "Step", "generate", "stream"]
