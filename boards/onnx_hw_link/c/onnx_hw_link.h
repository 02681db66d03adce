/* A network on a chip, from a microcontroller: the host's side of the link, C99, headers alone, no allocation.
 *
 * docs/link.md is the protocol; onnx_hw_link/session.py says the same in Python. One file of a program may include this
 * (all functions are static). Of one link at a time:
 *
 *     static onnx_hw_link link;
 *     onnx_hw_link_init(&link, digest, INPUT_BYTES, OUTPUT_BYTES);
 *     onnx_hw_link_status s = onnx_hw_link_open(&link, &io, number, 1500);
 *     if (!s) s = onnx_hw_link_run(&link, &io, frame, results, 1500);
 *     if (s) puts(onnx_hw_link_told(s));
 *
 * A frame is never lost, doubled, reordered or mixed, whatever happens on the wire, and no call takes longer than its
 * timeout and what `move` takes. `python -m onnx_hw_link.c_header BUILD` writes digest, sizes and how frames are made.
 */
#ifndef ONNX_HW_LINK_H
#define ONNX_HW_LINK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "onnx_hw_link_frame.h"

#ifndef ONNX_HW_LINK_FRAMES
#define ONNX_HW_LINK_FRAMES 4 /* that may be under way at a time */
#endif
#ifndef ONNX_HW_LINK_PACKETS
#define ONNX_HW_LINK_PACKETS 8 /* that may be under way at a time; at most 64 */
#endif
#define ONNX_HW_LINK_PROTOCOL 2
#define ONNX_HW_LINK_PAYLOAD 256
#define ONNX_HW_LINK_TIMES 9
#define ONNX_HW_LINK_LONGEST 268 /* bytes of a packet on the wire */
#define ONNX_HW_LINK_GREETINGS 3
#define ONNX_HW_LINK_FAILED ((size_t)-1)

typedef enum {
    ONNX_HW_LINK_OK,
    ONNX_HW_LINK_NO_ANSWER,
    ONNX_HW_LINK_GARBLED,
    ONNX_HW_LINK_OTHER_PROTOCOL,
    ONNX_HW_LINK_OTHER_DESIGN,
    ONNX_HW_LINK_NOT_READY,
    ONNX_HW_LINK_STALLED,
    ONNX_HW_LINK_PORT
} onnx_hw_link_status;

/* The wire, and a clock.
 *
 * move: sends all of `to`, and returns how many bytes came, at most `most` (at least `to_count`) into `from`; at once
 *     where nothing comes, or after a millisecond or two. ONNX_HW_LINK_FAILED where the wire is gone.
 *     A UART sends, then takes what has come. SPI moves `to` and takes as many bytes back; without `to`, it moves zeros
 *     while IRQ is high, and no more than `most`.
 */
typedef struct {
    size_t (*move)(void *wire, const uint8_t *to, size_t to_count, uint8_t *from, size_t most);
    uint32_t (*now_ms)(void *wire);
    void *wire;
} onnx_hw_link_io;

typedef struct {
    const uint8_t *in;
    uint8_t *out;
} onnx_hw_link_frame;

typedef struct {
    uint32_t frame; /* its number */
    uint32_t at;    /* bytes of it before */
    uint16_t size;
} onnx_hw_link_packet;

typedef struct {
    /* What must be there. */
    uint8_t digest[16];
    uint32_t input_bytes, output_bytes;
    /* What the chip says of itself. */
    uint32_t clock_hz;
    uint16_t input_buffer, result_bytes;
    /* Faults so far: packets that came broken, packets of ours that were missed, silences, packets sent again. */
    uint32_t broken, missed, silent, resent;
    /* Of the frame that was finished last: the cycles of its first beat in, if that is known, and its last beat out. */
    uint8_t began_known;
    uint32_t began, ended;
    uint32_t finished; /* frames so far */
    uint32_t progress; /* grows with everything that is acknowledged or comes */
    /* The rest is nobody's business. */
    uint8_t greeted, number, oldest, wanted, ack_due, poll_due, asked, too_long;
    onnx_hw_link_status refused;
    onnx_hw_link_frame frames[ONNX_HW_LINK_FRAMES];
    uint32_t offered, sending, sent; /* frames: given to us, being put into packets; bytes of that one */
    onnx_hw_link_packet flying[ONNX_HW_LINK_PACKETS];
    uint32_t gone, made, next; /* packets: acknowledged, made, sent next; since the beginning */
    uint32_t asked_at, sent_to, freed, come, news, patience, retry;
    uint8_t waits, times[ONNX_HW_LINK_TIMES];
    uint16_t wire_count;
    uint32_t heard;
    uint8_t wire[ONNX_HW_LINK_LONGEST];
} onnx_hw_link;

/* ---- bytes ------------------------------------------------------------------------------------------------------ */

static uint16_t onnx_hw_link_crc(uint16_t crc, uint8_t byte) {
    uint8_t x = (uint8_t)(crc >> 8 ^ byte);
    x ^= (uint8_t)(x >> 4);
    return (uint16_t)(crc << 8 ^ (uint16_t)x << 12 ^ (uint16_t)x << 5 ^ x);
}

static uint32_t onnx_hw_link_u32(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* A packet as it is sent, its CRC, the codes of its runs and its zero included; how long it is. */
static size_t onnx_hw_link_to_wire(uint8_t *out, const uint8_t *header, const uint8_t *payload, size_t size) {
    uint16_t crc = 0xFFFF;
    size_t code = 0, at = 1;
    for (size_t k = 0; k < size + 5; k++) {
        uint8_t byte = k < 3 ? header[k] : k < size + 3 ? payload[k - 3] : (uint8_t)(k == size + 3 ? crc >> 8 : crc);
        if (k < size + 3) crc = onnx_hw_link_crc(crc, byte);
        if (byte) out[at++] = byte;
        if (!byte || at - code == 255) { /* behind a run of 254 no zero stands */
            out[code] = (uint8_t)(at - code);
            code = at++;
        }
    }
    out[code] = (uint8_t)(at - code);
    out[at++] = 0;
    return at;
}

/* The packet that came as `count` bytes, in their place: how long it is without its CRC; 0 where it is broken. */
static size_t onnx_hw_link_from_wire(uint8_t *wire, size_t count) {
    size_t end = count, size = count - 1;
    uint16_t crc = 0xFFFF;
    while (end > 0) {
        uint8_t code = wire[end - 1];
        if (code == 0 || code > end) return 0;
        if (end != count) {
            wire[end - 1] = 0;
            if (code == 255) { /* no zero behind this run */
                memmove(wire + end - 1, wire + end, size - end);
                size--;
            }
        }
        end -= code;
    }
    for (size_t k = 0; k < size; k++) crc = onnx_hw_link_crc(crc, wire[k]);
    return size > 2 && crc == 0 ? size - 2 : 0;
}

/* ---- what comes ------------------------------------------------------------------------------------------------- */

static void onnx_hw_link_went_on(onnx_hw_link *l) {
    l->progress++;
    l->waits = 0;
    l->patience = l->retry;
}

static void onnx_hw_link_take_greeting(onnx_hw_link *l, const uint8_t *packet, size_t size) {
    const uint8_t *digest = 0, *sizes = 0;
    if (l->greeted || size < 5 || packet[2] != l->number) return;
    if (packet[4] == ONNX_HW_LINK_PROTOCOL) {
        for (size_t at = 7; at + 2 <= size && at + 2 + packet[at + 1] <= size; at += 2u + packet[at + 1]) {
            if (packet[at] == 1 && packet[at + 1] >= 16) digest = packet + at + 2;
            if (packet[at] == 2 && packet[at + 1] >= 16) sizes = packet + at + 2;
        }
    }
    if (!digest || !sizes) {
        l->refused = ONNX_HW_LINK_OTHER_PROTOCOL;
    } else if (memcmp(digest, l->digest, 16) || onnx_hw_link_u32(sizes) != l->input_bytes ||
               onnx_hw_link_u32(sizes + 4) != l->output_bytes) {
        l->refused = ONNX_HW_LINK_OTHER_DESIGN;
    } else if ((packet[5] & 7) != 1) { /* ready, and neither without weights nor with damaged ones */
        l->refused = ONNX_HW_LINK_NOT_READY;
    } else {
        l->clock_hz = onnx_hw_link_u32(sizes + 8);
        l->input_buffer = (uint16_t)(sizes[12] | sizes[13] << 8);
        l->result_bytes = (uint16_t)(sizes[14] | sizes[15] << 8);
        l->greeted = 1;
    }
}

static void onnx_hw_link_take_result(onnx_hw_link *l, uint8_t number, const uint8_t *payload) {
    uint32_t all = l->output_bytes + ONNX_HW_LINK_TIMES;
    if (number != l->wanted || l->finished == l->offered) {
        if ((uint8_t)(number - l->wanted) < 128 && !l->asked) l->poll_due = 1;
        l->ack_due = 1;
        return;
    }
    l->wanted++;
    l->ack_due = 1;
    l->asked = 0;
    onnx_hw_link_went_on(l);
    for (uint16_t k = 0; k < l->result_bytes && l->come < all; k++, l->come++) {
        if (l->come < l->output_bytes)
            l->frames[l->finished % ONNX_HW_LINK_FRAMES].out[l->come] = payload[k];
        else
            l->times[l->come - l->output_bytes] = payload[k];
    }
    if (l->come == all) {
        l->began_known = l->times[0] & 1;
        l->began = onnx_hw_link_u32(l->times + 1);
        l->ended = onnx_hw_link_u32(l->times + 5);
        l->come = 0;
        l->finished++;
    }
}

static void onnx_hw_link_take(onnx_hw_link *l, const uint8_t *packet, size_t size) {
    uint8_t kind = packet[0], acknowledged, step;
    uint32_t unit = l->input_buffer / 128u, freed;
    if (kind == 0x81) {
        if (l->greeted && size > 5 && packet[5] & 4) l->refused = ONNX_HW_LINK_NOT_READY; /* its weights are damaged */
        onnx_hw_link_take_greeting(l, packet, size);
        return;
    }
    if (!l->greeted || kind < 0x82 || kind > 0x85) return;
    acknowledged = (uint8_t)(packet[2] - l->oldest);
    if (acknowledged <= l->made - l->gone) {
        if (acknowledged) onnx_hw_link_went_on(l);
        l->gone += acknowledged;
        l->oldest = packet[2];
        if (l->next < l->gone) l->next = l->gone;
    }
    step = (uint8_t)(packet[3] - (uint8_t)(l->freed / unit));
    freed = (l->freed / unit + step) * unit;
    if (freed - l->freed <= l->sent_to - l->freed) l->freed = freed;
    if (kind == 0x84 && l->asked) l->poll_due = 1; /* what the chip missed may have been the question */
    if (kind == 0x85) l->asked = 0;
    if (kind == 0x84 || (kind == 0x85 && (int32_t)(l->gone - l->asked_at) < 0)) {
        l->missed++;
        l->next = l->gone;
    }
    if (kind == 0x82 && size == 4u + l->result_bytes) onnx_hw_link_take_result(l, packet[1], packet + 4);
}

/* Bytes that have come. */
static void onnx_hw_link_receive(onnx_hw_link *l, const uint8_t *data, size_t count) {
    for (size_t k = 0; k < count; k++) {
        if (data[k]) {
            l->heard++;
            if (l->wire_count < ONNX_HW_LINK_LONGEST)
                l->wire[l->wire_count++] = data[k];
            else
                l->too_long = 1;
        } else if (l->wire_count) {
            size_t size = l->too_long ? 0 : onnx_hw_link_from_wire(l->wire, l->wire_count);
            l->wire_count = 0;
            l->too_long = 0;
            if (size >= 4) {
                onnx_hw_link_take(l, l->wire, size);
            } else {
                l->broken++;
                l->poll_due = 1;
            }
        }
    }
}

/* ---- what goes -------------------------------------------------------------------------------------------------- */

/* Whether there is a packet of data to be sent, and room for it in the chip. */
static int onnx_hw_link_has_payload(onnx_hw_link *l) {
    uint32_t room, rest, size;
    if (l->next < l->made) {
        l->resent++;
        return 1;
    }
    if (l->sending == l->offered || l->made - l->gone == ONNX_HW_LINK_PACKETS) return 0;
    room = l->input_buffer - 2u - (l->sent_to - l->freed);
    rest = l->input_bytes - l->sent;
    size = rest < ONNX_HW_LINK_PAYLOAD ? rest : ONNX_HW_LINK_PAYLOAD;
    if (room < size && room < l->input_buffer / 4u) return 0; /* small packets would fill the line with headers */
    if (size > room) size = room;
    l->flying[l->made % ONNX_HW_LINK_PACKETS].frame = l->sending;
    l->flying[l->made % ONNX_HW_LINK_PACKETS].at = l->sent;
    l->flying[l->made % ONNX_HW_LINK_PACKETS].size = (uint16_t)size;
    l->made++;
    l->sent_to += size;
    l->sent += size;
    if (l->sent == l->input_bytes) {
        l->sent = 0;
        l->sending++;
    }
    return 1;
}

/* The next packet to send at a time in milliseconds, into ONNX_HW_LINK_LONGEST bytes; 0 where there is nothing to send. */
static size_t onnx_hw_link_transmit(onnx_hw_link *l, uint32_t now_ms, uint8_t *out) {
    uint8_t header[3];
    header[2] = l->wanted;
    if (!l->waits || (l->finished == l->offered && l->gone == l->made)) {
        l->waits = 1;
        l->news = now_ms;
    }
    if (now_ms - l->news > l->patience) { /* nothing has gone forward */
        l->news = now_ms;
        l->patience = l->patience * 2 < l->retry * 4 ? l->patience * 2 : l->retry * 4;
        l->silent++;
        l->next = l->gone;
        l->poll_due = 1;
    }
    if (l->poll_due) {
        l->poll_due = l->ack_due = 0;
        l->asked = 1;
        l->asked_at = l->next;
        header[0] = 4;
        header[1] = 0;
        return onnx_hw_link_to_wire(out, header, out, 0);
    }
    if (onnx_hw_link_has_payload(l)) {
        const onnx_hw_link_packet *p = &l->flying[l->next % ONNX_HW_LINK_PACKETS];
        header[0] = 2;
        header[1] = (uint8_t)(l->oldest + (l->next - l->gone));
        l->next++;
        l->ack_due = 0;
        return onnx_hw_link_to_wire(out, header, l->frames[p->frame % ONNX_HW_LINK_FRAMES].in + p->at, p->size);
    }
    if (!l->ack_due) return 0;
    l->ack_due = 0;
    header[0] = 3;
    header[1] = 0;
    return onnx_hw_link_to_wire(out, header, out, 0);
}

/* What begins a session whose packets are numbered from `number` on, into ONNX_HW_LINK_LONGEST bytes. */
static size_t onnx_hw_link_hello(onnx_hw_link *l, uint8_t number, uint8_t *out) {
    uint8_t header[3];
    header[0] = 1;
    header[1] = l->number = l->oldest = number;
    header[2] = ONNX_HW_LINK_PROTOCOL;
    out[0] = 0; /* ends whatever another session left half sent */
    return 1 + onnx_hw_link_to_wire(out + 1, header, out, 0);
}

/* A frame to send after all those before, and room for what comes back. Both stay the link's until `finished` counts it.
 * 0 where ONNX_HW_LINK_FRAMES are under way. */
static int onnx_hw_link_offer(onnx_hw_link *l, const uint8_t *in, uint8_t *out) {
    if (l->offered - l->finished == ONNX_HW_LINK_FRAMES) return 0;
    l->frames[l->offered % ONNX_HW_LINK_FRAMES].in = in;
    l->frames[l->offered % ONNX_HW_LINK_FRAMES].out = out;
    l->offered++;
    return 1;
}

/* ---- with a wire ------------------------------------------------------------------------------------------------ */

static void onnx_hw_link_init(onnx_hw_link *l, const uint8_t digest[16], uint32_t input_bytes, uint32_t output_bytes) {
    memset(l, 0, sizeof *l);
    memcpy(l->digest, digest, 16);
    l->input_bytes = input_bytes;
    l->output_bytes = output_bytes;
    l->retry = l->patience = 100;
}

/* Greet the chip. Another `number` than the last time tells answers apart. */
static onnx_hw_link_status onnx_hw_link_open(onnx_hw_link *l, const onnx_hw_link_io *io, uint8_t number,
                                             uint32_t timeout_ms) {
    uint8_t to[ONNX_HW_LINK_LONGEST], from[ONNX_HW_LINK_LONGEST];
    for (int k = 0; k < ONNX_HW_LINK_GREETINGS; k++) {
        uint32_t begun = io->now_ms(io->wire);
        size_t count = onnx_hw_link_hello(l, (uint8_t)(number + k), to);
        do {
            size_t came = io->move(io->wire, to, count, from, sizeof from);
            if (came == ONNX_HW_LINK_FAILED) return ONNX_HW_LINK_PORT;
            count = 0;
            onnx_hw_link_receive(l, from, came);
            if (l->refused) return l->refused;
            if (l->greeted) {
                uint32_t took = io->now_ms(io->wire) - begun;
                l->retry = 20 * took < 100 ? 100 : 20 * took;
                if (l->retry > timeout_ms / 4) l->retry = timeout_ms / 4;
                l->patience = l->retry;
                l->broken = l->poll_due = 0;
                return ONNX_HW_LINK_OK;
            }
        } while (io->now_ms(io->wire) - begun < timeout_ms / ONNX_HW_LINK_GREETINGS);
    }
    return l->heard ? ONNX_HW_LINK_GARBLED : ONNX_HW_LINK_NO_ANSWER;
}

/* Send and receive until `finished` has reached a count. */
static onnx_hw_link_status onnx_hw_link_wait(onnx_hw_link *l, const onnx_hw_link_io *io, uint32_t finished,
                                             uint32_t timeout_ms) {
    uint8_t to[ONNX_HW_LINK_LONGEST], from[ONNX_HW_LINK_LONGEST];
    uint32_t before = l->progress, since = io->now_ms(io->wire);
    while ((int32_t)(l->finished - finished) < 0 || l->ack_due) {
        uint32_t now = io->now_ms(io->wire);
        size_t came = io->move(io->wire, to, onnx_hw_link_transmit(l, now, to), from, sizeof from);
        if (came == ONNX_HW_LINK_FAILED) return ONNX_HW_LINK_PORT;
        onnx_hw_link_receive(l, from, came);
        if (l->refused) return l->refused;
        if (l->progress != before) {
            before = l->progress;
            since = now;
        } else if (now - since > timeout_ms) {
            return ONNX_HW_LINK_STALLED;
        }
    }
    return ONNX_HW_LINK_OK;
}

/* The results of one frame. */
static onnx_hw_link_status onnx_hw_link_run(onnx_hw_link *l, const onnx_hw_link_io *io, const uint8_t *in, uint8_t *out,
                                            uint32_t timeout_ms) {
    while (!onnx_hw_link_offer(l, in, out)) {
        onnx_hw_link_status s = onnx_hw_link_wait(l, io, l->finished + 1, timeout_ms);
        if (s) return s;
    }
    return onnx_hw_link_wait(l, io, l->offered, timeout_ms);
}

static const char *onnx_hw_link_told(onnx_hw_link_status status) {
    switch (status) {
        case ONNX_HW_LINK_NO_ANSWER: return "nothing answers: is the chip powered, and its bitstream loaded?";
        case ONNX_HW_LINK_GARBLED: return "what answers is no packet: is the speed of the wire right?";
        case ONNX_HW_LINK_OTHER_PROTOCOL: return "the chip speaks another version: build its bitstream again";
        case ONNX_HW_LINK_OTHER_DESIGN: return "the chip holds another design: load the bitstream of this build";
        case ONNX_HW_LINK_NOT_READY: return "the chip takes no frames: its weights are missing or damaged";
        case ONNX_HW_LINK_STALLED: return "the chip goes forward no more: is it still connected and powered?";
        case ONNX_HW_LINK_PORT: return "the wire is gone";
        default: return "";
    }
}

#endif
