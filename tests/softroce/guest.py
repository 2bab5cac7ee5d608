"""guest.py: boots a guest under QEMU, has it run the command, and brings output and status back.

The two sides talk through files in a control folder that the guest mounts at /run/softroce:
    env.sh, job.sh, layouts.sh, out-path   written by the host before the boot
    up                                     the devices are there, the command starts
    stdout, stderr                         the command's output, copied on as it grows
    status                                 its exit status: the end, the guest may be killed
    refused                                a sentence: why there will be no status
Each appears complete (written under another name, then renamed). A guest that ends with neither
status nor refused has died.
"""
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time

import common

HERE = os.path.dirname(os.path.realpath(__file__))
BOOT_LIMIT_S = 90
POLL_S = 0.03
SHOWN_LINES = 20
CAUSE = re.compile(r"Kernel panic|BUG:|Oops|Out of memory")
PASSED = re.compile(r"(SFAB_(?!SOFTROCE_)|UCX_|OMPI_|[A-Z]+SAN_OPTIONS$|LD_LIBRARY_PATH$|PATH$)")
KERNEL_OPTIONS = ("console=ttyS0 loglevel=4 panic=-1 oops=panic nokaslr mitigations=off "
                  "random.trust_cpu=on no_timer_check tsc=reliable audit=0 apparmor=0 nowatchdog "
                  "rcupdate.rcu_expedited=1 cryptomgr.notests")


def run(opts, out):
    images = build(opts.kernel)
    with tempfile.TemporaryDirectory(prefix="syncfab-softroce.") as control:
        return Guest(opts, out, os.path.realpath(control), images).run()


def build(kernel):
    """The folder with the kernel and initial RAM disk; made by build-guest if it is not there."""
    child = common.start([os.path.join(HERE, "build-guest"), "--kernel", kernel],
                         death_signal="TERM", stdout=subprocess.PIPE, text=True)
    try:
        images = child.communicate()[0].strip()
    finally:
        if child.poll() is None:
            child.terminate()
            child.wait()
    if child.returncode != 0:
        raise common.Failure("the guest could not be built, see above")
    return images


class Guest:
    def __init__(self, opts, out, control, images):
        self.opts, self.out, self.control, self.images = opts, out, control, images
        self.streams = []

    def path(self, name):
        return os.path.join(self.control, name)

    def read(self, name):
        try:
            with open(self.path(name), encoding="utf-8", errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def write_control_files(self):
        environment = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        environment.update((k, v) for k, v in os.environ.items() if PASSED.match(k))
        environment["SOFTROCE_OUT"] = self.out
        environment["SOFTROCE_PLACE"] = "guest"
        names = [f"{k}={v}" for k, v in environment.items()]
        lines = [
            f"softroce_layout={self.opts.layout}",
            f"softroce_count={self.opts.devices}",
            f"softroce_dir={shlex.quote(os.getcwd())}",
            f"softroce_environment=({shlex.join(names)})",
            f"softroce_command=({shlex.join(self.opts.command)})",
        ]
        with open(self.path("env.sh"), "w", encoding="utf-8", errors="surrogateescape") as f:
            f.write("\n".join(lines) + "\n")
        with open(self.path("out-path"), "w", encoding="utf-8", errors="surrogateescape") as f:
            f.write(self.out + "\n")
        for name in ("job.sh", "layouts.sh"):
            shutil.copyfile(os.path.join(HERE, name), self.path(name))
        for name in ("stdout", "stderr"):
            self.streams.append(open(self.path(name), "w+b", buffering=0))

    def qemu_argv(self):
        tsc_khz = subprocess.check_output([os.path.join(self.images, "tsckhz")], text=True).strip()
        argv = [common.find_tool("qemu-system-x86_64", "qemu-system-x86"),
                "-M", "microvm,pic=off,pit=off,rtc=on,isa-serial=on,auto-kernel-cmdline=on",
                "-nodefaults", "-no-user-config", "-no-reboot",
                "-display", "none", "-monitor", "none",
                "-accel", "tcg,thread=multi,tb-size=256", "-cpu", "max,la57=off",
                "-smp", "2", "-m", str(self.opts.mem),
                "-serial", "file:" + escape(self.path("console")),
                "-kernel", os.path.join(self.images, "vmlinux"),
                "-initrd", os.path.join(self.images, "initrd.cpio"),
                "-append", f"{KERNEL_OPTIONS} tsc_early_khz={tsc_khz}"]
        for tag, path, extra in (("rootfs", "/", "readonly=on,"), ("control", self.control, ""),
                                 ("out", self.out, "")):
            argv += ["-fsdev", f"local,id={tag},path={escape(path)},{extra}"
                     "security_model=none,multidevs=remap",
                     "-device", f"virtio-9p-device,fsdev={tag},mount_tag={tag}"]
        return argv

    def run(self):
        for tool in ("ip", "rdma"):  # used inside, from the host's files
            common.find_tool(tool, "iproute2")
        self.write_control_files()
        with open(self.path("qemu.log"), "wb") as log:
            argv = self.qemu_argv()
            started = time.monotonic()
            qemu = common.start(argv, stdout=log, stderr=log)
            try:
                return self.watch(qemu, started)
            finally:
                qemu.kill()
                qemu.wait()

    def watch(self, qemu, started):
        """Copies output on until the status is there; says what went wrong if it never is."""
        up_s = None
        while True:
            ended = qemu.poll() is not None  # looked at first: what it left is read below
            status = self.read("status").strip()
            self.copy_output()
            now_s = time.monotonic() - started
            if up_s is None and os.path.exists(self.path("up")):
                up_s = now_s
            if status:
                if self.opts.verbose:
                    common.say(f"guest up after {up_s:.1f} s, command {now_s - up_s:.1f} s")
                return int(status)
            self.check(ended, up_s, now_s, qemu)
            time.sleep(POLL_S)

    def check(self, ended, up_s, now_s, qemu):
        refused = self.read("refused").strip()
        if refused:
            raise self.failure(f"{refused} (layout {self.opts.layout}, "
                               f"{self.opts.devices} device(s))")
        if ended and up_s is None:
            raise self.failure("the guest ended before it was up "
                               f"(QEMU's exit status {qemu.returncode})")
        if ended:
            raise self.failure(f"the guest died {now_s - up_s:.1f} s after the command had started")
        if now_s > self.opts.timeout:
            what = "the command did not end" if up_s is not None else "the guest did not come up"
            raise self.failure(f"{what} within {self.opts.timeout:g} s; the guest was stopped")
        if up_s is None and now_s > BOOT_LIMIT_S:
            raise self.failure(f"the guest did not come up within {BOOT_LIMIT_S} s; it was stopped")

    def copy_output(self):
        for fd, source in enumerate(self.streams, start=1):
            while data := source.read(65536):
                common.write_all(fd, data)

    def failure(self, sentence):
        """The sentence with the guest's last lines, and with the cause if it stands further up."""
        lines = (self.read("qemu.log") + self.read("console")).replace("\r", "").splitlines()
        cause = [line for line in lines[:-SHOWN_LINES] if CAUSE.search(line)][:3]
        shown = cause + lines[-SHOWN_LINES:] or ["(none)"]
        return common.Failure("\n  | ".join([sentence + "; the guest's last lines:", *shown]))


def escape(path):
    """A comma in a value of a QEMU option is written twice."""
    return path.replace(",", ",,")
