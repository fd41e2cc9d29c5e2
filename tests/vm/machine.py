# SPDX-License-Identifier: GPL-2.0-only
"""One guest: builds its initramfs, starts virtiofsd and QEMU, feeds it a job, ends everything."""

import ctypes
import hashlib
import importlib.machinery
import importlib.util
import json
import lzma
import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from lib import HERE, TREE, Failure, cache, call, locked, need, note, scratch

BOOT = "console=ttyS0 panic=-1 loglevel=4 mitigations=off cryptomgr.notests"
COUNTED = "nokaslr random.trust_cpu=off quiet tsc_early_khz=1000000 tsc=reliable lpj=4000000"
CONSOLE_TAIL = 12000


def load(name):
    """Import a sibling program that has no .py ending."""
    loader = importlib.machinery.SourceFileLoader(name, str(HERE / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


@dataclass
class Job:
    """What runs in the guest."""
    command: list
    cwd: str
    env: dict
    modules: list = field(default_factory=list)
    files: list = field(default_factory=list)

    def packed(self, modules_dir):
        """The form guest.c reads."""
        items = [f"W{TREE}", f"C{self.cwd}"]
        items += [f"M{modules_dir}"] if modules_dir else []
        items += [f"m{m}" for m in self.modules] + [f"F{f}" for f in self.files]
        items += [f"E{k}={v}" for k, v in self.env.items()] + [f"A{a}" for a in self.command]
        body = b"".join(os.fsencode(i) + b"\0" for i in items)
        return b"%d\n%s" % (len(body), body)


class Ended(Exception):
    """A signal or the timeout ends the run."""

    def __init__(self, number):
        super().__init__(number)
        self.number = number


def guest_program():
    """guest.c, compiled once for each version of it."""
    source = HERE / "guest.c"
    made = cache() / f"guest-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}"
    if not made.exists():
        with locked("guest"), scratch("guest") as tmp:
            call([need("cc"), "-static", "-O2", "-Wall", "-o", tmp / "guest", source])
            (tmp / "guest").rename(made)
    return made


def cpio(entries):
    """A newc archive of (name, mode, content)."""
    out = b""
    for ino, (name, mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        raw = name.encode() + b"\0"
        numbers = (ino, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(raw), 0)
        out += b"070701" + b"".join(b"%08X" % n for n in numbers) + raw
        out += b"\0" * (-len(out) % 4) + data
        out += b"\0" * (-len(out) % 4)
    return out


def module_data(path):
    """A kernel module, unpacked here because that is slow in an emulated guest."""
    data = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(data)
    if path.suffix == ".zst":
        return subprocess.run([need("zstd"), "-dc"], input=data, capture_output=True, check=True).stdout
    return data


def initramfs(version, modules):
    """/init and the overlay module, cached by content."""
    program = guest_program()
    overlay = next((modules / version).glob("kernel/fs/overlayfs/overlay.ko*"), None) if modules else None
    made = cache() / f"initramfs-{version}-{program.name.removeprefix('guest-')}{'' if overlay else '-plain'}.cpio"
    if not made.exists():
        entries = [(d, 0o40755, b"") for d in ("dev", "proc", "sys", "root", "modules")]
        entries.append(("init", 0o100755, program.read_bytes()))
        if overlay:
            entries.append(("modules/overlay.ko", 0o100644, module_data(overlay)))
        with scratch("initramfs") as tmp:
            (tmp / "cpio").write_bytes(cpio(entries))
            (tmp / "cpio").rename(made)
    return made


def virtiofsd():
    """The Rust virtiofsd: from $VIRTIOFSD, the distribution (Debian 13), or built into the cache."""
    named = os.environ.get("VIRTIOFSD")
    for path in [named] if named else ["/usr/libexec/virtiofsd", str(cache() / "virtiofsd/bin/virtiofsd")]:
        if os.access(path, os.X_OK):
            return path
    with locked("virtiofsd"):
        made = cache() / "virtiofsd/bin/virtiofsd"
        if not made.exists():
            note("building virtiofsd (a minute or two, once)")
            with scratch("virtiofsd") as tmp:
                call([need("cargo"), "install", "--quiet", "--locked", "--root", tmp / "made", "virtiofsd"],
                     env=dict(os.environ, CARGO_TARGET_DIR=str(tmp / "target")), cwd="/")
                shutil.rmtree(cache() / "virtiofsd", ignore_errors=True)
                (tmp / "made").rename(cache() / "virtiofsd")
    return str(made)


def die_with_parent():
    """In a child: SIGKILL when the harness goes away, however it goes. Signals of the terminal are not for it."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    os.setpgid(0, 0)


class Machine:
    """A guest that has not been started yet; `run` starts and ends it."""

    def __init__(self, args):
        self.args = args
        self.accel = "tcg"
        self.version, self.image, self.modules = load("kernel").find(args.kernel)
        self.children = []

    def spawn(self, argv, log, **kwargs):
        child = subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                 preexec_fn=die_with_parent, **kwargs)
        self.children.append(child)
        return child

    def share(self, tag, path, readonly, tmp, log):
        """Start a virtiofsd; returns QEMU's arguments."""
        where = tmp / f"{tag}.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(where))
            listener.listen()
            argv = [virtiofsd(), f"--fd={listener.fileno()}", "--shared-dir", path, "--sandbox=none",
                    "--no-announce-submounts", "--log-level=error"]
            argv += ["--rlimit-nofile=0"] if os.geteuid() else []
            argv += ["--readonly", "--cache=always"] if readonly else []
            self.spawn(argv, log, pass_fds=[listener.fileno()])
        return ["-chardev", f"socket,id=fs-{tag},path={where}",
                "-device", f"vhost-user-fs-pci,chardev=fs-{tag},tag={tag},queue-size=1024"]

    def disks(self, tmp):
        out = []
        for n, spec in enumerate(self.args.disk):
            size, *limits = spec.split(",")
            path = tmp / f"disk{n}"
            call([need("truncate"), "-s", size, path])
            drive = f"file={path},if=none,id=disk{n},format=raw,cache=none,aio=threads"
            for limit in limits:
                found = re.fullmatch(r"(iops|bps)=(\d+)", limit)
                if not found:
                    raise Failure(f"--disk {spec}: {limit} is neither iops=N nor bps=N")
                drive += f",throttling.{found[1]}-total={found[2]}"
            out += ["-drive", drive, "-device", f"virtio-blk-pci,drive=disk{n},num-queues=1,serial=tix{n}"]
        return out

    def qemu(self, tmp, log, ports):
        """QEMU's command line."""
        args, counted = self.args, self.args.icount is not None
        accel = "kvm" if self.accel == "kvm" else "tcg,thread=single"
        cpu = "host" if self.accel == "kvm" else "max,-rdrand,-rdseed" if counted else "max"
        argv = [need("qemu-system-x86_64"), "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
                "-machine", "q35,memory-backend=mem", "-accel", accel, "-cpu", cpu, "-smp", args.cpus,
                "-object", f"memory-backend-memfd,id=mem,size={args.memory},share=on",
                "-serial", f"file:{tmp}/console", "-kernel", self.image, "-device", "virtio-serial-pci"]
        for name, end in ports.items():
            argv += ["-chardev", f"socket,id={name},fd={end.fileno()}",
                     "-device", f"virtserialport,chardev={name},name=tix.{name}"]
        append = BOOT
        if counted:
            append += f" {COUNTED}"
            argv += ["-icount", f"shift={args.icount},sleep=off", "-rtc", "base=2026-01-01,clock=vm", "-seed", "1"]
        argv += self.share("tree", TREE, False, tmp, log)
        if args.systemd:
            argv += ["-drive", f"file={load('image').find()},if=none,id=root,format=raw,snapshot=on",
                     "-device", "nvme,drive=root,serial=root"]
            append += " root=/dev/nvme0n1 rw"
            argv += self.share("modules", self.modules, True, tmp, log) if self.modules else []
        else:
            argv += ["-initrd", initramfs(self.version, self.modules)]
            argv += self.share("root", "/", True, tmp, log)
        return [*argv, *self.disks(tmp), "-append", f"{append} {args.append}".strip()]

    def run(self, job, timeout):
        """(exit status, what went wrong or None)."""
        def end(number, _frame):
            raise Ended(number)

        guest_program(), virtiofsd()
        if self.args.systemd:
            load("image").find()
        watched = (signal.SIGALRM, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {s: signal.signal(s, end) for s in watched}
        started = time.monotonic()
        where = cache() / "run" if self.args.disk else None  # a disk wants a file system with O_DIRECT
        if where:
            where.mkdir(exist_ok=True)
        tmp = Path(tempfile.mkdtemp(prefix="tix-vm-", dir=where))
        status, why, show = 125, None, False
        try:
            signal.setitimer(signal.ITIMER_REAL, timeout)
            status = self.talk(job, tmp)
            if status is None:
                status, why, show = 125, "the guest died", True
        except Ended as err:
            status, why = 128 + err.number, f"ended by {signal.Signals(err.number).name}"
            if err.number == signal.SIGALRM:
                status, show = 124, True
                why = f"timeout: ended after {time.monotonic() - started:.0f} s (--timeout {timeout:g})"
        except BrokenPipeError:
            status = 128 + signal.SIGPIPE
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number in watched:
                signal.signal(number, signal.SIG_IGN)
            self.finish(tmp, show)
            for number, handler in before.items():
                signal.signal(number, handler)
        return status, why

    def talk(self, job, tmp):
        """Start everything, feed the job, copy what comes back; the exit status, or None if the guest died."""
        pairs = {name: socket.socketpair() for name in ("ctl", "out", "err")}
        with open(tmp / "log", "wb") as log:
            argv = self.qemu(tmp, log, {n: p[1] for n, p in pairs.items()})
            self.spawn(argv, log, pass_fds=[p[1].fileno() for p in pairs.values()])
        with selectors.DefaultSelector() as ready:
            for name, (ours, theirs) in pairs.items():
                theirs.close()
                ready.register(ours, selectors.EVENT_READ, name)
            pairs["ctl"][0].sendall(job.packed(self.modules))
            said = b""
            while not re.search(rb"^exit (\d+)\n", said, re.M):
                for key, _ in ready.select():
                    data = self.receive(key.fileobj)
                    if not data and key.data == "ctl":
                        return None
                    if not data:
                        ready.unregister(key.fileobj)
                    elif key.data == "ctl":
                        said += data
                    else:
                        self.pass_on(key.data, data)
            for name in ("out", "err"):  # what was written before the status is in the sockets already
                pairs[name][0].setblocking(False)
                while data := self.receive(pairs[name][0]):
                    self.pass_on(name, data)
        return int(re.search(rb"^exit (\d+)\n", said, re.M)[1])

    @staticmethod
    def receive(sock):
        try:
            return sock.recv(1 << 20)
        except (BlockingIOError, ConnectionResetError):
            return b""

    @staticmethod
    def pass_on(name, data):
        fd = 1 if name == "out" else 2
        while data:
            data = data[os.write(fd, data):]

    def finish(self, tmp, show):
        """End what was started, by pid, and wait for it."""
        for child in reversed(self.children):
            if child.poll() is None:
                child.kill()
            child.wait()
        self.children = []
        for name in ("console", "log"):
            text = (tmp / name).read_bytes() if (tmp / name).exists() else b""
            if show and text:
                tail = text[-CONSOLE_TAIL:].decode(errors="replace").replace("\r", "")
                print(f"--- guest {name}\n{tail.rstrip()}\n---", file=sys.stderr)
            if name == "console" and getattr(self.args, "console", None):
                Path(self.args.console).write_bytes(text)
        shutil.rmtree(tmp, ignore_errors=True)


def kvm_works(machine):
    """Whether a stock kernel really boots under KVM here; found out once for a host and guest kernel."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    model = re.search(r"model name.*", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    key = f"{os.uname().release} {machine.version} {model[0] if model else ''}"
    answers = cache() / "kvm.json"
    with locked("kvm"):
        known = json.loads(answers.read_text()) if answers.exists() else {}
        if key not in known:
            note("trying whether a guest boots under KVM (up to 15 s, once)")
            known[key] = boots_under_kvm(machine)
            part = Path(f"{answers}.part")
            part.write_text(json.dumps(known))
            part.rename(answers)
    return known[key]


def boots_under_kvm(machine):
    args = type(machine.args)(**vars(machine.args))
    args.systemd, args.disk, args.cpus, args.append, args.console = False, [], 1, "", None
    probe = Machine.__new__(Machine)
    probe.__dict__.update(vars(machine), args=args, accel="kvm", children=[])
    probe.finish = lambda tmp, show: Machine.finish(probe, tmp, False)
    status, why = probe.run(Job(["/bin/true"], "/", {"PATH": "/bin"}), 15)
    if why and why.startswith("ended by"):
        raise KeyboardInterrupt
    return status == 0
