/* The configuration of a router: routes, switch positions, teardown, filters. */
#ifndef FABRIC_ROUTES_H
#define FABRIC_ROUTES_H

#include "microthreads.h"

static Pe *pe_at(Machine *m, u32 number);

INLINE Pe *neighbour(Machine *m, const Pe *pe, u32 port, int touch) {
    u32 number = pe->number;
    switch (port) {
    case WEST: if (pe->x == 0) return 0; number -= 1; break;
    case EAST: if (pe->x + 1 == m->width) return 0; number += 1; break;
    case SOUTH: if (pe->y + 1 == m->height) return 0; number += m->width; break;
    case NORTH: if (pe->y == 0) return 0; number -= m->width; break;
    default: return 0;
    }
    return touch ? pe_at(m, number) : __atomic_load_n(m->pes + number, __ATOMIC_ACQUIRE);
}

/* What this router's configuration says changed: whoever may now send to it looks again. */
static void wake_around(Machine *m, Pe *pe) {
    schedule(m, pe, m->now + 1);
    for (u32 port = WEST; port <= NORTH; port++) {
        Pe *other = neighbour(m, pe, port, 0);
        if (other) schedule(m, other, m->now + 1);
    }
}

/* What is beyond these bits of a side of a switch position only says that the side is given. */
enum { ALL_PORTS = 31 };

/* A position changes one side (WSE-3: or both); the other stays as the position before left it. */
static void select_position(Route *r) {
    const ColorConfig *c = &r->config;
    r->rx = c->rx;
    r->tx = c->tx;
    for (u32 k = 1; k <= c->position; k++) {
        if (!(c->valid >> k & 1)) continue;
        if (c->rx1[k]) r->rx = c->rx1[k] & ALL_PORTS;
        if (c->tx1[k]) r->tx = c->tx1[k] & ALL_PORTS;
    }
}

/* A color's route, or 0 where the router knows nothing of it. */
INLINE Route *find_route(const Pe *pe, u32 color) {
    const u32 at = pe->route_at[color];
    return LIKELY(at != NONE8) ? pe->routes + at : 0;
}

/* Makes room for so many routes side by side: the PE's own address says where they lie. */
static void reserve_routes(Machine *m, Pe *pe, u32 count) {
    if (count <= pe->route_capacity) return;
    Route *routes = allot(m, count * sizeof(Route));
    if (pe->num_routes) memcpy(routes, pe->routes, pe->num_routes * sizeof(Route));
    pe->routes = routes;
    pe->route_capacity = (u8)count;
}

/* The same, made if need be: then routes that were found before may lie elsewhere. */
static Route *route_of(Machine *m, Pe *pe, u32 color) {
    if (pe->route_at[color] == NONE8) {
        if (pe->num_routes == pe->route_capacity) reserve_routes(m, pe, 2u * pe->num_routes + 2u);
        pe->routes[pe->num_routes].config.color = (u8)color;
        pe->route_at[color] = pe->num_routes++;
    }
    return pe->routes + pe->route_at[color];
}

/* Advances to the next valid position; past the last one back to 0 in ring mode. Whether it did. */
static int advance_switch(Route *r) {
    ColorConfig *c = &r->config;
    for (u32 next = c->position + 1u; next < 4; next++)
        if (c->valid >> next & 1) { c->position = (u8)next; select_position(r); return 1; }
    if (!c->ring || !c->position) return 0;
    c->position = 0;
    select_position(r);
    return 1;
}

/* Command group g of a control wavelet: two bits of command, then one that the CE ignores it. */
INLINE u32 command_group(u32 data, u32 g) {
    if (g == 0) return data >> 22 & 7;
    if (g == 1) return data >> 25 & 7;
    if (g == 2) return (data >> 28 & 3) | (data & 1) << 2;
    return data >> (3 * g - 8) & 7;
}

/* Drops the first command; the others move down and the last one stays. */
static u32 pop_command(u32 data) {
    u32 groups[8];
    for (u32 g = 0; g < 8; g++) groups[g] = command_group(data, g < 7 ? g + 1 : 7);
    u32 result = data & 0xc03f0000;
    result |= groups[0] << 22 | groups[1] << 25 | (groups[2] & 3) << 28 | groups[2] >> 2;
    for (u32 g = 3; g < 8; g++) result |= groups[g] << (3 * g - 8);
    return result;
}

enum { COMMAND_NOP, COMMAND_ADVANCE, COMMAND_RESET, COMMAND_TEARDOWN };

/* Whether the route may be another one behind a wavelet. */
INLINE int may_change_route(const Route *r, const Entry *e) {
    if (LIKELY(!e->control)) return e->advances && r->config.has_switch;
    const u32 command = command_group(e->data, 0) & 3;
    return command == COMMAND_TEARDOWN || (r->config.has_switch && (command || e->advances));
}

/* Behind such a wavelet none of its color comes in until it has left. */
INLINE void set_barrier(Route *r) {
    r->barrier = 0;
    for (u32 k = 0; k < r->count; k++)
        if (may_change_route(r, r->buffer + k)) r->barrier = 1;
}

/* Whether the filter between router and CE lets a wavelet through; counts it. */
static int passes_filter(Filter *filter, u32 data, int control) {
    if (filter->kind == 3) {
        const u32 index = data >> 16;
        return control || (filter->min_index <= index && index <= filter->max_index);
    }
    if (control ? !filter->count_control : !filter->count_data) return 1;
    const u32 counter = filter->counter;
    const int at_limit = counter == filter->limit1;
    const int drop = control && filter->filter_control ? counter != filter->max_counter
                                                       : counter > filter->max_counter;
    filter->counter = at_limit ? 0 : counter + 1;
    if (at_limit && filter->kind == 2) {
        if (filter->has_limit2 && !filter->stage) { filter->limit1 = filter->limit2; filter->stage = 1; }
        else filter->is_active = 0;
    }
    return !drop;
}

/* --- configuration registers (WSE-2): of colors one word each, at ROUTE_REGISTERS and SWITCH_REGISTERS
 *
 * Routes: bits 4-0 where a wavelet goes (west, east, south, north, ramp), 9-5 where it comes from,
 * 10 and 11 color swap, 13-12 when a command is popped, 14 whether the color is in teardown.
 * Switch: 14-13 its position, 12 ring mode; four bits for each of positions 3, 2 and 1: whether it
 * changes the input, and the direction, 5 for a position that is not valid.
 *
 * At QUEUE_REGISTERS one word for each input queue: bits 9-8 the priority of what reads it, 0 low, 1
 * medium, 2 and 3 high. A write counts for operations under way too.
 */
enum { INVALID_POSITION = 5 };

INLINE int is_register(const Machine *m, u32 word) {
    return !m->is_wse3 && (word - ROUTE_REGISTERS < NUM_COLORS || word - SWITCH_REGISTERS < NUM_COLORS ||
                           word - QUEUE_REGISTERS < NUM_QUEUES);
}

static u32 queue_register(Pe *pe, u32 number, int write, u32 value) {
    Queue *q = pe->inputs + number;
    if (write) {
        q->priority = (u8)((value >> 8 & 3) == 3 ? 3 : 1 + (value >> 8 & 3));
        for (u32 k = 0; k < NUM_THREADS; k++)
            for (u32 c = 0; c < 3 && pe->threads[k].is_active; c++) {
                const Cursor *cursor = pe->threads[k].cursors + c;
                if (cursor->kind == DSD_FABRIC_IN && cursor->queue == number) pe->threads[k].priority = q->priority;
            }
    }
    return (q->priority ? q->priority - 1u : 1u) << 8;
}

static u32 read_switch(const ColorConfig *c) {
    u32 word = (u32)c->position << 13 | (u32)c->ring << 12;
    for (u32 k = 1; k < 4; k++) {
        const u32 is_input = c->rx1[k] != 0, side = is_input ? c->rx1[k] : c->tx1[k];
        const u32 direction = c->valid >> k & 1 && side ? (u32)__builtin_ctz(side) : INVALID_POSITION;
        word |= (is_input << 3 | direction) << (4 * (k - 1));
    }
    return word;
}

static void write_switch(ColorConfig *c, u32 word) {
    c->position = word >> 13 & 3;
    c->ring = word >> 12 & 1;
    for (u32 k = 1; k < 4; k++) {
        const u32 field = word >> (4 * (k - 1)) & 15, direction = field & 7;
        const int is_valid = direction < INVALID_POSITION;
        const u8 side = (u8)(1u << (is_valid ? direction : RAMP)); /* of an invalid one the side is kept */
        c->rx1[k] = field & 8 ? side : 0;
        c->tx1[k] = field & 8 || !is_valid ? 0 : side;
        c->valid = (u8)((c->valid & ~(1u << k)) | (u32)is_valid << k);
        c->has_switch |= (u8)is_valid;
    }
}

static u32 read_route(const ColorConfig *c) {
    return (u32)c->tx | (u32)c->rx << 5 | (u32)c->swap_y << 10 | (u32)c->swap_x << 11 |
           (u32)c->pop_mode << 12 | (u32)c->teardown << 14;
}

/* Teardown is left by a call of its own, not by a write. */
static void write_route(Pe *pe, ColorConfig *c, u32 word) {
    c->tx = word & 31;
    c->rx = word >> 5 & 31;
    c->swap_y = word >> 10 & 1;
    c->swap_x = word >> 11 & 1;
    c->pop_mode = word >> 12 & 3;
    c->is_used = 1;
    if (c->swap_x || c->swap_y) pe->has_swap = 1;
}

static u32 route_register(Machine *m, Pe *pe, u32 word, int write, u32 value) {
    const int is_switch = word >= SWITCH_REGISTERS;
    Route *r = route_of(m, pe, word - (is_switch ? SWITCH_REGISTERS : ROUTE_REGISTERS));
    ColorConfig *c = &r->config;
    if (write) {
        if (is_switch) write_switch(c, value);
        else write_route(pe, c, value);
        select_position(r);
        set_barrier(r);
        wake_around(m, pe);
    }
    return is_switch ? read_switch(c) : read_route(c);
}

static u32 access_register(Machine *m, Pe *pe, u32 word, int write, u32 value) {
    const u32 queue = word - QUEUE_REGISTERS;
    return queue < NUM_QUEUES ? queue_register(pe, queue, write, value) : route_register(m, pe, word, write, value);
}

#endif
