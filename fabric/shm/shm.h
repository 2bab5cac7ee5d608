/* shm.h - the transport among ranks of one host: direct loads and stores. */
#ifndef SFAB_FABRIC_SHM_SHM_H
#define SFAB_FABRIC_SHM_SHM_H

#include "fabric/transport.h"

extern const struct sfab_tp_ops sfab_shm_ops;

#endif
