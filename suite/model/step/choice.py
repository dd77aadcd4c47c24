"""When the compiled step is used, and where its code is kept.

Compiling takes some ten seconds, once a machine; loading the code again takes Numba's import and a little more. So a
process decodes with PyTorch until it has spent as long on that as loading takes, and then loads the code in a thread
beside it; where there is none yet, another process compiles it meanwhile, and outlives this one if need be. The tokens
change by no more than the rounding of float32 when the change-over comes.

The environment variable SUITE_STEP overrules this: `torch` never uses the compiled step, `compiled` waits for it.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from suite.errors import ConfigError
from suite.files import cache_directory
from suite.model.cache import KVCache
from suite.model.step import LIMIT, installed, tell
from suite.model.transformer import Transformer

if TYPE_CHECKING:
    from suite.model.step.bound import BoundStep

MODES = ("auto", "torch", "compiled")
LOADING = 0.5  # seconds that loading the code takes, about
STALE = 300.0  # seconds after which a compiling process is taken for dead
COMPILED = ("arithmetic", "atomics", "layout", "machine", "multiply", "work")  # files whose functions are compiled
COMPLETE, COMPILING = "complete", "compiling"  # files in the directory of the code


class Stepper:
    """Takes decoding steps of a transformer with the compiled step, as soon as that pays.

    Args:
        transformer: in evaluation mode.
    """

    def __init__(self, transformer: Transformer) -> None:
        self.transformer = transformer
        self.bound: BoundStep | None = None
        self.open = mode() != "torch" and transformer.norm.weight.device.type == "cpu"
        if self.open and not installed():
            tell("decoding with PyTorch: Numba is not installed")
            self.open = False

    def __call__(self, tokens: Sequence[int], cache: KVCache) -> Tensor | None:
        """Feed a new token per row; returns the logits (B, V) of the next, or None: PyTorch must take this step."""
        if not self.open or len(tokens) > LIMIT or cache.static:
            return None
        if self.bound is None:
            if not kernels.ready(wait=mode() == "compiled"):
                return None
            self._bind(cache)
        return None if self.bound is None else self.bound(tokens, cache)

    def _bind(self, cache: KVCache) -> None:
        from suite.model.step.bound import BoundStep, threads_for, why_not

        if reason := why_not(self.transformer, cache.keys[0].dtype):
            tell(f"decoding with PyTorch: the compiled step does not know {reason}")
            self.open = False
            return
        self.bound = BoundStep(self.transformer, threads_for(self.transformer, cache.batch))


def mode() -> str:
    """What SUITE_STEP says.

    Raises:
        ConfigError: it says none of `MODES`.
    """
    named = os.environ.get("SUITE_STEP") or "auto"
    if named not in MODES:
        raise ConfigError(f"SUITE_STEP is {named!r}; the choices are {', '.join(MODES)}")
    return named


class Kernels:
    """The compiled code in this process: absent, on its way, or ready."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.loaded = self.failed = False
        self.thread: threading.Thread | None = None
        self.began: float | None = None

    def ready(self, *, wait: bool) -> bool:
        """Whether the code is there; asked before each step that it could take.

        Args:
            wait: for the code, however long it compiles.
        """
        if self.loaded or self.failed:
            return self.loaded
        if wait:
            self.load(patient=True)
            return self.loaded
        if self.began is None:
            self.began = time.process_time()
        elif self.thread is None and time.process_time() - self.began > LOADING:
            self.thread = threading.Thread(target=self.load, name="suite-step-load", daemon=True)
            self.thread.start()
        return self.loaded

    def load(self, patient: bool = False) -> None:
        """Load the code, after another process has compiled it if it is not there yet.

        Args:
            patient: compile it here and now, also where it cannot be kept.
        """
        with self.lock:
            if self.loaded or self.failed:
                return
            try:
                directory = code_directory()
                if not patient and (directory is None or not compiled_elsewhere(directory)):
                    tell("decoding with PyTorch: there is no place to keep compiled code, or it does not compile")
                    self.failed = True
                    return
                import_kernels(directory)
                self.loaded = True
            except Exception as error:  # whatever is wrong with this machine's compiler, PyTorch works
                if patient:
                    raise
                tell(f"decoding with PyTorch: {type(error).__name__}: {error}")
                self.failed = True


kernels = Kernels()


def code_directory() -> Path | None:
    """Where code is kept: a directory for each kind of CPU, version of Numba, and state of these sources.

    Returns:
        None if nothing can be written there.
    """
    import llvmlite
    from llvmlite import binding

    digest = hashlib.sha256()
    for name in COMPILED:
        source = Path(__file__).with_name(f"{name}.py")
        digest.update(f"{source} {source.stat().st_mtime_ns} {source.stat().st_size}".encode())
    features = binding.get_host_cpu_features().flatten()
    versions = importlib.metadata.version("numba"), llvmlite.__version__, platform.python_version()
    digest.update(" ".join((*versions, binding.get_host_cpu_name(), features)).encode())
    try:
        directory = cache_directory() / "step" / digest.hexdigest()[:16]
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return directory
    except OSError:
        return None


def compiled_elsewhere(directory: Path) -> bool:
    """Have another process compile the code, unless it is there; whether it is there in the end."""
    done, busy = directory / COMPLETE, directory / COMPILING
    if done.exists():
        return True
    with suppress(OSError):
        if time.time() - busy.stat().st_mtime > STALE:
            busy.unlink()
    try:
        busy.touch(exist_ok=False)
    except FileExistsError:  # some process is at it already
        while busy.exists() and not done.exists():
            time.sleep(0.2)
        return done.exists()
    command = [sys.executable, "-c", "from suite.model.step.choice import compile_here; compile_here()"]
    # a session of its own: Ctrl-C in this one must not leave the next one without code
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(command, **options, start_new_session=True, check=False)  # type: ignore[call-overload]
    busy.unlink(missing_ok=True)
    return done.exists()


def compile_here() -> None:
    """Compile the code and keep it; what the other process does."""
    if hasattr(os, "nice"):
        os.nice(10)
    directory = code_directory()
    if directory is not None:
        try:
            import_kernels(directory)
        finally:
            (directory / COMPILING).unlink(missing_ok=True)


def import_kernels(directory: Path | None) -> None:
    """Import the compiled functions, which compiles them or loads them from a directory (None: they are not kept)."""
    import numba

    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = str(directory or "")  # read while the functions are made, and of no effect afterwards
    try:
        from suite.model.step import work
    except Exception:  # perhaps a damaged file
        if directory is None:
            raise
        shutil.rmtree(directory, ignore_errors=True)
        raise
    finally:
        config.CACHE_DIR = before
    assert work.work is not None
    if directory is not None:
        with suppress(OSError):
            (directory / COMPLETE).touch()
