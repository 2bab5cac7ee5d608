"""host.py: runs the command on the host itself where the host has, or can have, an RDMA device.

A device counts when its port 1 is active and it has a RoCE v2 GID (InfiniBand needs none). Where
there is no device but rdma_rxe can be loaded, one is made for the time of the run. The host's
network is never changed: several devices are only used when they are there already.

Two runs may share a device that one of them made. So it is made under an exclusive lock on LOCK,
which then names the device, and used under a shared one; whoever can get the exclusive lock at
its end is the last user and removes it.
"""
import contextlib
import fcntl
import glob
import json
import os
import resource
import signal
import subprocess
import time

import common

SYSFS = "/sys/class/infiniband"
LOCK = "/run/syncfab-softroce.lock"
RXE = "rxe0"
GRACE_S = 2


class Device:
    def __init__(self, name, gid_index, gid=""):
        self.name, self.gid_index = name, gid_index
        groups = gid.split(":")
        mapped = groups[:6] == ["0000"] * 5 + ["ffff"]
        self.address = ".".join(str(b) for b in bytes.fromhex("".join(groups[6:]))) if mapped else ""

    def rank(self):
        """IPv4-mapped GIDs first: rdma_cm and the RoCE settings of most sites are made for them."""
        return (not self.address, self.gid_index)


def read(path):
    try:
        with open(path, encoding="ascii") as f:
            return f.read().strip()
    except OSError:  # an empty slot of a GID table reads as EINVAL
        return ""


def usable(name):
    """The device with its best GID, or None."""
    port = f"{SYSFS}/{name}/ports/1"
    if not read(f"{port}/state").endswith("ACTIVE"):
        return None
    if read(f"{port}/link_layer") == "InfiniBand":
        return Device(name, 0)
    slots = (int(os.path.basename(p)) for p in glob.glob(f"{port}/gid_attrs/types/*") if read(p) == "RoCE v2")
    return min((Device(name, i, read(f"{port}/gids/{i}")) for i in slots), key=Device.rank, default=None)


def usable_devices():
    names = sorted(os.listdir(SYSFS)) if os.path.isdir(SYSFS) else []
    return [d for d in map(usable, names) if d]


@contextlib.contextmanager
def devices(opts):
    """Yields the host's devices to use, [] for none (and then a guest is needed)."""
    if os.geteuid() != 0 and not os.path.exists(LOCK):
        yield choose(usable_devices(), opts)  # nobody makes devices here
        return
    with open(LOCK, "a+" if os.geteuid() == 0 else "r", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(SYSFS) or not os.listdir(SYSFS):
            lock.seek(0)
            if os.geteuid() == 0 and opts.devices == 1 and opts.layout != "multi" and make_rxe(opts.layout):
                lock.truncate(0)
                lock.write(RXE)
                lock.flush()
        fcntl.flock(lock, fcntl.LOCK_SH)
        try:
            yield choose(usable_devices(), opts)
        finally:
            remove_rxe(lock)


def choose(found, opts):
    if len(found) >= opts.devices:
        return found[:opts.devices]
    if found:
        common.say(f"the host has {len(found)} usable RDMA device(s) and {opts.devices} are wanted: using a guest")
    return []


def quiet(*argv):
    """True if the command succeeds; its words do not matter, a guest is the answer to a no."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              timeout=20, check=False).returncode == 0
    return False


def make_rxe(layout):
    """Makes one rxe device, on lo or (for rdma_cm) on an interface with an address."""
    if not os.path.isdir("/sys/module/rdma_rxe"):
        quiet("modprobe", "crc32_generic")  # rdma_rxe wants it but does not pull it in
        if not quiet("modprobe", "rdma_rxe"):
            return False
    netdev = "lo" if layout == "lo" else addressed_interface()
    if not netdev or not quiet("rdma", "link", "add", RXE, "type", "rxe", "netdev", netdev):
        return False
    for _ in range(250):  # port and GIDs follow a little later
        if (device := usable(RXE)) and device.address:
            return True
        time.sleep(0.02)
    quiet("rdma", "link", "del", RXE)
    return False


def addressed_interface():
    listing = subprocess.run(["ip", "-json", "-4", "address", "show", "up"], stdout=subprocess.PIPE, check=False)
    found = [e["ifname"] for e in json.loads(listing.stdout or "[]") if e.get("addr_info") and e["ifname"] != "lo"]
    return found[0] if found else None


def remove_rxe(lock):
    lock.seek(0)
    if os.geteuid() != 0 or lock.read().strip() != RXE:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # another run uses it and will remove it
    if quiet("rdma", "link", "del", RXE):
        lock.truncate(0)
    else:
        common.say(f"the device {RXE} could not be removed; when nothing uses it any more: rdma link del {RXE}")


def lift_memlock():
    with contextlib.suppress(OSError, ValueError):  # not everybody may; the command says so if it matters
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def run(opts, out, found):
    names = " ".join(d.name for d in found)
    common.say(f"running on the host's own RDMA device {names} (--no-host-device boots a guest instead)")
    environment = dict(os.environ, SOFTROCE_OUT=out, SOFTROCE_PLACE="host", SOFTROCE_DEVICES=names,
                       SOFTROCE_ADDRESSES=" ".join(d.address for d in found),
                       SOFTROCE_GID_INDEX=str(found[0].gid_index))
    lift_memlock()
    child = common.start(opts.command, env=environment, start_new_session=True)
    try:
        code = child.wait(opts.timeout)
    except subprocess.TimeoutExpired:
        raise common.Failure(f"the command did not end within {opts.timeout:g} s; it was stopped") from None
    finally:
        end_session(child)
    return code if code >= 0 else 128 - code


def signal_group(child, signum):
    try:
        os.killpg(child.pid, signum)
    except ProcessLookupError:
        return False
    return True


def end_session(child):
    """Ends the command and what it left in the background; a process that holds the device would
    keep its removal from ever returning."""
    for signum in (signal.SIGTERM, signal.SIGKILL):
        if not signal_group(child, signum):
            return
        deadline = time.monotonic() + GRACE_S
        while signal_group(child, 0) and time.monotonic() < deadline:
            child.poll()
            time.sleep(0.02)
