# SPDX-License-Identifier: GPL-2.0-only
"""What the parts of the guest harness share: the cache, locks, apt with lists of its own."""

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[1]
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# Aliases, so that this list needs no care when Debian releases.
SUITES = ["oldstable-backports", "stable", "stable-backports", "testing", "unstable"]


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


def mirror():
    """The host's own Debian mirror (TIX_MIRROR overrides), from its apt sources."""
    named = os.environ.get("TIX_MIRROR")
    if named:
        return named
    fields = "$(REPO_URI)|$(ORIGIN)|$(LABEL)|$(COMPONENT)"
    seen = []
    for line in call([need("apt-get"), "indextargets", "--format", fields, "Created-By: Packages"]).splitlines():
        uri, origin, label, component = (line.split("|") + [""] * 4)[:4]
        if component == "main":
            seen.append((uri, origin, label))
    for uri, origin, label in seen:
        if origin == "Debian" and label == "Debian":
            return uri
    for uri, _, _ in seen:  # the lists were never fetched, so Origin is unknown
        if re.search(r"/debian/?$", uri):
            return uri
    raise Failure("no Debian mirror among the host's apt sources; name one with TIX_MIRROR=URI")


class Apt:
    """apt-get and apt-cache over other suites, with lists of their own: the host's are not touched, root is not needed."""

    def __init__(self):
        self.dir = cache() / "apt"
        for sub in ("lists/partial", "cache/archives/partial"):
            (self.dir / sub).mkdir(parents=True, exist_ok=True)
        sources = "".join(f"deb [signed-by={KEYRING}] {mirror()} {s} main\n" for s in SUITES)
        (self.dir / "sources.list").write_text(sources, encoding="utf-8")
        (self.dir / "apt.conf").write_text(
            f'Dir::Etc::SourceList "{self.dir}/sources.list";\n'
            'Dir::Etc::SourceParts "-";\nDir::Etc::Preferences "-";\nDir::Etc::PreferencesParts "-";\n'
            f'Dir::State::Lists "{self.dir}/lists";\nDir::Cache "{self.dir}/cache";\n'
            'Acquire::Languages "none";\nAcquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";\n'
            'APT::Sandbox::User "";\nAPT::Architecture "amd64";\n',
            encoding="utf-8",
        )
        self.env = dict(os.environ, APT_CONFIG=str(self.dir / "apt.conf"), LC_ALL="C")

    def update(self):
        """Fetch the package lists. A suite the mirror lacks is no failure; having none is."""
        note(f"fetching the package lists of {', '.join(SUITES)} (about 32 MB)")
        done = subprocess.run(
            [need("apt-get"), "-qq", "--allow-releaseinfo-change", "update"],
            env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )
        if not list((self.dir / "lists").glob("*_Packages*")):
            raise Failure(f"apt-get update fetched nothing:\n{done.stdout}{done.stderr}")
        if done.returncode:
            note(f"some lists are missing: {done.stderr.strip()}")

    def search(self, pattern):
        """Names of packages that match."""
        out = call([need("apt-cache"), "search", "--names-only", pattern], env=self.env)
        return [line.split(" ")[0] for line in out.splitlines()]

    def depends(self, package):
        """Names of what a package depends on directly."""
        out = call([need("apt-cache"), "depends", "--important", package], env=self.env)
        return re.findall(r"Depends: (\S+)", out)

    def fetch(self, packages, dest):
        """Download packages (apt checks sizes and hashes) and unpack them below dest."""
        note(f"downloading {' '.join(packages)}")
        with scratch("debs") as debs:
            call([need("apt-get"), "-qq", "download", *packages], env=self.env, cwd=debs)
            for deb in sorted(debs.glob("*.deb")):
                call([need("dpkg-deb"), "-x", deb, dest])


def main(run):
    """Run a tool's main function; failures are a line on stderr and exit status 125."""
    try:
        sys.exit(run())
    except Failure as err:
        print(f"{Path(sys.argv[0]).name}: {err}", file=sys.stderr)
        sys.exit(125)
    except KeyboardInterrupt:
        sys.exit(130)
