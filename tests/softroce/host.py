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
        octets = bytes.fromhex("".join(groups[6:])) if mapped else b""
        self.address = ".".join(map(str, octets))

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
    types = glob.glob(f"{port}/gid_attrs/types/*")
    slots = [int(os.path.basename(t)) for t in types if read(t) == "RoCE v2"]
    found = [Device(name, i, read(f"{port}/gids/{i}")) for i in slots]
    return min(found, key=Device.rank, default=None)


def any_device():
    return os.path.isdir(SYSFS) and bool(os.listdir(SYSFS))


def usable_devices():
    names = sorted(os.listdir(SYSFS)) if any_device() else []
    return [d for d in map(usable, names) if d]


@contextlib.contextmanager
def devices(opts):
    """Yields the host's devices to use, [] for none (and then a guest is needed)."""
    root = os.geteuid() == 0
    try:
        lock = open(LOCK, "a+" if root else "r", encoding="ascii")
    except OSError:  # nobody makes devices here
        yield choose(usable_devices(), opts)
        return
    with lock:
        may_make = root and opts.devices == 1 and opts.layout != "multi"
        settle(lock, may_make and opts.layout)
        try:
            yield choose(usable_devices(), opts)
        finally:
            if root:
                remove_rxe(lock)


def settle(lock, layout):
    """Returns with the shared lock held, and a device made for the layout (if it is one) in case
    there was none. Exchanging locks is not atomic: the device may be removed in between, so look
    again."""
    for _ in range(3):
        fcntl.flock(lock, fcntl.LOCK_SH)
        if any_device() or not layout:
            return
        fcntl.flock(lock, fcntl.LOCK_EX)
        if any_device():
            continue
        lock.truncate(0)
        if not make_rxe(layout):
            layout = None
            continue
        lock.write(RXE)
        lock.flush()


def choose(found, opts):
    if len(found) >= opts.devices:
        return found[:opts.devices]
    if found:
        common.say(f"the host has {len(found)} usable RDMA device(s) and {opts.devices} are "
                   "wanted: using a guest")
    return []


def quiet(*argv):
    """True if the command succeeds; its words do not matter, a guest is the answer to a no."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        null = subprocess.DEVNULL
        return subprocess.run(argv, stdin=null, stdout=null, stderr=null, timeout=20,
                              check=False).returncode == 0
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
    argv = ["ip", "-json", "-4", "address", "show", "up"]
    listing = subprocess.run(argv, stdout=subprocess.PIPE, check=False).stdout
    for entry in json.loads(listing or "[]"):
        if entry.get("addr_info") and entry["ifname"] != "lo":
            return entry["ifname"]
    return None


def remove_rxe(lock):
    lock.seek(0)
    if lock.read().strip() != RXE:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # another run uses it and will remove it
    if quiet("rdma", "link", "del", RXE):
        lock.truncate(0)
    else:
        common.say(f"the device {RXE} could not be removed; when nothing uses it any more: "
                   f"rdma link del {RXE}")


def lift_memlock():
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    with contextlib.suppress(OSError, ValueError):  # not all may; the command says if it matters
        resource.setrlimit(resource.RLIMIT_MEMLOCK, unlimited)


def run(opts, out, found):
    names = " ".join(d.name for d in found)
    common.say(f"running on the host's own RDMA device {names} "
               "(--no-host-device boots a guest instead)")
    environment = dict(os.environ, SOFTROCE_OUT=out, SOFTROCE_PLACE="host", SOFTROCE_DEVICES=names,
                       SOFTROCE_ADDRESSES=" ".join(d.address for d in found),
                       SOFTROCE_GID_INDEX=str(found[0].gid_index))
    lift_memlock()
    child = common.start(opts.command, env=environment, start_new_session=True)
    try:
        code = child.wait(opts.timeout)
    except subprocess.TimeoutExpired:
        raise common.Failure(f"the command did not end within {opts.timeout:g} s; "
                             "it was stopped") from None
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
