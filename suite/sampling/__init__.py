"""Sampling: generate new tokens from prompts with a transformer."""

from suite.sampling.beam import Hypothesis, beam_search
from suite.sampling.generate import Generated, Step, generate, stream
from suite.sampling.rules import Grammar, Sampling, SteeringGrammar, with_settings

__all__ = [
    "Generated",
    "Grammar",
    "Hypothesis",
    "Sampling",
    "SteeringGrammar",
    "Step",
    "beam_search",
    "generate",
    "stream",
    "with_settings",
]
