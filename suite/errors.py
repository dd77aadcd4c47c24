"""Errors a user can cause. Each message is one line: what was wrong, where, what to do."""

from numbers import Real


class SuiteError(Exception):
    """A problem with what the user gave us; the command line prints it and exits with 2."""


class ConfigError(SuiteError):
    """A recipe, a model configuration or an option that cannot be."""


class DataError(SuiteError):
    """A record, file or data set that cannot be read."""


class CheckpointError(SuiteError):
    """A checkpoint that is missing, damaged, or not what its configuration says."""


class UnfinishedWarning(UserWarning):
    """A model that is loaded is of a run that has not come to its end; the command line shows the message alone."""


def require_numbers(**values: object) -> None:
    """Raise a ConfigError for the first value that is not a number; a text such as "5" would fail far away.

    Example:
        >>> require_numbers(seconds=5, tempo="fast")
        Traceback (most recent call last):
        suite.errors.ConfigError: tempo is 'fast', but must be a number
    """
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, Real):
            raise ConfigError(f"{name} is {value!r}, but must be a number")
