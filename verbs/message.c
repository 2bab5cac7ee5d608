/* message.c - encoding and checked decoding of what verbs transports tell each other. */
#include "verbs/message.h"

#include "fabric/wire.h"

/* The first byte of each kind of thing: the form it has, so that a change of it is noticed. */
#define FORM_MESSAGE 0x11
#define FORM_ADDRESS 0x21
#define FORM_KEY     0x31
#define FORM_HELLO   0x41

#define BITS_24 0xffffffu
#define MTU_MAX 5 /* IBV_MTU_4096 */

static void write_raw(struct sfab_writer *w, const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sfab_write_uint(w, bytes[i], 1);
}

static void read_raw(struct sfab_reader *r, uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)sfab_read_uint(r, 1);
}

static size_t written(const struct sfab_writer *w, const uint8_t *buf)
{
    return w->failed ? 0 : (size_t)(w->at - buf);
}

/* Everything was there and nothing is left over. */
static bool complete(const struct sfab_reader *r)
{
    return !r->failed && r->at == r->end;
}

static bool mtu_good(uint8_t mtu)
{
    return mtu >= 1 && mtu <= MTU_MAX;
}

static void conn_encode(struct sfab_writer *w, const struct sfab_vb_conn *conn)
{
    sfab_write_uint(w, conn->qpn, 4);
    sfab_write_uint(w, conn->psn, 4);
    sfab_write_uint(w, conn->lid, 2);
    write_raw(w, conn->gid, sizeof conn->gid);
    sfab_write_uint(w, conn->mtu, 1);
    sfab_write_uint(w, conn->rd_atomic, 1);
    sfab_write_uint(w, conn->ready, 1);
}

static bool conn_decode(struct sfab_reader *r, struct sfab_vb_conn *conn)
{
    conn->qpn = (uint32_t)sfab_read_uint(r, 4);
    conn->psn = (uint32_t)sfab_read_uint(r, 4);
    conn->lid = (uint16_t)sfab_read_uint(r, 2);
    read_raw(r, conn->gid, sizeof conn->gid);
    conn->mtu = (uint8_t)sfab_read_uint(r, 1);
    conn->rd_atomic = (uint8_t)sfab_read_uint(r, 1);

    uint64_t ready = sfab_read_uint(r, 1);

    conn->ready = ready == 1;
    return ready <= 1 && conn->qpn <= BITS_24 && conn->psn <= BITS_24 && mtu_good(conn->mtu) &&
           conn->rd_atomic >= 1;
}

size_t sfab_vb_message_encode(const struct sfab_vb_message *message, uint8_t *buf, size_t cap)
{
    struct sfab_writer w = sfab_writer_on(buf, cap);

    sfab_write_uint(&w, FORM_MESSAGE, 1);
    sfab_write_uint(&w, message->kind, 1);
    if (message->kind == SFAB_VB_CONN)
        conn_encode(&w, &message->conn);
    else if (message->kind == SFAB_VB_REFUSE)
        sfab_write_bytes(&w, message->text, strnlen(message->text, sizeof message->text - 1));
    return written(&w, buf);
}

/* The text goes into sentences on terminals: nothing but printing characters. */
static void make_printable(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

bool sfab_vb_message_decode(const uint8_t *data, size_t len, struct sfab_vb_message *out)
{
    struct sfab_reader r = sfab_reader_on(data, len);
    struct sfab_vb_message message = {0};
    bool good = sfab_read_uint(&r, 1) == FORM_MESSAGE;
    uint64_t kind = sfab_read_uint(&r, 1);

    switch (kind) {
    case SFAB_VB_CONN:
        good = conn_decode(&r, &message.conn) && good;
        break;
    case SFAB_VB_REFUSE:
        sfab_read_text(&r, message.text, sizeof message.text);
        make_printable(message.text);
        break;
    case SFAB_VB_READY:
    case SFAB_VB_ASK:
        break;
    default:
        return false;
    }
    if (!good || !complete(&r))
        return false;
    message.kind = (enum sfab_vb_kind)kind;
    *out = message;
    return true;
}

size_t sfab_vb_address_encode(const struct sfab_vb_address *address, uint8_t *buf, size_t cap)
{
    struct sfab_writer w = sfab_writer_on(buf, cap);

    sfab_write_uint(&w, FORM_ADDRESS, 1);
    sfab_write_uint(&w, address->link_layer, 1);
    sfab_write_uint(&w, address->mtu, 1);
    sfab_write_uint(&w, address->cm, 1);
    sfab_write_uint(&w, address->lid, 2);
    write_raw(&w, address->gid, sizeof address->gid);
    sfab_write_uint(&w, address->boot_id, 8);
    sfab_write_uint(&w, address->nonce, 8);
    sfab_write_uint(&w, address->cm_port, 2);
    write_raw(&w, address->cm_ip, sizeof address->cm_ip);
    return written(&w, buf);
}

bool sfab_vb_address_decode(const uint8_t *data, size_t len, struct sfab_vb_address *out)
{
    struct sfab_reader r = sfab_reader_on(data, len);
    struct sfab_vb_address address = {0};
    bool good = sfab_read_uint(&r, 1) == FORM_ADDRESS;

    address.link_layer = (uint8_t)sfab_read_uint(&r, 1);
    address.mtu = (uint8_t)sfab_read_uint(&r, 1);
    address.cm = (uint8_t)sfab_read_uint(&r, 1);
    address.lid = (uint16_t)sfab_read_uint(&r, 2);
    read_raw(&r, address.gid, sizeof address.gid);
    address.boot_id = sfab_read_uint(&r, 8);
    address.nonce = sfab_read_uint(&r, 8);
    address.cm_port = (uint16_t)sfab_read_uint(&r, 2);
    read_raw(&r, address.cm_ip, sizeof address.cm_ip);
    if (!good || !complete(&r) || !mtu_good(address.mtu))
        return false;
    *out = address;
    return true;
}

size_t sfab_vb_key_encode(const struct sfab_vb_key *key, uint8_t *buf, size_t cap)
{
    struct sfab_writer w = sfab_writer_on(buf, cap);

    sfab_write_uint(&w, FORM_KEY, 1);
    sfab_write_uint(&w, key->addr, 8);
    sfab_write_uint(&w, key->len_bytes, 8);
    sfab_write_uint(&w, key->rkey, 4);
    return written(&w, buf);
}

bool sfab_vb_key_decode(const uint8_t *data, size_t len, struct sfab_vb_key *out)
{
    struct sfab_reader r = sfab_reader_on(data, len);
    struct sfab_vb_key key;
    bool good = sfab_read_uint(&r, 1) == FORM_KEY;

    key.addr = sfab_read_uint(&r, 8);
    key.len_bytes = sfab_read_uint(&r, 8);
    key.rkey = (uint32_t)sfab_read_uint(&r, 4);
    if (!good || !complete(&r) || key.len_bytes == 0 || key.addr > UINT64_MAX - key.len_bytes)
        return false;
    *out = key;
    return true;
}

size_t sfab_vb_hello_encode(const struct sfab_vb_hello *hello, uint8_t *buf, size_t cap)
{
    struct sfab_writer w = sfab_writer_on(buf, cap);

    sfab_write_uint(&w, FORM_HELLO, 1);
    sfab_write_uint(&w, hello->rank, 4);
    sfab_write_uint(&w, hello->nonce, 8);
    sfab_write_uint(&w, hello->peer_nonce, 8);
    return written(&w, buf);
}

bool sfab_vb_hello_decode(const uint8_t *data, size_t len, struct sfab_vb_hello *out)
{
    struct sfab_reader r = sfab_reader_on(data, len);
    struct sfab_vb_hello hello;
    bool good = sfab_read_uint(&r, 1) == FORM_HELLO;

    hello.rank = (uint32_t)sfab_read_uint(&r, 4);
    hello.nonce = sfab_read_uint(&r, 8);
    hello.peer_nonce = sfab_read_uint(&r, 8);
    if (!good || r.failed)
        return false;
    *out = hello;
    return true;
}
