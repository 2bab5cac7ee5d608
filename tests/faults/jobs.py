"""jobs.py: one job of `victim` ranks, each a process of its own, with the rendezvous served by neither a
rank nor a launcher, so that any rank may be killed and the others go on.

What the ranks say are lines of JSON (say.c); every other line is a remark, kept to be shown when the job
goes wrong. Times are seconds of CLOCK_MONOTONIC, which all processes of a machine share.
"""
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
import uuid

MARK = "SFAB_TEST_FAULTS"


class Place:
    """Where the programs are, and what all jobs of this run have in common."""

    def __init__(self, build, env=None, devices=()):
        folder = os.path.join(build, "tests", "faults")
        self.victim, self.rendezvous = (os.path.join(folder, n) for n in ("victim", "rendezvous"))
        for program in (self.victim, self.rendezvous):
            if not os.access(program, os.X_OK):
                sys.exit(f"{program} is not there: build the tests first")
        self.mark = uuid.uuid4().hex
        self.devices = list(devices)
        kept = {k: v for k, v in os.environ.items() if not k.startswith("SFAB_")}
        self.env = {**kept, "SFAB_SECRET": self.mark, MARK: self.mark, "SFAB_ROOT_SERVED": "yes",
                    "SFAB_CLOSE_TIMEOUT_MS": "20000", **(env or {})}
        self.shm_before = set(os.listdir("/dev/shm"))

    def rank_env(self, rank):
        """The hosts' names are made up; with devices, ranks are dealt out to as many nodes."""
        env = {"SFAB_RANK": str(rank), "SFAB_HOST": host_of(rank)}
        if self.devices:
            node = rank % len(self.devices)
            env.update(SFAB_NODE=f"node{node}", SFAB_VERBS_DEVICE=self.devices[node])
        return env

    def left_behind(self):
        """What is there after all jobs that should not be: sentences."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            if int(pid) == os.getpid():
                continue
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    if f"{MARK}={self.mark}".encode() not in f.read().split(b"\0"):
                        continue
                with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
                    if f.read().rsplit(")", 1)[1].split()[0] in "ZX":
                        continue
                with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
                    holds = ", with memory of a job" if "memfd:syncfab" in f.read() else ""
                found.append(f"process {pid} of a job is still there{holds}")
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        new = set(os.listdir("/dev/shm")) - self.shm_before
        found += [f"/dev/shm/{n} was left behind" for n in sorted(new) if "sfab" in n or "syncfab" in n]
        if self.devices and shutil.which("rdma"):
            # The kernel's own queue pairs are of type SMI and GSI; those of a dead process take a moment.
            for _ in range(50):
                shown = subprocess.run(["rdma", "resource", "show", "qp"], capture_output=True, text=True,
                                       check=False).stdout
                pairs = [line for line in shown.splitlines() if " type RC" in line or " type UD" in line]
                if not pairs:
                    break
                time.sleep(0.1)
            found += [f"a queue pair was left behind: {line.strip()}" for line in pairs]
        return found


def host_of(rank):
    return f"host{rank}"


class Rank:
    def __init__(self, number, process):
        self.number, self.process = number, process
        self.events, self.remarks, self.buffer = [], [], b""
        self.status = self.ended_at = None

    def all(self, *names):
        return [e for e in self.events if e["event"] in names]

    def first(self, name):
        return next(iter(self.all(name)), None)

    def take(self, data):
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for line in lines:
            text = line.decode(errors="replace")
            if text.startswith('{"event"'):
                event = json.loads(text)
                event["at"] /= 1e9
                self.events.append(event)
            elif text:
                self.remarks.append(text)


class Job:
    """options: of all ranks; own: {rank: of that rank alone}."""

    def __init__(self, place, size, options, own=None, env=None):
        self.place, self.size = place, size
        self.killed_at = {}
        self.selector = selectors.DefaultSelector()
        env = {**place.env, "SFAB_SIZE": str(size), **(env or {})}
        self.server = subprocess.Popen([place.rendezvous, str(size)], env=env, stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE)
        port = self.server.stdout.readline().decode().strip()
        if not port:
            raise RuntimeError("the rendezvous did not start")
        env["SFAB_ROOT"] = f"127.0.0.1:{port}"
        self.ranks = [self._start(r, {**options, **(own or {}).get(r, {})}, env) for r in range(size)]

    def _start(self, number, options, env):
        words = [f"{k}={v}" for k, v in options.items()]
        process = subprocess.Popen([self.place.victim, *words], env={**env, **self.place.rank_env(number)},
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
        rank = Rank(number, process)
        os.set_blocking(process.stdout.fileno(), False)
        self.selector.register(process.stdout, selectors.EVENT_READ, rank)
        rank.pidfd = os.pidfd_open(process.pid)
        self.selector.register(rank.pidfd, selectors.EVENT_READ, rank)
        return rank

    def _read(self, rank):
        try:
            while data := os.read(rank.process.stdout.fileno(), 65536):
                rank.take(data)
        except BlockingIOError:
            return
        if rank.process.stdout in [k.fileobj for k in self.selector.get_map().values()]:
            self.selector.unregister(rank.process.stdout)

    def pump(self, done, limit_s):
        """Hears the ranks until done() holds. False: it did not within limit_s."""
        until = time.monotonic() + limit_s
        while not done():
            left = until - time.monotonic()
            if left <= 0 or not self.selector.get_map():
                return done()
            for key, _ in self.selector.select(left):
                rank = key.data
                if key.fileobj == rank.pidfd:
                    rank.ended_at = time.monotonic()
                    self.selector.unregister(rank.pidfd)
                    os.close(rank.pidfd)
                    rank.status = rank.process.wait()
                self._read(rank)
        return True

    def hear(self, seconds):
        self.pump(lambda: False, seconds)

    def all_said(self, name, but=(), limit_s=30):
        """Whether every rank (but some) has said `name` within the limit."""
        return self.pump(lambda: all(r.first(name) for r in self.ranks if r.number not in but), limit_s)

    def kill(self, number, how=signal.SIGKILL):
        self.killed_at[number] = time.monotonic()
        os.kill(self.ranks[number].process.pid, how)

    def stop_work(self):
        for rank in self.ranks:
            if rank.status is None:
                os.kill(rank.process.pid, signal.SIGUSR2)

    def running(self):
        return [r for r in self.ranks if r.status is None]

    def end(self, limit_s, show_stacks=True):
        """Waits for all ranks to end: the numbers of those that had not, which are then killed."""
        self.pump(lambda: not self.running(), limit_s)
        hung = self.running()
        for rank in hung:
            if show_stacks:
                rank.remarks += stacks(rank.process.pid)
            os.kill(rank.process.pid, signal.SIGKILL)
        self.pump(lambda: not self.running(), 10)
        for rank in self.ranks:
            for event in rank.all("holder"):
                try:
                    os.kill(event["pid"], signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.server.stdin.close()
        self.server.wait()
        self.server.stdout.close()
        for rank in self.ranks:
            self._read(rank)
            rank.process.stdout.close()
        self.selector.close()
        return [r.number for r in hung]

    def story(self):
        """Everything that was seen, to find out what went wrong."""
        start = min((e["at"] for r in self.ranks for e in r.events), default=0)
        lines = [f"rank {n} was killed at {t - start:.4f}" for n, t in self.killed_at.items()]
        for rank in self.ranks:
            lines.append(f"rank {rank.number}: status {rank.status}")
            for event in rank.events[:6] + ([{"...": len(rank.events) - 30}] if len(rank.events) > 30 else []) + \
                    rank.events[max(6, len(rank.events) - 24):]:
                shown = {k: v for k, v in event.items() if k not in ("event", "at")}
                lines.append(f"  {event.get('at', start) - start:.4f} {event.get('event', '')} {json.dumps(shown)}")
            lines += [f"  | {remark}" for remark in rank.remarks[-60:]]
        return lines


def stacks(pid):
    """Where a process that hangs is, when there is a debugger to ask."""
    if not shutil.which("gdb"):
        return ["(gdb is not installed: no stacks of the process that hangs)"]
    done = subprocess.run(["gdb", "-p", str(pid), "-batch", "-nx", "-ex", "thread apply all bt 12"],
                          capture_output=True, text=True, timeout=60, check=False)
    return [line for line in done.stdout.splitlines() if line.startswith(("#", "Thread"))]
