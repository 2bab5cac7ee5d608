/* fuzz_boot_frame.c - any bytes through the decoders of the bootstrap's frames.
 *
 * What a decoder accepts must encode to the same bytes again (where the form is unique), and what
 * it points to must lie inside the input. */
#include "fabric/boot/boot.h"
#include "fabric/boot/frame.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
    if (!condition) {
        abort();
    }
}

static void must_lie_inside(const uint8_t *part, size_t len, const uint8_t *all, size_t size)
{
    must(part >= all && part + len <= all + size);
}

static void fuzz_hello(const uint8_t *in, size_t len)
{
    struct sfab_hello hello;
    struct sfab_hello again;
    uint8_t out[SFAB_FRAME_HELLO_MAX];
    if (sfab_frame_get_hello(in, len, &hello) == 0) {
        size_t out_bytes = sfab_frame_put_hello(out, sizeof out, &hello);
        must(out_bytes > 0 && out_bytes <= len);
        /* Unprintable characters were replaced, so only the second time round nothing changes. */
        must(hello.wire_version != SFAB_WIRE_VERSION || out_bytes == len);
        must(sfab_frame_get_hello(out, out_bytes, &again) == 0);
        must(strcmp(hello.host, again.host) == 0 && strcmp(hello.version, again.version) == 0);
    }
}

static void fuzz_verdict(const uint8_t *in, size_t len)
{
    struct sfab_verdict verdict;
    uint8_t out[SFAB_FRAME_TEXT_MAX + 16];
    if (sfab_frame_get_verdict(in, len, &verdict) == 0) {
        must(verdict.code < 0 && -verdict.code > 0);
        must(sfab_frame_put_verdict(out, sizeof out, &verdict) == len);
        must(memcmp(in, out, 12) == 0);
    }
}

static void fuzz_small(const uint8_t *in, size_t len)
{
    uint64_t value;
    struct sfab_cancel cancel;
    uint8_t out[32];
    (void)sfab_frame_get_bytes32(in, len, out);
    if (sfab_frame_get_u64(in, len, &value) == 0) {
        must(sfab_frame_put_u64(out, sizeof out, value) == len && memcmp(in, out, len) == 0);
    }
    if (sfab_frame_get_cancel(in, len, &cancel) == 0) {
        must(sfab_frame_put_cancel(out, sizeof out, &cancel) == len && memcmp(in, out, len) == 0);
    }
}

static void fuzz_tables(const uint8_t *in, size_t len)
{
    struct sfab_gather gather;
    struct sfab_gathered gathered;
    if (sfab_frame_get_gather(in, len, SFAB_BOOT_BLOB_MAX, &gather) == 0) {
        must_lie_inside(gather.members_be, 4 * (size_t)gather.count, in, len);
        must_lie_inside(gather.blob, gather.blob_bytes, in, len);
    }
    if (sfab_frame_get_gathered(in, len, SFAB_BOOT_BLOB_MAX, &gathered) == 0) {
        size_t total = 0;
        for (uint32_t i = 0; i < gathered.count; i++) {
            total += sfab_frame_u32_at(gathered.lens_be, i);
        }
        must(total == gathered.blobs_bytes);
        must_lie_inside(gathered.blobs, gathered.blobs_bytes, in, len);
    }
}

static void fuzz_news(const uint8_t *in, size_t len)
{
    struct sfab_message message;
    uint32_t count;
    if (sfab_frame_get_message(in, len, SFAB_BOOT_MESSAGE_MAX, &message) == 0) {
        must_lie_inside(message.data, message.len_bytes, in, len);
    }
    if (sfab_frame_gone_count(in, len, &count) == 0) {
        for (uint32_t i = 0; i < count; i++) {
            struct sfab_gone gone;
            uint8_t out[SFAB_FRAME_GONE_BYTES];
            if (sfab_frame_get_gone(in, i, &gone) == 0) {
                sfab_frame_put_gone(out, &gone);
                must(memcmp(out, in + i * sizeof out, sizeof out) == 0);
            }
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sfab_frame_header header;
    if (size < SFAB_FRAME_HEADER_BYTES) {
        return 0;
    }
    if (sfab_frame_get_header(data, UINT32_MAX, &header) == 0) {
        uint8_t out[SFAB_FRAME_HEADER_BYTES];
        sfab_frame_put_header(out, header.type, header.len_bytes);
        must(memcmp(out, data, sizeof out) == 0);
    }
    const uint8_t *payload = data + SFAB_FRAME_HEADER_BYTES;
    size_t len = size - SFAB_FRAME_HEADER_BYTES;
    fuzz_hello(payload, len);
    fuzz_verdict(payload, len);
    fuzz_small(payload, len);
    fuzz_tables(payload, len);
    fuzz_news(payload, len);
    return 0;
}
