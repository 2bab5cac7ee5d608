/* seeds.c - writes the seed corpus of those fuzz targets whose inputs are binary: one file for each
 * kind of thing on the wire, made by the encoders themselves. To be run when a wire form has
 * changed:
 *
 *     fuzz_seeds tests/fuzz/corpus
 */
#include "fabric/boot/frame.h"
#include "fabric/card.h"
#ifdef SFAB_HAVE_VERBS
#include "verbs/message.h"
#endif

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *folder;

static void die(const char *path)
{
    fprintf(stderr, "fuzz_seeds: %s cannot be written: %s\n", path, strerror(errno));
    exit(1);
}

static void save(const char *target, const char *name, const uint8_t *data, size_t len)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/%s", folder, target);
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        die(path);
    snprintf(path, sizeof path, "%s/%s/%s", folder, target, name);
    FILE *file = len > 0 ? fopen(path, "wb") : NULL;
    if (file == NULL || fwrite(data, 1, len, file) != len || fclose(file) != 0)
        die(path);
}

static void save_cards(void)
{
    struct sfab_identity identity = {.pid = 4711,
                                     .incarnation = 0x1122334455667788,
                                     .host = "node7",
                                     .node = "node7/4026531836",
                                     .cpus = {{0xff}},
                                     .radix = 4,
                                     .barrier = 1,
                                     .transport = "auto"};
    struct sfab_reach reach = {.incarnation = 0x1122334455667788,
                               .world_block = 4096,
                               .transports = 2,
                               .transport = {{.name = "shm", .address_bytes = 24},
                                             {.name = "verbs", .address_bytes = 60}}};
    struct sfab_key key = {
        .rank = 3,
        .incarnation = 0x1122334455667788,
        .len_bytes = 1 << 20,
        .access = 7,
        .words = true,
        .transports = 2,
        .transport = {{.name = "shm", .key_bytes = 16}, {.name = "verbs", .key_bytes = 21}}};
    uint8_t buf[2048];

    save("card", "identity", buf, sfab_identity_encode(&identity, buf, sizeof buf));
    save("card", "reach", buf, sfab_reach_encode(&reach, buf, sizeof buf));
    save("card", "key", buf, sfab_key_encode(&key, buf, sizeof buf));
    key.transports = 0;
    save("card", "key-of-nothing", buf, sfab_key_encode(&key, buf, sizeof buf));
}

#ifdef SFAB_HAVE_VERBS
static void save_verbs(void)
{
    struct sfab_vb_message message = {
        .kind = SFAB_VB_CONN,
        .conn = {.qpn = 0x123, .psn = 0xfedcba, .gid = {0xfe, 0x80}, .mtu = 3, .rd_atomic = 16}};
    struct sfab_vb_address address = {.link_layer = 2,
                                      .mtu = 3,
                                      .gid = {[10] = 0xff, 0xff, 127, 0, 0, 1},
                                      .boot_id = 0x1122334455667788,
                                      .nonce = 99,
                                      .cm_port = 4791};
    struct sfab_vb_key key = {.addr = 0x7f0000001000, .len_bytes = 65536, .rkey = 0xabcdef};
    struct sfab_vb_hello hello = {.rank = 5, .nonce = 7, .peer_nonce = 8};
    uint8_t buf[512];

    save("verbs_message", "conn", buf, sfab_vb_message_encode(&message, buf, sizeof buf));
    message.kind = SFAB_VB_READY;
    save("verbs_message", "ready", buf, sfab_vb_message_encode(&message, buf, sizeof buf));
    message.kind = SFAB_VB_ASK;
    save("verbs_message", "ask", buf, sfab_vb_message_encode(&message, buf, sizeof buf));
    message.kind = SFAB_VB_REFUSE;
    strcpy(message.text, "the path MTUs differ");
    save("verbs_message", "refuse", buf, sfab_vb_message_encode(&message, buf, sizeof buf));
    save("verbs_message", "address", buf, sfab_vb_address_encode(&address, buf, sizeof buf));
    save("verbs_message", "key", buf, sfab_vb_key_encode(&key, buf, sizeof buf));
    save("verbs_message", "hello", buf, sfab_vb_hello_encode(&hello, buf, sizeof buf));
}
#endif

static uint8_t frame[1024];
#define PAYLOAD      (frame + SFAB_FRAME_HEADER_BYTES)
#define PAYLOAD_ROOM (sizeof frame - SFAB_FRAME_HEADER_BYTES)

static void save_frame(const char *name, uint16_t type, size_t payload_bytes)
{
    sfab_frame_put_header(frame, type, (uint32_t)payload_bytes);
    save("boot_frame", name, frame, SFAB_FRAME_HEADER_BYTES + payload_bytes);
}

static void save_start_frames(void)
{
    struct sfab_hello hello = {.wire_version = SFAB_WIRE_VERSION,
                               .rank = 1,
                               .size = 4,
                               .version = "0.1.0",
                               .host = "node7"};
    struct sfab_verdict verdict = {.tag = 9, .code = -110, .text = "ranks 3, 7-9 are missing"};

    save_frame("hello", SFAB_FRAME_HELLO, sfab_frame_put_hello(PAYLOAD, PAYLOAD_ROOM, &hello));
    memset(PAYLOAD, 0x5a, SFAB_FRAME_NONCE_BYTES);
    save_frame("challenge", SFAB_FRAME_CHALLENGE, SFAB_FRAME_NONCE_BYTES);
    save_frame("joined", SFAB_FRAME_JOINED, 0);
    save_frame("refused", SFAB_FRAME_REFUSED,
               sfab_frame_put_verdict(PAYLOAD, PAYLOAD_ROOM, &verdict));
    save_frame("leave", SFAB_FRAME_LEAVE, sfab_frame_put_u64(PAYLOAD, PAYLOAD_ROOM, 12));
}

static void save_running_frames(void)
{
    static const uint32_t members[] = {0, 2, 3}, lens[] = {5, 0, 7};
    struct sfab_cancel cancel = {.tag = 9, .waited_ms = 1500};
    struct sfab_gone gone = {.rank = 2, .how = 1, .goodbye = 12};

    save_frame("cancel", SFAB_FRAME_CANCEL, sfab_frame_put_cancel(PAYLOAD, PAYLOAD_ROOM, &cancel));
    size_t len = sfab_frame_put_gather(PAYLOAD, PAYLOAD_ROOM, 9, members, 3);
    memset(PAYLOAD + len, 0x33, 20);
    save_frame("gather", SFAB_FRAME_GATHER, len + 20);
    len = sfab_frame_put_gathered(PAYLOAD, PAYLOAD_ROOM, 9, lens, 3);
    memset(PAYLOAD + len, 0x44, 12);
    save_frame("gathered", SFAB_FRAME_GATHERED, len + 12);
    len = sfab_frame_put_message_head(PAYLOAD, PAYLOAD_ROOM, 3, 1);
    memset(PAYLOAD + len, 0x55, 40);
    save_frame("message", SFAB_FRAME_MESSAGE, len + 40);
    sfab_frame_put_gone(PAYLOAD, &gone);
    gone.rank = 3;
    sfab_frame_put_gone(PAYLOAD + SFAB_FRAME_GONE_BYTES, &gone);
    save_frame("gone", SFAB_FRAME_GONE, 2 * SFAB_FRAME_GONE_BYTES);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
        return 2;
    }
    folder = argv[1];
    save_cards();
#ifdef SFAB_HAVE_VERBS
    save_verbs();
#endif
    save_start_frames();
    save_running_frames();
    return 0;
}
