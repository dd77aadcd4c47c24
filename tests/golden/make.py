"""What the project computes, written down, so that a change meant to leave it alone can be seen to do so.

    python tests/golden/make.py                     # compute everything again, rewrite what changed, and say what did
    python tests/golden/make.py errors commands     # only these sections
    python tests/golden/make.py --check             # rewrite nothing; exit 1 if something changed

Needs the package installed (`pip install -e .`) and nothing else: no network, no data but data/samples, and no file
outside a temporary directory is written. `test_golden.py` runs the same in CI.

Each section is a JSON file beside this one:

    losses      the first steps of every recipe at toy size, and of variants of them
    logits      of the embedded models
    commands    what commands write that succeed
    errors      what commands write that fail

A value that is equal within the section's tolerance (`compare.py`) counts as unchanged and stays in the file as it was,
so that another CPU rewrites nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

HERE = Path(__file__).parent
SECTIONS = ("losses", "logits", "commands", "errors")


def prepare(folder: Path) -> None:
    """Make this process independent of the user's settings; must come before torch is imported."""
    for name in ("SUITE_DEBUG", "SUITE_CACHE", "XDG_CACHE_HOME", "HF_TOKEN", "RANK", "WORLD_SIZE", "_SUITE_COMPLETE"):
        os.environ.pop(name, None)
    for name in ("HOME", "SUITE_CACHE", "XDG_CACHE_HOME", "HF_HOME", "MPLCONFIGDIR", "TORCHINDUCTOR_CACHE_DIR"):
        os.environ[name] = str(folder / name.lower())
    os.environ |= {
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "NO_COLOR": "1",
        "COLUMNS": "100",
    }
    warnings.simplefilter("ignore")  # a library's, which says something once a process, and not always


def compute(section: str, folder: Path) -> dict[str, object]:
    """One section's entries by name; toys are written to a new folder in `folder`."""
    import commands
    import logits
    import losses
    import toys

    place = folder / section
    place.mkdir()
    os.chdir(place)
    toys.write(place)
    entries = {
        "losses": losses.compute,
        "logits": logits.compute,
        "commands": commands.compute,
        "errors": commands.compute_errors,
    }[section]()
    return dict(entries)


def main() -> int:
    """Compute, compare, and write unless told not to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}  [default: all]")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if something changed")
    parser.add_argument("--seconds", action="store_true", help="say what each section takes of a processor")
    options = parser.parse_args()
    if wrong := [name for name in options.sections if name not in SECTIONS]:
        parser.error(f"no section {wrong[0]!r}; there are {', '.join(SECTIONS)}")
    import compare

    changes = 0
    with tempfile.TemporaryDirectory(prefix="golden-") as temporary:
        folder = Path(temporary).resolve()
        prepare(folder)
        import torch

        torch.set_num_threads(1)
        for section in options.sections or SECTIONS:
            started = time.process_time()
            fresh = compute(section, folder)
            path = HERE / f"{section}.json"
            old = compare.read(path)
            kept = {}
            for name, value in fresh.items():
                differences = compare.differences(old.get(name), value, section)
                kept[name] = value if differences else old[name]
                for line in differences:
                    print(f"{section}: {name}: {line}")
                changes += bool(differences)
            for name in sorted(set(old) - set(fresh)):
                print(f"{section}: {name}: is no longer computed")
                changes += 1
            if options.seconds:
                print(f"{section}: {len(fresh)} entries, {time.process_time() - started:.1f} s", file=sys.stderr)
            if not options.check:
                compare.write(path, kept)
        os.chdir(HERE)  # the temporary directory cannot be removed from within on every system
    print(f"{changes} of the golden entries changed" if changes else "nothing changed")
    return 1 if changes and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
