"""The transformer: its configuration, its attention, its cache."""

from suite.model.cache import KVCache
from suite.model.config import ModelConfig
from suite.model.transformer import Transformer

__all__ = ["KVCache", "ModelConfig", "Transformer"]
