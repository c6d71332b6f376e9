/* Routers: which wavelets move in a cycle, and what their passing changes.
 *
 * A cycle has two halves, so that nothing depends on the order of PEs. `decide` only reads: it
 * finds the wavelets that can move, by what buffers held when the cycle began. `commit` moves them.
 */
#ifndef FABRIC_ROUTER_H
#define FABRIC_ROUTER_H

#include "interpreter.h"

enum { BUFFER_DEPTH = 2 };
enum { FROM_BUFFER, FROM_OUTPUT, FROM_HOST, TO_HOST };

typedef struct Move {
    u32 pe;
    u8 source, color, index, was_closed; /* closed: its senders may have been refused */
} Move;

INLINE u32 opposite(u32 port) { return port ^ 1; } /* west-east, south-north */

/* The color that a router takes a wavelet for: with color swap its partner's. */
INLINE u32 taken_as(const Pe *pe, u32 color, u32 port) {
    if (LIKELY(!pe->has_swap)) return color;
    const Route *partner = find_route(pe, color ^ 1);
    if (!partner || !partner->config.is_used) return color;
    const ColorConfig *c = &partner->config;
    const int swaps = port <= EAST ? c->swap_x : port <= NORTH ? c->swap_y : c->swap_x && c->swap_y;
    return swaps ? color ^ 1 : color;
}

INLINE int accepts(const Pe *pe, u32 color, u32 port) {
    if (!pe) return 0;
    const Route *r = find_route(pe, taken_as(pe, color, port));
    return r && r->config.is_used && !r->config.teardown && !r->barrier && r->count < BUFFER_DEPTH &&
           (r->rx >> port & 1);
}

INLINE int is_ce_ignored(const Entry *e) { return e->control && (command_group(e->data, 0) & 4); }

/* Whether the CE has room for the head of a color, or will not see it. */
static int ramp_takes(const Machine *m, const Pe *pe, const Route *r, const Entry *e) {
    if (is_ce_ignored(e)) return 1;
    const u32 number = pe->queue_for[r->config.color];
    if (number == NONE8) return 0;
    const Queue *q = pe->inputs + number;
    if (r->config.filter.is_active && q->filtered) {
        Filter copy = r->config.filter;
        if (!passes_filter(&copy, e->data, e->control)) return 1;
    }
    return q->count < room_of(m, q);
}

static void add_move(Machine *m, u32 pe, u32 source, u32 color, u32 index) {
    if (m->num_moves == m->move_capacity) {
        m->move_capacity = m->move_capacity ? 2 * m->move_capacity : 1024;
        m->move_list = realloc(m->move_list, m->move_capacity * sizeof(Move));
    }
    m->move_list[m->num_moves++] = (Move){.pe = pe, .source = (u8)source, .color = (u8)color, .index = (u8)index};
}

/* A route from nowhere to nowhere keeps what it has; one to nowhere drops it. */
INLINE int is_closed(const Route *r) { return !(r->rx | r->tx); }

static void decide_buffers(Machine *m, Pe *pe, u32 *used) {
    const u64 around = (u64)pe->buffered | (u64)pe->buffered << NUM_COLORS;
    for (u32 k = pe->next_color; around >> k; k++) {
        k += (u32)__builtin_ctzll(around >> k);
        if (k >= pe->next_color + NUM_COLORS) return;
        const u32 color = k >= NUM_COLORS ? k - NUM_COLORS : k;
        const Route *r = find_route(pe, color);
        if (r->config.teardown || is_closed(r) || (r->tx & *used)) continue;
        const Entry *e = r->buffer;
        int can = 1;
        for (u32 ports = r->tx & 15; ports && can; ports &= ports - 1) {
            const u32 port = (u32)__builtin_ctz(ports);
            Pe *other = neighbour(m, pe, port, 1);
            can = !other || accepts(other, color, opposite(port)); /* beyond the rectangle it leaves */
        }
        if (can && (r->tx >> RAMP & 1)) can = ramp_takes(m, pe, r, e);
        if (!can) continue;
        *used |= r->tx;
        add_move(m, pe->number, FROM_BUFFER, color, 0);
        m->move_list[m->num_moves - 1].was_closed = r->barrier || r->count == BUFFER_DEPTH;
    }
}

static void decide_outputs(Machine *m, Pe *pe, u64 now) {
    /* From the queue after the last one that sent, around. */
    for (u32 rest = (u32)pe->out_mask | (u32)pe->out_mask << 8, k = pe->next_output; rest >> k; k++) {
        k += (u32)__builtin_ctz(rest >> k);
        if (k >= pe->next_output + NUM_QUEUES) return;
        const u32 number = k & (NUM_QUEUES - 1);
        const Queue *q = pe->outputs + number;
        if (!is_due(head_of(q), now)) continue;
        const u32 color = head_of(q)->color;
        if (color >= NUM_COLORS) continue;
        if (pe->host_open >> color & 1) { add_move(m, pe->number, TO_HOST, color, number); return; }
        if (!accepts(pe, color, RAMP)) continue;
        add_move(m, pe->number, FROM_OUTPUT, color, number);
        return;
    }
}

static void decide_host(Machine *m, Pe *pe, u32 *used, u64 now) {
    const HostPort *h = &pe->host_in;
    if (*used >> RAMP & 1) return;
    if (h->start + (h->first + h->position) / m->channel_words > now) return;
    const u32 number = pe->queue_for[h->color];
    if (number == NONE8 || pe->inputs[number].count >= room_of(m, pe->inputs + number)) return;
    *used |= 1u << RAMP;
    add_move(m, pe->number, FROM_HOST, h->color, number);
}

static void decide(Machine *m, Pe *pe, u64 now) {
    u32 used = 0;
    if (pe->buffered) decide_buffers(m, pe, &used);
    if (pe->out_mask) decide_outputs(m, pe, now);
    if (UNLIKELY(pe->has_feed)) decide_host(m, pe, &used, now);
}

/* Of several ports the two lowest are named, of several colors the lowest, in any order. */
static void fail_arrival(Machine *m, Pe *pe, Route *r, u32 color, u32 port) {
    r->arrival_ports |= (u8)(1u << port);
    const u32 first = (u32)__builtin_ctz(r->arrival_ports);
    const u32 second = (u32)__builtin_ctz(r->arrival_ports & (r->arrival_ports - 1u));
    if (m->fault == FAULT_TWO_ARRIVALS && m->fault_pe == pe->number && m->fault_pc >= color) m->fault = 0;
    fail(m, pe, FAULT_TWO_ARRIVALS, color, first, second);
}

/* A wavelet comes to a router; its entry can move in the next cycle. */
static void arrive(Machine *m, Pe *pe, Entry e, u32 color, u32 port, u64 now) {
    const u32 as = taken_as(pe, color, port);
    Route *r = find_route(pe, as);
    if (r->arrival == now + 1) { fail_arrival(m, pe, r, as, port); return; }
    r->arrival = now + 1;
    r->arrival_ports = (u8)(1u << port);
    e.color = (u8)as;
    e.ready = (u32)now + 1;
    r->buffer[r->count++] = e;
    pe->buffered |= 1u << as;
    set_barrier(r);
    schedule(m, pe, now + 1);
}

static void deliver(Machine *m, Pe *pe, u32 number, Entry e, u64 now) {
    e.ready = (u32)now + m->ramp_cycles;
    push_queue(pe->inputs, number, &pe->in_mask, e);
    schedule(m, pe, now + m->ramp_cycles);
}

/* To a router of this band at once; into another one through the list that its thread reads. */
static void send(Machine *m, Pe *pe, Entry e, u32 color, u32 port, u64 now) {
    if (LIKELY(pe->number - m->first < m->span)) { arrive(m, pe, e, color, port, now); return; }
    Arrivals *list = m->arrivals + (pe->number < m->first ? ABOVE : BELOW);
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? 2 * list->capacity : 64;
        list->items = realloc(list->items, list->capacity * sizeof(Arrival));
    }
    list->items[list->count++] = (Arrival){.pe = pe->number, .color = (u8)color, .port = (u8)port, .entry = e};
}

static void note_left(Machine *m, const Pe *pe, u32 port, u32 color, u64 now) {
    if (m->num_left++) return;
    m->left_cycle = now;
    m->left_pe = pe->number;
    m->left_port = (u8)port;
    m->left_color = (u8)color;
}

static void wake_senders(Machine *m, Pe *pe, const Route *r, u32 rx) {
    (void)r;
    for (u32 port = WEST; port <= NORTH; port++) {
        if (!(rx >> port & 1)) continue;
        Pe *other = neighbour(m, pe, port, 0);
        if (other) schedule(m, other, m->now + 1);
    }
}

/* What a command does at the router that sees it; returns the payload that the next one sees. */
static u32 obey(Machine *m, Pe *pe, Route *r, u32 data) {
    const u32 command = command_group(data, 0) & 3;
    ColorConfig *c = &r->config;
    if (command == COMMAND_TEARDOWN) {
        c->teardown = 1;
        pe->teardown_pending |= 1u << c->color;
        schedule(m, pe, m->now + 1);
    }
    if (!c->has_switch) return data;
    const int advanced = command == COMMAND_ADVANCE && advance_switch(r);
    if (command == COMMAND_RESET) { c->position = 0; select_position(r); }
    const int pops = c->pop_mode == 1 || (c->pop_mode >= 2 && advanced) ||
                     (c->pop_mode == 3 && command == COMMAND_NOP);
    return pops ? pop_command(data) : data;
}

static void commit_buffer(Machine *m, Pe *pe, const Move *move, u64 now) {
    const u32 color = move->color;
    Route *r = find_route(pe, color);
    Entry e = r->buffer[0];
    const u32 tx = r->tx, rx = r->rx;
    r->buffer[0] = r->buffer[1];
    if (--r->count == 0) pe->buffered &= ~(1u << color);
    set_barrier(r);
    TRACE(m, now, pe->number, e.data, (u32)now - e.ready, TRACE_HOP, (u8)color, (u8)tx, trace_more(r->count, e.control));
    if (tx >> RAMP & 1 && !is_ce_ignored(&e)) {
        const u32 number = pe->queue_for[color];
        Filter *filter = &r->config.filter;
        const int filters = number != NONE8 && filter->is_active && pe->inputs[number].filtered;
        if (!filters || passes_filter(filter, e.data, e.control)) deliver(m, pe, number, e, now);
    }
    if (e.control) e.data = obey(m, pe, r, e.data);
    if (e.advances) { if (r->config.has_switch) advance_switch(r); e.advances = 0; }
    for (u32 port = WEST; port <= NORTH; port++)
        if (tx >> port & 1) {
            Pe *other = neighbour(m, pe, port, 1);
            if (other) send(m, other, e, color, opposite(port), now);
            else note_left(m, pe, port, color, now);
        }
    if (move->was_closed) wake_senders(m, pe, r, rx | r->rx);
    pe->next_color = (u8)(color + 1 == NUM_COLORS ? 0 : color + 1);
    schedule(m, pe, now + 1);
}

static void commit(Machine *m, const Move *move, u64 now) {
    Pe *pe = m->pes[move->pe];
    m->moves++;
    m->last_move = now;
    switch (move->source) {
    case FROM_BUFFER: commit_buffer(m, pe, move, now); return;
    case FROM_OUTPUT: {
        const Entry e = pop_queue(pe->outputs, move->index, &pe->out_mask);
        TRACE(m, now, pe->number, e.data, (u32)now - e.ready, TRACE_SEND, move->color, move->index,
              trace_more(pe->outputs[move->index].count, e.control));
        arrive(m, pe, e, move->color, RAMP, now);
        break;
    }
    case TO_HOST: {
        const Entry e = pop_queue(pe->outputs, move->index, &pe->out_mask);
        HostPort *h = &pe->host_out;
        h->data[h->position++] = e.data;
        TRACE(m, now, pe->number, e.data, (u32)now - e.ready, TRACE_HOST_OUT, move->color, move->index,
              trace_more(pe->outputs[move->index].count, e.control));
        if (h->position == h->total) { pe->host_open &= ~(1u << move->color); m->num_streams--; }
        break;
    }
    case FROM_HOST: {
        HostPort *h = &pe->host_in;
        const Entry e = {.data = h->data[h->position++], .color = move->color};
        TRACE(m, now, pe->number, e.data, 0, TRACE_HOST_IN, move->color, move->index,
              trace_more(pe->inputs[move->index].count, 0));
        deliver(m, pe, move->index, e, now);
        if (h->position == h->total) { pe->has_feed = 0; m->num_streams--; }
        schedule(m, pe, now + 1);
        return;
    }
    }
    pe->next_output = (u8)((move->index + 1) & (NUM_QUEUES - 1));
    schedule(m, pe, now + 1);
}

#endif
