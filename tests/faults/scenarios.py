"""scenarios.py: one fault each, what must come of it, and who noticed it when.

A scenario is a function of (place, rng) that returns (records, wrong, story). A record is
{"fault", "whom": the rank it befell, "by": the rank that noticed, "named": [ranks], "text", "ms": since the
fault}; wrong is a list of sentences, empty when all is well.
"""
import errno
import re
import signal
import subprocess
import time

import jobs
import verdict

SOON_S = 1.0      # by when a death that the kernel reports must be known
CUT_S = 10.0      # by when a rank whose network is gone must be given up
END_S = 10.0      # by when everything must have ended
LATE_S = 3.0
TIMEOUT_MS = 500  # of the waits, where lateness is looked for
LATE_ABROAD_S = 6.0
TIMEOUT_ABROAD_MS = 1500  # from a second on, the time is taken to tell who is stopped over a network
NOT_RUNNING = re.compile(r"stopped|not run|no CPU|stands still")

ALL = {}


def scenario(name):
    def keep(function):
        ALL[name] = function
        return function
    return keep


def record(fault, whom, by, event, since):
    return {"fault": fault, "whom": whom, "by": by, "named": sorted(verdict.blamed(event["text"])),
            "text": event["text"], "ms": max(0.0, event["at"] - since) * 1000}


def records_of(fault, job, victim, soon_s):
    died, found, wrong = verdict.death_s(job, [victim]), [], []
    for rank in verdict.survivors(job, {victim}):
        events = rank.all("failed", "op_failed")
        if not events:
            continue
        found.append(record(fault, victim, rank.number, min(events, key=lambda e: e["at"]), died))
        if found[-1]["ms"] > soon_s * 1000:
            wrong.append(f"rank {rank.number} noticed after {found[-1]['ms']:.0f} ms only")
    return found, wrong


def death(fault, place, rng, own, kill, size=4, work="mixed"):
    """One death: judged as in `kills`, and noticed soon."""
    victim = rng.randrange(size)
    job = jobs.Job(place, size, {"work": work, "dead": 1}, {victim: own})
    wrong = []
    if not job.all_said("holder" if own.get("holder") else "open",
                        but=[r for r in range(size) if r != victim] if own.get("holder") else ()):
        wrong.append("the job did not start")
    if kill:
        job.hear(rng.uniform(0.005, 0.03))
        job.kill(victim)
    hung = job.end(END_S)
    wrong += verdict.judge(job, [victim], hung)
    found, late = records_of(fault, job, victim, SOON_S)
    return found, wrong + late, job.story()


@scenario("kill")
def killed(place, rng):
    return death("SIGKILL", place, rng, {}, kill=True)


@scenario("holder")
def holder(place, rng):
    return death("SIGKILL, a child holds its descriptors", place, rng, {"holder": 1}, kill=True)


@scenario("exit")
def exits(place, rng):
    how = rng.choice(["exit", "_exit"])
    own = {"die_call": rng.randrange(10, 200), "die_how": how}
    return death("exit without sfab_close", place, rng, own, kill=False)


@scenario("abort")
def aborts(place, rng):
    size, code = 4, -errno.ECANCELED
    by = rng.randrange(size)
    job = jobs.Job(place, size, {"work": rng.choice(["barrier", "put", "mixed", "shrink"])},
                   {by: {"abort_ms": rng.randrange(5, 30)}})
    wrong = [f"rank {n} had not ended in time" for n in job.end(END_S)]
    said, found = job.ranks[by].first("aborts"), []
    for rank in job.ranks:
        failures = rank.all("failed")
        if said is None or not failures:
            wrong.append(f"rank {rank.number} did not hear of the abort")
            continue
        event = failures[-1]
        found.append(record("sfab_abort", by, rank.number, event, said["at"]))
        if event["code"] != code:
            wrong.append(f"rank {rank.number}: {event['op']} ended with {event['code']}, not {code}")
        for words in ('the pump is "on fire"', f"rank {by}", jobs.host_of(by)):
            if words not in event["text"]:
                wrong.append(f"rank {rank.number}'s sentence is without {words!r}: {event['text']}")
        if found[-1]["ms"] > SOON_S * 1000:
            wrong.append(f"rank {rank.number} heard of the abort after {found[-1]['ms']:.0f} ms only")
        closed = rank.first("closed")
        if closed is None or closed["code"] != 0 or rank.status != 0:
            wrong.append(f"rank {rank.number} did not close in order: {closed}, status {rank.status}")
    return found, wrong, job.story()


def nobody_failed(job, hung):
    wrong = [f"rank {n} had not ended in time" for n in hung]
    for rank in job.ranks:
        wrong += [f"rank {rank.number} took it for a death: {e['text']}"
                  for e in rank.all("failed", "op_failed", "not_open")]
        wrong += [f"rank {rank.number}: {e['text']}" for e in rank.all("wrong")]
        closed = rank.first("closed")
        if rank.number not in hung and (rank.status != 0 or closed is None or closed["code"] != 0):
            wrong.append(f"rank {rank.number} did not close in order: status {rank.status}, {closed}")
    if not wrong:
        wrong = verdict.alike({r.number: r.first("closed")["turn"] for r in job.ranks},
                              "the turn in which they ended")
    return wrong


def spans(place):
    """Of lateness: (how long the late rank stays away in s, the others' timeout in ms)."""
    return (LATE_ABROAD_S, TIMEOUT_ABROAD_MS) if place.devices else (LATE_S, TIMEOUT_MS)


def lateness(fault, job, late_rank, since, until, doing, timeout_ms):
    """What the others said of one that was late from `since` to `until`."""
    found, wrong = [], []
    for rank in job.ranks:
        if rank.number == late_rank:
            continue
        events = [e for e in rank.all("late") if since + 0.9 * timeout_ms / 1000 < e["at"] < until]
        if not events:
            if not rank.all("slow"):
                wrong.append(f"rank {rank.number} did not say that rank {late_rank} is late")
            continue
        found.append(record(fault, late_rank, rank.number, events[0], since))
        for event in events:
            where, text = f"rank {rank.number} at {event['at'] - since:.2f} s", event["text"]
            entry = next((e for e in event["late"] if e["rank"] == late_rank), None)
            if f"rank {late_rank}" not in text or jobs.host_of(late_rank) not in text:
                wrong.append(f"{where} does not name rank {late_rank}: {text}")
            if doing == "stopped" and not NOT_RUNNING.search(text):
                wrong.append(f"{where} does not say that its process does not run: {text}")
            if entry is None:
                wrong.append(f"{where} does not list rank {late_rank}: {event['late']}")
            elif entry["doing"] != doing:
                wrong.append(f"{where} has it {entry['doing']}, not {doing}")
            elif doing == "computing" and not 0 <= entry["still_ns"] <= (event["at"] - since + 1) * 1e9:
                wrong.append(f"{where} has it still for {entry['still_ns'] / 1e9:.2f} s")
            for other in event["late"]:
                if other["rank"] != late_rank and (other["doing"], other["waits_for"]) != ("waiting", late_rank):
                    wrong.append(f"{where} lists rank {other['rank']} as {other}")
    return found, wrong


@scenario("stop")
def stopped(place, rng):
    """Stopped for a while, and no more than late; in "put" others wait for it outside the barrier."""
    away_s, timeout_ms = spans(place)
    size, work = rng.choice([3, 4]), rng.choice(["barrier", "put", "reduce"])
    victim = rng.randrange(size)
    job = jobs.Job(place, size, {"work": work, "timeout_ms": timeout_ms})
    job.all_said("open")
    # Over a network the connections first: they need the other side's process.
    job.hear(3 if place.devices else rng.uniform(0.02, 0.1))
    since = time.monotonic()
    job.kill(victim, signal.SIGSTOP)
    job.killed_at.clear()
    job.hear(away_s)
    until = time.monotonic()
    job.kill(victim, signal.SIGCONT)
    job.killed_at.clear()
    job.hear(0.2)
    job.stop_work()
    hung = job.end(END_S)
    found, wrong = lateness("SIGSTOP", job, victim, since, until, "stopped", timeout_ms)
    return found, wrong + nobody_failed(job, hung), job.story()


@scenario("compute")
def computes(place, rng):
    """No call of the library for seconds: late, not dead."""
    away_s, timeout_ms = spans(place)
    size = 3
    victim = rng.randrange(size)
    job = jobs.Job(place, size, {"work": "barrier", "timeout_ms": timeout_ms},
                   {victim: {"compute_turn": 50, "compute_ms": int(away_s * 1000)}})
    job.pump(lambda: job.ranks[victim].first("computes"), 30)
    job.hear(away_s + 0.3)
    job.stop_work()
    hung = job.end(END_S)
    began = job.ranks[victim].first("computes")
    if began is None:
        return [], ["the rank did not come to its computation"], job.story()
    since = began["at"]
    found, wrong = lateness("no call for seconds", job, victim, since, since + away_s, "computing", timeout_ms)
    return found, wrong + nobody_failed(job, hung), job.story()


# ---- the network: ranks on devices, one node each; needs the guest's "multi" layout ------------

def run(*words):
    subprocess.run(words, check=True)


def outage(place, rng, down, up, seconds):
    """The network of one device goes and comes back: the job goes on as if nothing had been."""
    size = len(place.devices)
    victim = rng.randrange(size)
    job = jobs.Job(place, size, {"work": "mixed"})
    job.all_said("open")
    job.hear(rng.uniform(0.2, 2))
    for command in down(victim):
        run(*command)
    job.hear(seconds)
    for command in up(victim):
        run(*command)
    job.hear(1.5)
    turns = [r.first("failed") for r in job.ranks]
    job.stop_work()
    hung = job.end(30)
    wrong = nobody_failed(job, hung)
    if any(turns):
        wrong.append("the job did not ride it out")
    return [], wrong, job.story()


@scenario("blip")
def blip(place, rng):
    """A cable out for 300 ms: the port in the switch, so that the device itself sees no error."""
    return outage(place, rng, lambda r: [("ip", "link", "set", f"p{r}", "nomaster")],
                  lambda r: [("ip", "link", "set", f"p{r}", "master", "sfabbr")], 0.3)


@scenario("loss")
def loss(place, rng):
    """One packet in a hundred is lost, both ways."""
    return outage(place, rng, lambda r: [("tc", "qdisc", "add", "dev", f"{end}{r}", "root", "netem", "loss", "1%")
                                         for end in "vp"],
                  lambda r: [("tc", "qdisc", "del", "dev", f"{end}{r}", "root") for end in "vp"], 5)


def cut_off(fault, place, rng, down, up):
    """A rank loses the network, the control channel's unharmed: it is given up, and told so, and the others
    go on without it."""
    size = len(place.devices)
    victim = rng.randrange(size)
    job = jobs.Job(place, size, {"work": "mixed", "dead": 1})
    wrong = [] if job.all_said("open") else ["the job did not start"]
    job.hear(rng.uniform(0.2, 2))
    run(*down(victim))
    job.killed_at[victim] = time.monotonic()
    hung = job.end(30)
    run(*up(victim))
    wrong += verdict.judge(job, [victim], hung)
    found, late = records_of(fault, job, victim, CUT_S)
    told = job.ranks[victim].all("failed", "op_failed")
    if not any(e["code"] == verdict.PEER_DEAD for e in told):
        wrong.append(f"rank {victim}, which was cut off, was not told: {told}")
    return found, wrong + late, job.story()


@scenario("cut")
def cut(place, rng):
    """A cable out for ever: the device sees no error."""
    return cut_off("cable out for ever", place, rng, lambda r: ("ip", "link", "set", f"p{r}", "nomaster"),
                   lambda r: ("ip", "link", "set", f"p{r}", "master", "sfabbr"))


@scenario("down")
def down(place, rng):
    """The device's own interface set down: SoftRoCE fails its queue pairs at once, for good, so it cannot be
    ridden out however short it is; that rank, and no other, is given up."""
    return cut_off("own interface down", place, rng, lambda r: ("ip", "link", "set", f"v{r}", "down"),
                   lambda r: ("ip", "link", "set", f"v{r}", "up"))
