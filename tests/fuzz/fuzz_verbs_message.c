/* fuzz_verbs_message.c - any bytes through the decoders of what verbs transports tell each other
 * (verbs/message.h).
 *
 * What a decoder takes is in range and encodes to the same bytes again, a refusal's text excepted:
 * unprintable characters are replaced, so that only the second time nothing changes. */
#include "tests/fuzz/fuzz.h"
#include "verbs/message.h"

#include <string.h>

unsigned long sfab_fuzz_taken;

enum { OUT_BYTES = 512 };

static int equal(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    return a_bytes == b_bytes && memcmp(a, b, a_bytes) == 0;
}

static void fuzz_refusal(const struct sfab_vb_message *message)
{
    struct sfab_vb_message again;
    uint8_t out[OUT_BYTES];

    MUST(memchr(message->text, 0, sizeof message->text) != NULL);
    for (const char *at = message->text; *at != '\0'; at++)
        MUST((unsigned char)*at >= 0x20 && *at != 0x7f);
    size_t bytes = sfab_vb_message_encode(message, out, sizeof out);
    MUST(bytes > 0 && sfab_vb_message_decode(out, bytes, &again));
    MUST(again.kind == message->kind && strcmp(again.text, message->text) == 0);
}

static void fuzz_message(const uint8_t *data, size_t size)
{
    struct sfab_vb_message message;
    uint8_t out[OUT_BYTES];

    if (!sfab_vb_message_decode(data, size, &message))
        return;
    sfab_fuzz_taken++;
    MUST(message.kind >= SFAB_VB_CONN && message.kind <= SFAB_VB_ASK);
    if (message.kind == SFAB_VB_REFUSE) {
        fuzz_refusal(&message);
        return;
    }
    if (message.kind == SFAB_VB_CONN) {
        MUST(message.conn.qpn < 1u << 24 && message.conn.psn < 1u << 24);
        MUST(message.conn.mtu >= 1 && message.conn.mtu <= 5 && message.conn.rd_atomic >= 1);
    }
    MUST(equal(out, sfab_vb_message_encode(&message, out, sizeof out), data, size));
    MUST(sfab_vb_message_encode(&message, out, size - 1) == 0);
}

static void fuzz_address(const uint8_t *data, size_t size)
{
    struct sfab_vb_address address;
    uint8_t out[OUT_BYTES];

    if (!sfab_vb_address_decode(data, size, &address))
        return;
    sfab_fuzz_taken++;
    MUST(address.mtu >= 1 && address.mtu <= 5);
    MUST(equal(out, sfab_vb_address_encode(&address, out, sizeof out), data, size));
}

static void fuzz_key(const uint8_t *data, size_t size)
{
    struct sfab_vb_key key;
    uint8_t out[OUT_BYTES];

    if (!sfab_vb_key_decode(data, size, &key))
        return;
    sfab_fuzz_taken++;
    MUST(key.len_bytes > 0 && key.addr + key.len_bytes > key.addr);
    MUST(equal(out, sfab_vb_key_encode(&key, out, sizeof out), data, size));
}

static void fuzz_hello(const uint8_t *data, size_t size)
{
    struct sfab_vb_hello hello;
    uint8_t out[OUT_BYTES];

    if (!sfab_vb_hello_decode(data, size, &hello))
        return;
    sfab_fuzz_taken++;
    /* rdma_cm pads private data: what follows does not count. */
    size_t bytes = sfab_vb_hello_encode(&hello, out, sizeof out);
    MUST(bytes > 0 && bytes <= size && memcmp(out, data, bytes) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_message(data, size);
    fuzz_address(data, size);
    fuzz_key(data, size);
    fuzz_hello(data, size);
    return 0;
}
