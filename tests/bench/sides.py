"""sides.py: the programs that `compare` runs, each as a function that gives one run's figures.

A side's run is a process group of its own, ended as a whole when its time is over; whatever goes
wrong becomes a Failure with one sentence and the end of what the program said."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import time

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


class Failure(Exception):
    """A side could not be built, started or read."""


def find_tool(name, package):
    path = shutil.which(name)
    if path is None:
        raise Failure(f"{name} is missing; install it with: apt-get install {package}")
    return path


def end_group(child):
    for signum in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signum)
        try:
            child.wait(3)
        except subprocess.TimeoutExpired:
            continue


def tail(text):
    return "\n".join(text.strip().splitlines()[-8:])


def run(argv, timeout_s, env=None):
    """Standard output of a program that must end with status 0 in time."""
    child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, start_new_session=True,
                             env={**os.environ, **(env or {})})
    try:
        out, err = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        end_group(child)
        raise Failure(f"{' '.join(argv)} did not end within {timeout_s:g} s") from None
    except BaseException:
        end_group(child)
        raise
    if child.returncode != 0:
        raise Failure(f"{' '.join(argv)} ended with status {child.returncode}:\n{tail(err or out)}")
    return out


def json_line(argv, timeout_s, env=None):
    """The last line of standard output, which must be a JSON object."""
    out = run(argv, timeout_s, env)
    try:
        return json.loads(out.strip().splitlines()[-1])
    except (IndexError, ValueError):
        raise Failure(f"{' '.join(argv)} printed no JSON line:\n{tail(out)}") from None


def cpus():
    return len(os.sched_getaffinity(0))


class Bench:
    """What all runs of one comparison share."""

    def __init__(self, build, transport, timeout_s):
        self.sfab = os.path.join(build, "bin", "sfab")
        self.made = os.path.join(build, "bench")
        self.loop = os.path.join(self.made, "mpi_barrier")
        self.cacheline = os.path.join(self.made, "cacheline")
        self.switches = os.path.join(self.made, "switch")
        self.transport = transport
        self.timeout_s = timeout_s
        # What the compared run is not to inherit from the caller; the device's choice it may.
        self.clean = {k: v for k, v in os.environ.items() if k.startswith("SFAB_VERBS_")}
        for name in [k for k in os.environ if k.startswith("SFAB_")]:
            del os.environ[name]
        os.environ.update(self.clean)
        if not os.access(self.sfab, os.X_OK):
            raise Failure(f"{self.sfab} is not there: build it first, or name the build with --build")
        self.device = self.find_device() if transport == "verbs" else None

    # ---- the RDMA device ---------------------------------------------------------------------

    @staticmethod
    def find_device():
        named = os.environ.get("SFAB_VERBS_DEVICE") or os.environ.get("SOFTROCE_DEVICES", "").split(" ")[0]
        folder = "/sys/class/infiniband"
        found = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        if named and named not in found:
            raise Failure(f"there is no RDMA device {named} here; there is: {' '.join(found) or 'none'}")
        if not found:
            raise Failure("there is no RDMA device here: use tests/softroce/run -- "
                          "tests/bench/compare --transport verbs")
        return named or found[0]

    def packets(self):
        """Packets the device has sent so far; None where it does not count them."""
        path = f"/sys/class/infiniband/{self.device}/ports/1/hw_counters/sent_pkts"
        try:
            with open(path, encoding="ascii") as f:
                return int(f.read())
        except (OSError, ValueError):
            return None

    def over_device(self, side, measure):
        """Runs measure() and adds how many packets a barrier and rank took; none is an error."""
        if self.device is None:
            return measure()
        before = self.packets()
        figures = measure()
        if before is not None:
            sent = self.packets() - before
            if sent < figures["iterations"]:
                raise Failure(f"{side} did not use {self.device}: {sent} packets for "
                              f"{figures['iterations']} barriers")
            figures["packets"] = sent / figures["iterations"] / figures["ranks"]
        return figures

    # ---- the two sides -----------------------------------------------------------------------

    def make(self):
        """Builds the programs of this folder that the library has no part in, where that is due."""
        self.make_one(self.loop, [find_tool("mpicc", "libopenmpi-dev")], ["-lm"])
        self.make_one(self.cacheline, [find_tool("cc", "gcc"), "-pthread"], [])
        self.make_one(self.switches, [find_tool("cc", "gcc")], [])

    def make_one(self, program, compiler, libraries):
        source = os.path.join(HERE, os.path.basename(program) + ".c")
        with contextlib.suppress(FileNotFoundError):
            if os.path.getmtime(program) > os.path.getmtime(source):
                return
        os.makedirs(self.made, exist_ok=True)
        run([*compiler, "-std=c11", "-D_GNU_SOURCE", "-O2", "-o", program, source, *libraries], 120)

    def mpi_version(self):
        return run([find_tool("mpirun", "openmpi-bin"), "--version"], 60).splitlines()[0]

    def syncfab(self, ranks, iterations, batch):
        argv = [self.sfab, "bench", "barrier", "-n", str(ranks), "--transport", self.transport,
                "--iterations", str(iterations), "--batch", str(batch), "--json"]
        return self.over_device("syncfab", lambda: json_line(argv, self.timeout_s))

    def openmpi(self, ranks, iterations, batch):
        argv = [find_tool("mpirun", "openmpi-bin"), "-n", str(ranks)]
        env = {}
        if os.geteuid() == 0:
            argv.append("--allow-run-as-root")
        if self.transport == "verbs":
            argv += ["--oversubscribe", "--mca", "pml", "ucx", "--mca", "btl", "^openib,uct",
                     "--mca", "mpi_yield_when_idle", "1"]
            env = {"UCX_TLS": "rc,self", "UCX_NET_DEVICES": f"{self.device}:1",
                   "UCX_IB_GID_INDEX": os.environ.get("UCX_IB_GID_INDEX", "0")}
            for name, value in env.items():
                argv += ["-x", name]
        elif ranks > cpus():
            argv.append("--oversubscribe")
        else:
            argv += ["--map-by", "core", "--bind-to", "core"]
        argv += [self.loop, "--transport", self.transport, "--iterations", str(iterations),
                 "--batch", str(batch)]
        if self.transport == "shm" and ranks <= cpus():
            argv.append("--own-cpu")
        return self.over_device("Open MPI", lambda: json_line(argv, self.timeout_s, env))

    # ---- what the machine itself takes -------------------------------------------------------

    def switch(self, ranks):
        """ns for one context switch where so many processes share the CPUs."""
        return json_line([self.switches, str(ranks)], self.timeout_s)["switch_ns"]

    def line(self):
        """ns of a cache line's round trip between two CPUs, and of a barrier that is nothing more."""
        found = json_line([self.cacheline], self.timeout_s)
        return found["round_trip_ns"], found["plain_barrier_ns"]

    def write_lat(self, iterations):
        """ns of ib_write_lat's median for 8 bytes (half a round trip)."""
        argv = [find_tool("ib_write_lat", "perftest"), "-d", self.device, "-s", "8", "-F",
                "-n", str(max(iterations, 100)), "-x", os.environ.get("SOFTROCE_GID_INDEX", "1")]
        with contextlib.ExitStack() as at_end:
            server = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL, start_new_session=True)
            at_end.callback(end_group, server)
            address = os.environ.get("SOFTROCE_ADDRESSES", "127.0.0.1").split(" ")[0]
            out = self.connect([*argv, address], server)
        for line in out.splitlines():
            fields = line.split()
            if len(fields) >= 5 and fields[0] == "8":
                return float(fields[4]) * 1000  # t_typical, the median, in us
        raise Failure(f"ib_write_lat printed no figure for 8 bytes:\n{tail(out)}")

    def connect(self, argv, server):
        """The client, tried again until the server listens."""
        end = time.monotonic() + self.timeout_s
        while True:
            try:
                return run(argv, self.timeout_s)
            except Failure:
                if server.poll() is not None or time.monotonic() > end:
                    raise
                time.sleep(0.2)
