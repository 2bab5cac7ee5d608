/* copy.c - reaching memory that is not shared: copies through the kernel. */
#include "fabric/shm/internal.h"

#include <errno.h>
#include <sys/uio.h>

typedef ssize_t copy_call(pid_t, const struct iovec *, unsigned long, const struct iovec *,
                          unsigned long, unsigned long);

static int copy_all(copy_call *call, uint32_t pid, uint64_t remote, uintptr_t local, size_t len)
{
    while (len > 0) {
        struct iovec here = {.iov_base = (void *)local, .iov_len = len};
        struct iovec there = {.iov_base = (void *)(uintptr_t)remote, .iov_len = len};
        ssize_t done = call((pid_t)pid, &here, 1, &there, 1, 0);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? -errno : -EFAULT;
        local += (size_t)done;
        remote += (size_t)done;
        len -= (size_t)done;
    }
    return 0;
}

int sfab_shm_copy_out(uint32_t pid, uint64_t remote, const void *local, size_t len)
{
    return copy_all(process_vm_writev, pid, remote, (uintptr_t)local, len);
}

int sfab_shm_copy_in(uint32_t pid, uint64_t remote, void *local, size_t len)
{
    return copy_all(process_vm_readv, pid, remote, (uintptr_t)local, len);
}
