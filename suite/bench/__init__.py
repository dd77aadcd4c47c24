"""Speed compared with `transformers` doing the same work in the same run, and what long texts cost.

    >>> from suite import bench
    >>> bench.decode(bench.DecodeOptions(new=32), say=print)  # doctest: +SKIP

The speed of a machine drifts, so the systems take turns and each figure is the best of its turns; compare ratios, not
tokens/s. Names are imported when they are first used, so that the command line reads the options without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suite.bench.decoding import BASELINE, as_transformers, decode
    from suite.bench.long_texts import LAYERS, Cost, attention, cost
    from suite.bench.options import AttentionOptions, DecodeOptions, RecipeOptions, TrainOptions
    from suite.bench.recipe_steps import SAMPLES, RecipeSpeed, random_music, recipes
    from suite.bench.timing import Speed, best_times, memory_bandwidth, peak_memory
    from suite.bench.training import train

_HOMES = {  # no module is called as one of its functions: importing it would put the module in the function's place
    "decoding": ("BASELINE", "as_transformers", "decode"),
    "long_texts": ("LAYERS", "Cost", "attention", "cost"),
    "options": ("AttentionOptions", "DecodeOptions", "RecipeOptions", "TrainOptions"),
    "recipe_steps": ("SAMPLES", "RecipeSpeed", "random_music", "recipes"),
    "timing": ("Speed", "best_times", "memory_bandwidth", "peak_memory"),
    "training": ("train",),
}

__all__ = [
    "BASELINE",
    "LAYERS",
    "SAMPLES",
    "AttentionOptions",
    "Cost",
    "DecodeOptions",
    "RecipeOptions",
    "RecipeSpeed",
    "Speed",
    "TrainOptions",
    "as_transformers",
    "attention",
    "best_times",
    "cost",
    "decode",
    "memory_bandwidth",
    "peak_memory",
    "random_music",
    "recipes",
    "train",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"suite.bench.{home}"), name)
    raise AttributeError(f"module 'suite.bench' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
