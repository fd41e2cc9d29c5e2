# SPDX-License-Identifier: GPL-2.0-only
"""The cache, locks, and running tools."""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[1]
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class Failure(Exception):
    """Something the user can act on; shown without a traceback."""


def note(text):
    """Progress, for a person: always on stderr."""
    print(f"vm: {text}", file=sys.stderr, flush=True)


def cache():
    """The cache directory, created if need be."""
    path = os.environ.get("TIX_CACHE")
    if not path:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        path = os.path.join(base, "tix")
    path = Path(path).absolute()
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def locked(name):
    """One process at a time does what `name` stands for; says so when it has to wait."""
    path = cache() / f"{name}.lock"
    with open(path, "w", encoding="ascii") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note(f"waiting for another process ({path})")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def scratch(prefix):
    """A directory in the cache (same file system, so that results can be renamed), removed afterwards."""
    path = Path(tempfile.mkdtemp(prefix=f"{prefix}.", dir=cache()))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def need(tool):
    """The path of `tool`, also from the sbin directories an ordinary user has not in PATH."""
    found = shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not found:
        raise Failure(f"{tool} is missing: run {HERE}/deps --install")
    return found


def call(argv, **kwargs):
    """Run a command; its output is shown only when it fails."""
    argv = [str(a) for a in argv]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, **kwargs)
    if done.returncode:
        raise Failure(f"{' '.join(argv)}: exit status {done.returncode}\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


def main(run):
    """Run a tool's main function; failures are a line on stderr and exit status 125."""
    try:
        sys.exit(run())
    except Failure as err:
        print(f"{Path(sys.argv[0]).name}: {err}", file=sys.stderr)
        sys.exit(125)
    except KeyboardInterrupt:
        sys.exit(130)
