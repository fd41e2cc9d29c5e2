# SPDX-License-Identifier: GPL-2.0-only
"""Guests that are saved once and restored for each command.

A state is a guest that has booted, was set up (tests/vm/guest/setup) and is at rest. Its memory is
a file: the guest that is saved shares it, those that are restored map it privately, so that
restoring reads nothing but the state of the devices. A slot holds the state of one configuration
of one working tree; when anything that the guest was made of changes, the slot is made anew.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

SETUPS = {
    "bare": [],
    "scheduler": ["scx_tix"],
    "tixd": ["tixd", "tixctl", "tix-negotiate"],
}
# What tests read from the working tree, beside the programs.
SOURCES = ["debian", "policies"]
UNUSED_DAYS = 3


class Trouble(Exception):
    """What keeps the guest from running, in words for the user."""


class Ended(Trouble):
    """QEMU is there no more."""


class Monitor:
    """QEMU's machine protocol."""

    def __init__(self):
        self.ours, self.theirs = socket.socketpair()
        self.lines = self.ours.makefile()
        # Told while a reply was waited for, and not asked for yet.
        self.events = []

    def options(self):
        fd = self.theirs.fileno()
        return ["-chardev", f"socket,id=monitor,fd={fd}", "-mon", "chardev=monitor,mode=control"]

    def read(self):
        line = self.lines.readline()
        if not line:
            raise Ended("QEMU ended")
        return json.loads(line)

    def execute(self, command, **arguments):
        request = {"execute": command} | ({"arguments": arguments} if arguments else {})
        self.ours.sendall(json.dumps(request).encode())
        while True:
            reply = self.read()
            if "error" in reply:
                raise Trouble(f"QEMU refuses {command}: {reply['error']['desc']}")
            if "return" in reply:
                return reply["return"]
            self.events.append(reply.get("event"))

    def wait(self, event):
        while event not in self.events:
            self.events.append(self.read().get("event"))
        self.events = self.events[self.events.index(event) + 1 :]

    def begin(self):
        """Its memory is not part of what is saved: it is a file already."""
        self.execute("qmp_capabilities")
        shared = {"capability": "x-ignore-shared", "state": True}
        self.execute("migrate-set-capabilities", capabilities=[shared])

    def give(self, file):
        request = {"execute": "getfd", "arguments": {"fdname": "file"}}
        socket.send_fds(self.ours, [json.dumps(request).encode()], [file.fileno()])
        while "return" not in self.read():
            pass

    def save(self, path):
        self.begin()
        self.execute("stop")
        with open(path, "wb") as file:
            self.give(file)
        self.execute("migrate", uri="fd:file")
        while (status := self.execute("query-migrate").get("status")) != "completed":
            if status in ("failed", "cancelled"):
                raise Trouble(f"the guest cannot be saved: migration {status}")
            time.sleep(0.02)
        self.execute("quit")

    def restore(self, path):
        self.begin()
        with open(path, "rb") as file:
            self.give(file)
        self.execute("migrate-incoming", uri="fd:file")
        while (status := self.execute("query-status")["status"]) == "inmigrate":
            time.sleep(0.005)
        if status != "paused":
            raise Trouble(f"the guest is not restored: {status}")
        self.execute("cont")


def places(tree):
    """Where cargo leaves the programs that setups need, as tests/vm/guest/setup calls these places."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or tree / "target")
    profile = os.environ.get("TIX_PROFILE") or "release"
    return {"built": target / ("debug" if profile == "dev" else profile), "examples": target / "debug/examples"}


def programs(tree, setup):
    where = places(tree)
    for name in SETUPS[setup]:
        yield where["examples" if name.startswith("scx_") else "built"] / name


def contents(tree, setup, more, modules):
    """What the guest's disk has: paths in the guest, and the files here."""
    found = {}
    for top in SOURCES:
        for file in sorted((tree / top).rglob("*")):
            if file.is_file():
                found[file] = file
    for file in [*programs(tree, setup), *map(Path, more)]:
        if not file.is_file():
            raise Trouble(f"{file} is not built")
        found[file.absolute()] = file
    if modules.exists():
        version = modules.resolve().parent.name
        for file in sorted(modules.rglob("*")):
            if file.is_file():
                found[Path("/usr/lib/modules") / version / file.relative_to(modules)] = file
    return found


def digest(found, *facts):
    """Of all that a state is made of."""
    whole = hashlib.blake2b(json.dumps(facts, default=str).encode(), digest_size=16)
    for there, here in found.items():
        whole.update(f"\n{there} {here.stat().st_mode:o} ".encode())
        with open(here, "rb") as file:
            whole.update(hashlib.file_digest(file, "blake2b").digest())
    return whole.hexdigest()


def make_disk(found, image):
    """A file system of these files, and nothing else."""
    stage = Path(f"{image}.stage")
    shutil.rmtree(stage, ignore_errors=True)
    size = 0
    for there, here in found.items():
        to = stage / there.relative_to("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(here, to)
        size += -(-to.stat().st_size // 4096) * 4096
    blocks = size * 21 // 20 // 4096 + 4096 + len(found)
    make = ["mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-O", "^has_journal"]
    make += ["-N", str(2 * len(found) + 1024), "-d", stage, image, str(blocks)]
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    subprocess.run([str(a) for a in make], check=True, env={**os.environ, "PATH": path}, stdout=subprocess.DEVNULL)
    shutil.rmtree(stage)


class Slot:
    """Where the state of one configuration is kept, made anew when its key is another."""

    def __init__(self, cache, tree, name, config):
        of = hashlib.blake2b(json.dumps([str(tree), config], default=str).encode(), digest_size=6)
        self.dir = cache / "states" / f"{name}-{of.hexdigest()}"
        self.dir.mkdir(parents=True, exist_ok=True)
        self.tree = tree
        self.memory, self.devices = self.dir / "memory", self.dir / "devices"
        self.disk, self.initramfs = self.dir / "disk", self.dir / "initramfs.cpio"
        self.key = self.dir / "key"

    @contextlib.contextmanager
    def locked(self, how):
        with open(self.dir / "lock", "a") as lock:
            fcntl.flock(lock, how)
            yield

    @contextlib.contextmanager
    def ready(self, key, make):
        """The state of this key, kept for as long as the context lasts. `make` makes it first if there is none."""
        while True:
            with self.locked(fcntl.LOCK_SH):
                if self.holds(key):
                    os.utime(self.key)
                    yield
                    return
            with self.locked(fcntl.LOCK_EX):
                if not self.holds(key):
                    self.clear()
                    self.prune()
                    make()
                    self.key.write_text(key)
                    (self.dir / "tree").write_text(str(self.tree))

    def holds(self, key):
        return self.key.exists() and self.key.read_text() == key

    def clear(self):
        """Guests that run have its files open, or mapped, and keep them."""
        for left in self.dir.iterdir():
            if left.is_dir():
                shutil.rmtree(left)
            elif left.name != "lock":
                left.unlink()

    def prune(self):
        """Slots of trees that are gone, and those that nobody has used for days."""
        for other in self.dir.parent.iterdir():
            tree, key = other / "tree", other / "key"
            if other == self.dir or not (tree.exists() and key.exists()):
                continue
            unused = time.time() - key.stat().st_mtime > UNUSED_DAYS * 86400
            if unused or not Path(tree.read_text()).exists():
                shutil.rmtree(other, ignore_errors=True)
