"""common.py: what the guest and the host way of running a command share: messages, signals,
child processes that do not outlive us, and the output folder."""
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile

HARNESS_FAILED = 125


class Failure(Exception):
    """The harness, not the command, failed; the text is one sentence for the user."""


class Stopped(BaseException):
    """A signal asks us to end. Not an Exception, so that nothing takes it for an error."""

    def __init__(self, signum):
        super().__init__(signum)
        self.signum = signum


def say(text):
    with contextlib.suppress(OSError):
        print(f"softroce: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def stop_signals():
    """Turns the first signal that asks us to end into Stopped; later ones must not cut the
    clean-up short."""
    caught = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        caught.append(signal.SIGHUP)

    def stop(signum, _frame):
        for s in caught:
            signal.signal(s, signal.SIG_IGN)
        raise Stopped(signum)

    for s in caught:
        signal.signal(s, stop)
    yield


def open_standard_descriptors():
    """A caller may have closed one; the next file opened would take its number and our output."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)


def die_by(signum):
    """Ends this process the way the signal would have, so that a calling shell sees it."""
    signal.signal(signum, signal.SIG_DFL)
    os.kill(os.getpid(), signum)


def write_all(fd, data):
    while data:
        try:
            data = data[os.write(fd, data):]
        except BrokenPipeError:
            raise Stopped(signal.SIGPIPE) from None
        except OSError as e:
            raise Failure("the command's output could not be written to descriptor "
                          f"{fd}: {e.strerror}") from e


def find_tool(name, package):
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/bin:/bin")
    if not path:
        raise Failure(f"{name} is missing; install it with: apt-get install {package}")
    return path


def start(argv, death_signal="KILL", **kwargs):
    """Starts a child that gets death_signal from the kernel when we die, whatever we die of."""
    setpriv = find_tool("setpriv", "util-linux")
    return subprocess.Popen([setpriv, "--pdeathsig", death_signal, *argv],
                            stdin=subprocess.DEVNULL, **kwargs)


@contextlib.contextmanager
def output_folder(wanted):
    """The folder behind $SOFTROCE_OUT: the given one, made if need be, or a temporary one."""
    if wanted is None:
        with tempfile.TemporaryDirectory(prefix="syncfab-softroce-out.") as folder:
            yield os.path.realpath(folder)
        return
    path = os.path.realpath(wanted)
    if "\n" in path:
        raise Failure("the name of the --out folder contains a line break")
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as e:
        raise Failure(f"the --out folder {path} cannot be made: {e.strerror}") from e
    if not os.access(path, os.W_OK | os.X_OK):
        raise Failure(f"the --out folder {path} cannot be written to")
    yield path
