"""bugs: planted bugs that the simulator must find, each a change to one file of the library, with the first
seed from 1 on that catches it (tests/sim/plants runs them, and finds the seeds anew with --search)."""

BUGS = [
    dict(name="no order between data and flag", file="collectives/dissemination.c", seed=3, edits=[(
        """    return slot->ep->ops->put_signal(slot->ep, &slot->to, at, NULL, from, len, &slot->to,
                                     slot->flag_at, b->word);""",
        """    int rc = slot->ep->ops->put(slot->ep, &slot->to, at, NULL, from, len);
    return rc != 0 ? rc : slot->ep->ops->put_u64(slot->ep, &slot->to, slot->flag_at, b->word);""")]),
    dict(name="== instead of >= on a flag", file="collectives/dissemination.c", seed=2, edits=[(
        "            if (word < sfab_word(b->episode, 0)) {",
        "            if (sfab_word_episode(word) != b->episode) {")]),
    dict(name="the episode number has few bits", file="collectives/barrier.c", seed=1, edits=[(
        "    b->episode++;\n", "    b->episode = (b->episode + 1) & 7;\n")]),
    dict(name="payload slot reused one episode early", file="collectives/dissemination.c", seed=3, edits=[
        ("slot->payload_at + (b->episode & 1) * PAYLOAD_BYTES", "slot->payload_at"),
        ("slot->payload + (b->episode & 1) * SFAB_PAYLOAD_WORDS", "slot->payload")]),
    dict(name="a round forgotten for non-powers of two", file="collectives/dissemination.c", seed=2, edits=[(
        "    own->rounds = sfab_dissem_rounds(n, k);",
        "    own->rounds = sfab_dissem_rounds(n, k) - ((n & (n - 1)) != 0 ? 1 : 0);")]),
    dict(name="the last message of a round not waited for", file="collectives/dissemination.c", seed=2, edits=[(
        """        for (; own->next < round->end; own->next++) {
            const struct slot *slot = &own->slots[own->next];
            /* WORD""",
        """        for (; own->next + 1 < round->end; own->next++) {
            const struct slot *slot = &own->slots[own->next];
            /* WORD""")]),
    dict(name="a message skipped when the queue is full", file="collectives/dissemination.c", seed=27, edits=[(
        "                return leave_quick(own, r, sent, false);",
        "                return leave_quick(own, r, sent + 1, false);")]),
    dict(name="SUM counts a member twice", file="collectives/dissemination.c", seed=2, edits=[(
        "    if (j < digit)\n", "    if (j <= digit)\n")]),
    dict(name="the central counter leaves one out", file="collectives/central.c", seed=11, edits=[(
        "    if (before + 1 == b->episode * b->group->size) {",
        "    if (before + 2 == b->episode * b->group->size) {")]),
    dict(name="the star's root forgets the last member", file="collectives/star.c", seed=1, edits=[(
        "        for (; own->next < b->group->size; own->next++) {\n            if (!has_come",
        "        for (; own->next + 1 < b->group->size; own->next++) {\n            if (!has_come")]),
    dict(name="an error completion is ignored", file="fabric/peer.c", seed=21, edits=[(
        "    return atomic_load_explicit(&ep->state, memory_order_acquire) == SFAB_EP_FAILED &&",
        "    return false && ep != NULL &&")]),
    dict(name="silence is never suspicious", file="fabric/suspect.c", seed=6339, edits=[(
        "    bool first = ctx->suspect_began_ns != began_ns;",
        "    bool first = ctx->suspect_began_ns != began_ns;\n    if (ctx != NULL)\n        return;")]),
    dict(name="the accuser is given up, not the accused", file="fabric/boot/hearing.c", seed=56, edits=[(
        "        *rank = guilty->against;", "        *rank = guilty->by;")]),
    dict(name="survivors do not wait for the verdict", file="collectives/barrier.c", seed=343, edits=[(
        "    int rc = SFAB_UNLIKELY(b->frozen) ? sfab_verdict_step(b) : step_by_messages(b);",
        "    int rc = step_by_messages(b);\n    if (rc == SFAB_INPROGRESS && b->frozen)\n"
        "        rc = sfab_verdict_step(b);")]),
    dict(name="the verdict is off by one episode", file="collectives/verdict.c", seed=27, edits=[(
        "    if (b->episode <= v->done) {", "    if (b->episode < v->done) {")]),
    dict(name="each takes its own view for the verdict", file="collectives/verdict.c", seed=27, edits=[(
        "        if (table[i].data != NULL)\n            count_in(v, &table[i]);",
        "        if (table[i].data != NULL && i == b->group->me)\n            count_in(v, &table[i]);")]),
    dict(name="speaks for an owner that is in an episode", file="collectives/verdict.c", seed=112, edits=[(
        "    bool idle = sfab_word_episode(arrived) == done ||", "    bool idle = arrived >= done ||")]),
    dict(name="what is done is not noted", file="collectives/barrier.c", seed=27, edits=[(
        "    if (rc == 0) {\n        note_done(b);", "    if (rc == 0) {")]),
    dict(name="a recovered reduction without its result", file="collectives/verdict.c", seed=114, edits=[(
        "        if (b->count > 0)\n            memcpy(b->acc, v->result, b->count * sizeof b->acc[0]);\n", "")]),
    dict(name="last words do not count in the verdict", file="collectives/verdict.c", seed=6582, edits=[(
        "            count_in_leaver(b, i);", "            (void)count_in_leaver;")]),
    dict(name="a leaver's last message is waited for for ever", file="collectives/barrier.c", seed=37798, edits=[(
        "    if (was->done >= b->episode && (b->count == 0 || was->count > 0)) {",
        "    if (was->done > b->episode) {"), (
        "    return awaited || lost ?", "    return (awaited && lost) ?")]),
    dict(name="who has left is taken for missing", file="collectives/barrier.c", seed=14, edits=[(
        "    return was->started >= b->episode;", "    return was->started > b->episode;")]),
    dict(name="a failed connection fails here at once", file="collectives/barrier.c", seed=178, edits=[(
        "    b->stalled = rc;\n    b->op.watch = NULL;\n    return SFAB_INPROGRESS;",
        "    return rc;")]),
    dict(name="the new group answers to the old one's surveys", file="fabric/shrink.c", seed=6, edits=[(
        "    group->id = s->tag;", "    group->id = old->id;")]),
    dict(name="only the world's group hears of a death", file="fabric/group.c", seed=68, edits=[(
        "            if (sfab_group_member(group, i) == rank)\n                group->class->died(group, i);",
        "            if (group == ctx->world && sfab_group_member(group, i) == rank)\n"
        "                group->class->died(group, i);")]),
    dict(name="a death completes no survey", file="fabric/boot/survey.c", seed=34, edits=[(
        "        if (place >= 0 && !s->table[place].here) {\n            s->open--;",
        "        if (place >= 0 && s->table[place].here) {\n            s->open--;")]),
    dict(name="a flush does not wait", file="fabric/poolops.c", seed=1, edits=[(
        "            return rc == -EAGAIN ? SFAB_INPROGRESS : rc;", "            return rc == -EAGAIN ? 0 : rc;")]),
    dict(name="a dead peer's operations end well", file="fabric/poolops.c", seed=4151, edits=[(
        "    return rc == 0 || rc == -EAGAIN ? rc : sfab_peer_failed(ctx, ep, rc);",
        "    (void)sfab_peer_failed;\n    return rc == -EAGAIN ? rc : 0;")]),
]
