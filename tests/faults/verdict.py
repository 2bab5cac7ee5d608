"""verdict.py: what must hold of a job in which ranks died, from what its survivors said."""
import re

import jobs

PEER_DEAD = -1024
STALE = -1026
PREFIX = re.compile(r"^rank \d+ \([^)]*\): ")
QUOTED = re.compile(r"cannot connect to this rank: .*?(?=\), last|$)")  # whom its own words speak of
NAMED = re.compile(r"\branks? (\d+)")


def blamed(text):
    """The ranks that a sentence names, whoever says it left out."""
    return {int(n) for n in NAMED.findall(QUOTED.sub("", PREFIX.sub("", text)))}


def survivors(job, victims):
    return [r for r in job.ranks if r.number not in victims]


def sentence(event, victims, where):
    """One failure's sentence: it names dead ranks only, with their host and where they were last seen."""
    wrong, text = [], event["text"]
    names = blamed(text)
    if not names or not names <= victims:
        wrong.append(f"{where} names ranks {sorted(names)} instead of {sorted(victims)}: {text}")
    for rank in names & victims:
        if jobs.host_of(rank) not in text:
            wrong.append(f"{where} does not name the host of rank {rank}: {text}")
    return wrong


def alike(said, what):
    """said: {rank: value}. All must be the same."""
    if len({repr(v) for v in said.values()}) <= 1:
        return []
    return [f"survivors differ in {what}: " + "; ".join(f"rank {r}: {v}" for r, v in said.items())]


def opened(job, victims):
    """Those survivors whose sfab_open succeeded; what was wrong with the others' failure."""
    inside, wrong = [], []
    gave_up = {r.number for r in job.ranks if r.first("not_open")}
    for rank in survivors(job, victims):
        event = rank.first("not_open")
        if event is None:
            inside.append(rank)
        elif event["code"] not in (PEER_DEAD, -110):
            wrong.append(f"rank {rank.number} could not open for another reason: {event}")
        elif not blamed(event["text"]) & victims:
            wrong.append(f"rank {rank.number} could not open and does not name the dead: {event['text']}")
    return inside, gave_up, wrong


def judge(job, victims, hung, may_end_before=False):
    """Sentences about what was wrong; none: all is well. may_end_before: the work may have been over
    before the deaths."""
    victims = set(victims)
    wrong = [f"rank {n} had not ended in time" for n in hung]
    inside, gave_up, more = opened(job, victims)
    wrong += more
    victims |= gave_up  # who could not join is gone for those who could
    failures, groups, ends = {}, {}, {}
    for rank in survivors(job, victims):
        if rank.number not in hung and rank.status != 0:
            wrong.append(f"rank {rank.number} ended with status {rank.status}")
    for rank in inside:
        if rank.number in hung:
            continue
        wrong += [f"rank {rank.number}: {e['text']} (turn {e['turn']})" for e in rank.all("wrong")]
        for event in rank.all("op_failed"):
            where = f"rank {rank.number}'s {event['op']}"
            if event["code"] == STALE and any(f"memory of rank {n} " in event["text"]
                                              for n in set(range(len(job.ranks))) - victims):
                continue  # a survivor that had heard of the death first has freed it: its right
            if event["code"] != PEER_DEAD:
                wrong.append(f"{where} ended with {event['code']}: {event['text']}")
            else:
                wrong += sentence(event, victims, where)
        for event in rank.all("failed"):
            where = f"rank {rank.number}'s {event['op']}"
            if event["code"] != PEER_DEAD:
                wrong.append(f"{where} ended with {event['code']}: {event['text']}")
                continue
            wrong += sentence(event, victims, where)
            if not set(event["failed"]) or not set(event["failed"]) <= victims:
                wrong.append(f"{where}: the failed are given as {event['failed']}, not {sorted(victims)}")
            if "episode" not in event["text"]:
                wrong.append(f"{where} does not say at which episode: {event['text']}")
            failures.setdefault(event["gen"], {})[rank.number] = (event["turn"], event["done"],
                                                                  event["failed"])
        for event in rank.all("group"):
            groups.setdefault(event["gen"], {})[rank.number] = event["members"]
        closed = rank.first("closed")
        ends[rank.number] = (closed or {}).get("gen"), (closed or {}).get("turn")
        if closed is None or closed["code"] != 0:
            wrong.append(f"rank {rank.number} did not close in order: {closed}")
    for gen, said in failures.items():
        wrong += alike(said, f"how group {gen} failed (turn, episodes done, failed ranks)")
        missing = {r.number for r in inside} - set(said) - set(hung)
        if missing:
            wrong.append(f"group {gen} failed for {sorted(said)} and not for {sorted(missing)}")
    for gen, said in groups.items():
        wrong += alike(said, f"who is in group {gen}")
    wrong += alike(ends, "where their work ended (group, turn)")
    if not failures and not may_end_before and inside and \
            not all(r.all("group") for r in inside):
        wrong.append("no survivor noticed anything")
    return wrong


def notice_s(job, victims):
    """For each survivor: how long after the first death its first failure came."""
    died = death_s(job, victims)
    if died is None:
        return []
    firsts = [min((e["at"] for e in r.all("failed", "op_failed", "not_open")), default=None)
              for r in survivors(job, set(victims))]
    return [max(0.0, at - died) for at in firsts if at is not None]


def death_s(job, victims):
    """When the first of them died."""
    times = []
    for number in victims:
        rank = job.ranks[number]
        at = job.killed_at.get(number)
        if at is None and rank.first("dies"):
            at = rank.first("dies")["at"]
        if at is None:
            at = rank.ended_at  # by its own timer: when that was seen
        if at is not None:
            times.append(at)
    return min(times, default=None)
