/* The configuration of a router: routes, switch positions, teardown, filters. */
#ifndef FABRIC_ROUTES_H
#define FABRIC_ROUTES_H

#include "arena.h"
#include "threads.h"

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

/* A position changes one side (WSE-3: or both); the other stays as the position before left it. */
static void select_position(Route *r) {
    const ColorConfig *c = &r->config;
    r->rx = c->rx;
    r->tx = c->tx;
    for (u32 k = 1; k <= c->position; k++) {
        if (!(c->valid >> k & 1)) continue;
        if (c->rx1[k]) r->rx = c->rx1[k];
        if (c->tx1[k]) r->tx = c->tx1[k];
    }
}

static Route *route_of(Machine *m, Pe *pe, u32 color) {
    Route *r = pe->routes[color];
    if (r) return r;
    r = allot(m, sizeof(Route));
    r->config.color = (u8)color;
    pe->routes[color] = r;
    return r;
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
    if (LIKELY(!e->control)) return e->pad[0] && r->config.has_switch;
    const u32 command = command_group(e->data, 0) & 3;
    return command == COMMAND_TEARDOWN || (r->config.has_switch && (command || e->pad[0]));
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

#endif
