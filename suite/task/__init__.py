"""What a task is to the core (`contract`), how tasks are found (`registry`), and what they share (`kit`).

Nothing here imports torch: `suite --help` finds tasks without paying for it.
"""

from suite.task.contract import Codec, PackagedTask, Prompt, Task, TrainingData
from suite.task.registry import GROUP, embedded, find_task, registered, suggest
from suite.task.results import Result
from suite.task.tables import DataTable, NoOptions, TokenizerTable, read_extra

__all__ = [
    "GROUP",
    "Codec",
    "DataTable",
    "NoOptions",
    "PackagedTask",
    "Prompt",
    "Result",
    "Task",
    "TokenizerTable",
    "TrainingData",
    "embedded",
    "find_task",
    "read_extra",
    "registered",
    "suggest",
]
