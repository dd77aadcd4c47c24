"""Checkpoints: save models to disk and load them by name; `loading` has the steps of `suite.load`."""

from suite.checkpoint.format import (
    Checkpoint,
    expected_tensors,
    fingerprint,
    load_checkpoint,
    mark_unfinished,
    save_checkpoint,
    skeleton,
    untied,
)
from suite.checkpoint.generation import Generation
from suite.checkpoint.hub import PUBLISHED, resolve
from suite.checkpoint.loading import convert, load, read, vocabulary
from suite.checkpoint.model import Model
from suite.checkpoint.settings import Base, Unfinished, read_config
from suite.checkpoint.tensors import Storage, check_shapes, read_tensors, write_atomic, write_tensors

__all__ = [
    "PUBLISHED",
    "Base",
    "Checkpoint",
    "Generation",
    "Model",
    "Storage",
    "Unfinished",
    "check_shapes",
    "convert",
    "expected_tensors",
    "fingerprint",
    "load",
    "load_checkpoint",
    "mark_unfinished",
    "read",
    "read_config",
    "read_tensors",
    "resolve",
    "save_checkpoint",
    "skeleton",
    "untied",
    "vocabulary",
    "write_atomic",
    "write_tensors",
]
