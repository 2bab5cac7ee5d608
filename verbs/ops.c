/* ops.c - the verbs transport's table. */
#include "verbs/verbs.h"

#include "verbs/internal.h"

/* The defaults come first and are overridden on purpose. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"

const struct sfab_tp_ops sfab_verbs_ops = {
    SFAB_TP_DEFAULTS,
    .name = "verbs",
    .probe = sfab_vb_probe,
    .open = sfab_vb_open,
    .close = sfab_vb_close,
    .reg = sfab_vb_reg,
    .dereg = sfab_vb_dereg,
    .pack_key = sfab_vb_pack_key,
    .unpack_key = sfab_vb_unpack_key,
    .address = sfab_vb_address,
    .reachable = sfab_vb_reachable,
    .ep_create = sfab_vb_ep_create,
    .ep_destroy = sfab_vb_ep_destroy,
    .connect = sfab_vb_connect,
    .control = sfab_vb_control,
    .put = sfab_vb_put,
    .get = sfab_vb_get,
    .put_u64 = sfab_vb_put_u64,
    .put_signal = sfab_vb_put_signal,
    .fetch_add = sfab_vb_fetch_add,
    .compare_swap = sfab_vb_compare_swap,
    .flush = sfab_vb_flush,
    .poll = sfab_vb_poll,
    .prepare_wait = sfab_vb_prepare_wait,
    .wait = sfab_vb_wait,
};

#pragma GCC diagnostic pop
