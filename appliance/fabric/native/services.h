/* Services that libraries call: clock, random numbers, printing, configuration, mathematics. */
#ifndef FABRIC_SERVICES_H
#define FABRIC_SERVICES_H

#include "routes.h"

f64 exp(f64 x);
f64 log(f64 x);
f64 sin(f64 x);
f64 cos(f64 x);
f64 tanh(f64 x);
f64 pow(f64 x, f64 y);
f64 floor(f64 x);
f64 ceil(f64 x);

/* Services whose effect others see, or that read the clock while others take its cycles. */
INLINE int is_exact_service(u32 number, const Pe *pe) {
    (void)pe;
    return number >= SERVICE_unblock_command_stream && number <= SERVICE_config_write;
}

static u64 timestamp(const Pe *pe, u64 now) {
    return pe->timer_value + (pe->is_counting ? now - pe->timer_start : 0);
}

static void count_time(Pe *pe, int on, u64 now) {
    pe->timer_value = timestamp(pe, now);
    pe->timer_start = now;
    pe->is_counting = (u8)on;
}

/* A register of 23 bits that shifts to the right, taps 23 and 18: 128 steps, sixteen at a time. */
static u32 random16(Pe *pe) {
    u32 state = pe->prng[pe->active_prng & 3] & 0x7fffff;
    if (!state) state = 1; /* zero would stay zero */
    for (int round = 0; round < 8; round++) state = state >> 16 | ((state ^ state >> 5) & 0xffff) << 7;
    pe->prng[pe->active_prng & 3] = state;
    return state & 0xffff;
}

static void print_line(Machine *m, Pe *pe) {
    Console *c = &m->console;
    const u64 need = c->size + 16 + pe->line_length;
    if (need > c->capacity) { c->capacity = 2 * need; c->bytes = realloc(c->bytes, c->capacity); }
    memcpy(c->bytes + c->size, &m->now, 8);
    memcpy(c->bytes + c->size + 8, &pe->number, 4);
    memcpy(c->bytes + c->size + 12, &pe->line_length, 4);
    if (pe->line_length) memcpy(c->bytes + c->size + 16, pe->line, pe->line_length);
    c->size = need;
    pe->line_length = 0;
}

static void print_character(Machine *m, Pe *pe, u32 byte) {
    if ((byte & 0xff) == '\n') { print_line(m, pe); return; }
    if (pe->line_length == pe->line_capacity) {
        pe->line_capacity = pe->line_capacity ? 2 * pe->line_capacity : 64;
        pe->line = realloc(pe->line, pe->line_capacity);
    }
    pe->line[pe->line_length++] = (char)byte;
}

static f64 mathematics(u32 number, f64 x, f64 y) {
    switch (number) {
    case SERVICE_sqrt: return __builtin_sqrt(x); /* twice rounded, but exact: 53 > 2 * 24 + 2 */
    case SERVICE_exp: return exp(x);
    case SERVICE_log: return log(x);
    case SERVICE_sin: return sin(x);
    case SERVICE_cos: return cos(x);
    case SERVICE_tanh: return tanh(x);
    case SERVICE_pow: return pow(x, y);
    case SERVICE_floor: return floor(x);
    case SERVICE_ceil: return ceil(x);
    }
    return 0;
}

static void set_switch(Machine *m, Pe *pe, u32 color, u32 position, u32 rx, u32 tx) {
    Route *r = route_of(m, pe, color);
    r->config.rx1[position & 3] = (u8)rx;
    r->config.tx1[position & 3] = (u8)tx;
    r->config.valid |= (u8)(1u << (position & 3));
    r->config.has_switch = 1;
    select_position(r);
}

static u64 routes_of(const Pe *pe, u32 color) {
    const Route *r = find_route(pe, color);
    return r ? r->config.rx | (u64)r->config.tx << 8 : 0;
}

static void configure_route(Machine *m, Pe *pe, u32 number, const u64 *a) {
    Route *r = route_of(m, pe, (u32)a[0] % NUM_COLORS);
    switch (number) {
    case SERVICE_set_routes: r->config.rx = (u8)a[1]; r->config.tx = (u8)a[2]; r->config.is_used = 1; break;
    case SERVICE_switch_clear_position: r->config.position = 0; break;
    case SERVICE_switch_invalidate: r->config.valid = 0; break;
    case SERVICE_switch_set: set_switch(m, pe, (u32)a[0] % NUM_COLORS, (u32)a[1], (u32)a[2], (u32)a[3]); break;
    case SERVICE_switch_ring_mode: r->config.ring = a[1] != 0; break;
    case SERVICE_switch_pop_mode: r->config.pop_mode = (u8)a[1]; break;
    case SERVICE_switch_set_position: r->config.position = (u8)(a[1] & 3); break;
    case SERVICE_teardown_exit:
        r->config.teardown = 0;
        pe->teardown_pending &= ~(1u << r->config.color);
        pe->teardown_seen &= ~(1u << r->config.color);
        break;
    case SERVICE_filter_set_active: r->config.filter.is_active = a[1] != 0; break;
    case SERVICE_filter_set_counter: r->config.filter.counter = (u32)a[1]; break;
    case SERVICE_filter_set_limit:
        if (a[1] == 0) r->config.filter.max_counter = (u32)a[2];
        if (a[1] == 1) r->config.filter.limit1 = (u32)a[2];
        if (a[1] == 2) { r->config.filter.limit2 = (u32)a[2]; r->config.filter.has_limit2 = 1; }
        break;
    case SERVICE_filter_set_range:
        r->config.filter.min_index = (u32)a[1];
        r->config.filter.max_index = (u32)a[2];
        break;
    }
    select_position(r);
    set_barrier(r);
    wake_around(m, pe);
}

/* Lets a ring hold more than its queue takes from the router. */
static void widen(Queue *q) {
    Entry entries[RING];
    for (u32 k = 0; k < q->count; k++) entries[k] = q->ring[(q->head + k) % q->size];
    memcpy(q->ring, entries, q->count * sizeof(Entry));
    q->head = 0;
    q->size = RING;
}

/* What waits in a queue that was lent to the color comes along, before what arrives from now on. */
static void bind_input(Pe *pe, u32 number, u32 color) {
    Queue *q = pe->inputs + number;
    const u32 before = pe->queue_for[color];
    for (u32 k = 0; q->is_bound && k < NUM_COLORS; k++)
        if (pe->queue_for[k] == number) pe->queue_for[k] = NONE8;
    q->color = (u8)color;
    q->is_bound = 1;
    q->is_lent = 0;
    pe->queue_for[color] = (u8)number;
    if (before == NONE8 || before == number || !pe->inputs[before].is_lent) return;
    pe->inputs[before].is_bound = pe->inputs[before].is_lent = 0;
    if (pe->inputs[before].count + q->count > q->size) widen(q);
    while (pe->inputs[before].count && q->count < q->size)
        push_queue(pe->inputs, number, &pe->in_mask, pop_queue(pe->inputs, before, &pe->in_mask));
}

static u64 serve_queue(Machine *m, Pe *pe, u32 number, const u64 *a) {
    const u32 index = (u32)a[1] & (NUM_QUEUES - 1);
    Queue *q = a[0] ? pe->outputs + index : pe->inputs + index;
    const u32 bit = 1u << (index + (a[0] ? 8 : 0));
    switch (number) {
    case SERVICE_queue_flush: q->flushing = 1; pe->is_flushing = 1; break;
    case SERVICE_queue_flush_exit: q->flushing = 0; pe->flush_pending &= ~bit; break;
    case SERVICE_queue_flush_pending: return (pe->flush_pending & bit) != 0;
    case SERVICE_queue_is_empty: return q->count == 0;
    case SERVICE_queue_is_full: return q->count >= q->depth;
    case SERVICE_queue_bind_input:
        bind_input(pe, (u32)a[0] & 7, (u32)a[1] % NUM_COLORS);
        pe->inputs[a[0] & 7].filtered = a[2] != 0;
        break;
    case SERVICE_queue_bind_output:
        q = pe->outputs + (a[0] & 7);
        q->color = (u8)a[1];
        q->is_bound = 1;
        break;
    }
    wake_around(m, pe);
    return 0;
}

static u64 configuration(Machine *m, Pe *pe, u32 address, int write, u32 value) {
    if (is_register(m, address)) return access_register(m, pe, address, write, value);
    fail(m, pe, FAULT_NO_REGISTER, pe->pc, address, 0);
    return 0;
}

static void store_timestamp(Machine *m, Pe *pe, u32 address, u64 now) {
    const u64 value = timestamp(pe, now);
    if (address + 6 > pe->memory_size) { fail(m, pe, FAULT_MEMORY, pe->pc, address, 6); return; }
    memcpy(pe->memory + address, &value, 6);
}

static void set_fifo_length(Machine *m, Pe *pe, u32 number, const u64 *a) {
    if (a[0] >= pe->image->num_fifos) { fail(m, pe, FAULT_NO_FIFO, pe->pc, (u32)a[0], (u32)a[1]); return; }
    Fifo *fifo = pe->fifos + a[0];
    if (number == SERVICE_fifo_set_read_length) fifo->read_length = (u32)a[1];
    else fifo->write_length = (u32)a[1];
}

static u64 serve(Machine *m, Pe *pe, const Instruction *i, u64 now) {
    const u64 *a = pe->frame + i->b;
    const u32 number = (u32)i->imm;
    if (number >= SERVICE_set_routes && number <= SERVICE_filter_set_range) {
        if (number == SERVICE_get_routes) return routes_of(pe, (u32)a[0] % NUM_COLORS);
        if (number == SERVICE_teardown_pending) return pe->teardown_pending >> (a[0] & 31) & 1;
        configure_route(m, pe, number, a);
        return 0;
    }
    if (number >= SERVICE_queue_flush && number <= SERVICE_queue_is_full) return serve_queue(m, pe, number, a);
    if (number >= SERVICE_sqrt && number <= SERVICE_ceil) {
        if (i->c) return narrow16(mathematics(number, widen16((u32)a[0], (int)m->format), widen16((u32)a[1], (int)m->format)), (int)m->format);
        return of_f32((f32)mathematics(number, as_f32(a[0]), as_f32(a[1])));
    }
    switch (number) {
    case SERVICE_coordinate_x: return pe->x;
    case SERVICE_coordinate_y: return pe->y;
    case SERVICE_timestamp_enable: count_time(pe, 1, now); break;
    case SERVICE_timestamp_disable: count_time(pe, 0, now); break;
    case SERVICE_timestamp_reset: pe->timer_value = 0; pe->timer_start = now; break;
    case SERVICE_timestamp_read: store_timestamp(m, pe, (u32)a[0] & 0xffff, now); break;
    case SERVICE_random16: return random16(pe);
    case SERVICE_random_select: pe->active_prng = (u32)a[0] & 3; break;
    case SERVICE_random_seed: pe->prng[pe->active_prng & 3] = (u32)a[0]; break;
    case SERVICE_unblock_command_stream: pe->command_ready = 1; m->num_unblocked++; break;
    case SERVICE_print_character: print_character(m, pe, (u32)a[0]); break;
    case SERVICE_task_priority:
        pe->high_priority = a[1] ? pe->high_priority | 1ull << (a[0] & 63) : pe->high_priority & ~(1ull << (a[0] & 63));
        break;
    case SERVICE_main_thread_priority: pe->main_priority = (u8)a[0]; break;
    case SERVICE_fifo_set_read_length:
    case SERVICE_fifo_set_write_length: set_fifo_length(m, pe, number, a); break;
    case SERVICE_config_read: return configuration(m, pe, (u32)a[0], 0, 0);
    case SERVICE_config_write: return configuration(m, pe, (u32)a[0], 1, (u32)a[1]);
    case SERVICE_scale:
        if (i->c) return narrow16(scaled(widen16((u32)a[0], (int)m->format), (i16)a[1]), (int)m->format);
        return of_f32((f32)scaled(as_f32(a[0]), (i16)a[1]));
    }
    return 0;
}

#endif
