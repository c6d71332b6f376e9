/* One clock cycle of a band, in the order of PEs.
 *
 * Each PE decides which of its wavelets can move, they move, its core works. Decisions read how
 * things stood when the cycle began, at the PE and its four neighbours; a move changes the PE and a
 * neighbour. So wavelets of a PE move when all have decided that could see it, up to two rows on,
 * and its core works when all have moved that could come, up to one row on. No step waits for
 * more: what one step has brought into the cache is still there for the next.
 *
 * The first and the last row of a band lie beside other bands. They decide first, before any band
 * moves a wavelet, and their cores work last, when wavelets from other bands have come.
 */
#ifndef FABRIC_CYCLE_H
#define FABRIC_CYCLE_H

#include "core.h"

enum { AGE_BITS = 30 };

static void age(Queue *q, u64 before, u64 now) {
    for (u32 k = 0; k < q->count; k++) {
        Entry *e = q->ring + (q->head + k) % q->size;
        if (is_due(e, before)) e->ready = (u32)now;
    }
}

/* Every 2^30 cycles: what has been due for long is due from now on, so that `is_due` stays right. */
static void age_entries(Machine *m, u64 now) {
    for (u32 number = m->first; number < m->first + m->span; number++) {
        Pe *pe = m->pes[number];
        for (u32 k = 0; pe && k < NUM_QUEUES; k++) {
            age(pe->inputs + k, m->now, now);
            age(pe->outputs + k, m->now, now);
        }
    }
}

static void go_to(Machine *m, u64 cycle) {
    if (UNLIKELY((cycle ^ m->now) >> AGE_BITS)) age_entries(m, cycle);
    m->now = cycle;
    if (m->far_next != NEVER && m->far_next - cycle < WHEEL) bring_near(m);
}

/* --- ahead of what is looked at, its memory is fetched: a large grid does not lie in a cache */

enum { FAR_AHEAD = 16, AHEAD = 10, NEAR = 5 };

INLINE void fetch(const void *block, u32 lines) {
    for (u32 k = 0; k < lines; k++) __builtin_prefetch((const char *)block + k * LINE, 1);
}

INLINE const Pe *ahead_of(const Machine *m, u32 k) {
    return k < m->run.count ? m->pes[m->run.items[k]] : 0;
}

INLINE void fetch_parts(const Pe *pe) {
    if (pe->thread_mask) fetch(pe->threads + __builtin_ctz(pe->thread_mask), 3);
    if (pe->out_mask) fetch(pe->outputs + __builtin_ctz(pe->out_mask), 1);
    for (u32 rest = pe->buffered; rest; rest &= rest - 1) {
        const u32 color = (u32)__builtin_ctz(rest), number = pe->queue_for[color];
        fetch(find_route(pe, color), 1);
        if (number != NONE8) fetch(pe->inputs + number, 1);
    }
}

INLINE void fetch_operands(const Pe *pe) {
    if (!pe->thread_mask) return;
    const Cursor *c = pe->threads[__builtin_ctz(pe->thread_mask)].cursors;
    for (u32 k = 0; k < 3; k++)
        if (c[k].kind == DSD_MEMORY) fetch(pe->memory + c[k].address, 1);
}

INLINE void look_ahead(const Machine *m, u32 k) {
    const Pe *far = ahead_of(m, k + FAR_AHEAD), *near = ahead_of(m, k + AHEAD), *next = ahead_of(m, k + NEAR);
    if (far) fetch(far, 3);
    if (near) fetch_parts(near);
    if (next) fetch_operands(next);
}

/* --- the parts of a cycle; between them the bands meet */

static void decide_range(Machine *m, u32 from, u32 to) {
    for (u32 k = from; k < to; k++) {
        look_ahead(m, k);
        Pe *pe = m->pes[m->run.items[k]];
        pe->wake = NEVER; /* nobody can have asked yet for it to be looked at again */
        decide(m, pe, m->now);
    }
}

static void step_range(Machine *m, u32 from, u32 to) {
    for (u32 k = from; k < to; k++) {
        Pe *pe = m->pes[m->run.items[k]];
        if (pe->image) core_step(m, pe, m->now);
    }
}

/* How many of the PEs that run in this cycle have a number below. */
static u32 count_below(const Machine *m, u32 number) {
    u32 low = 0, high = m->run.count;
    while (low < high) {
        const u32 middle = (low + high) / 2;
        if (m->run.items[middle] < number) low = middle + 1; else high = middle;
    }
    return low;
}

static void begin_cycle(Machine *m, u64 now) {
    go_to(m, now);
    m->turn++;
    m->wakeups[m->turn & 1][ABOVE].count = m->wakeups[m->turn & 1][BELOW].count = 0;
    m->arrivals[ABOVE].count = m->arrivals[BELOW].count = 0;
    collect(m, now);
    m->top = m->band > 0 ? count_below(m, m->first + m->width) : 0;
    m->bottom = m->band + 1 < m->num_bands ? count_below(m, m->first + m->span - m->width) : m->run.count;
    if (m->bottom < m->top) m->bottom = m->top; /* one row is both */
    m->num_moves = 0;
    decide_range(m, m->bottom, m->run.count);
    m->num_edge_moves = m->num_moves;
    decide_range(m, 0, m->top);
}

enum { STRIDE = 8 };

/* All moves, and all but the edges' decisions and cores. */
static void work_inside(Machine *m) {
    const u32 reach = m->height > 1 ? m->width : 1, first = m->num_edge_moves;
    u32 decided = m->top, moved = first, stepped = m->top;
    while (decided < m->bottom) {
        const u32 end = decided + STRIDE < m->bottom ? decided + STRIDE : m->bottom;
        decide_range(m, decided, end);
        decided = end;
        if (decided == m->bottom) break;
        const u32 undecided = m->run.items[decided];
        for (; moved < m->num_moves && m->move_list[moved].pe + 2 * reach < undecided; moved++)
            commit(m, m->move_list + moved, m->now);
        const u32 unmoved = moved < m->num_moves ? m->move_list[moved].pe : undecided;
        const u32 from = stepped;
        while (stepped < decided && m->run.items[stepped] + reach < unmoved) stepped++;
        step_range(m, from, stepped);
    }
    for (; moved < m->num_moves; moved++) commit(m, m->move_list + moved, m->now);
    for (u32 k = 0; k < first; k++) commit(m, m->move_list + k, m->now);
    step_range(m, stepped, m->bottom);
}

static void take_arrivals(Machine *m, const Arrivals *list) {
    for (u32 k = 0; k < list->count; k++) {
        const Arrival *a = list->items + k;
        arrive(m, m->pes[a->pe], a->entry, a->color, a->port, m->now);
    }
}

static void work_at_edges(Machine *m) {
    Machine *const *bands = m->team->bands;
    if (m->band > 0) take_arrivals(m, bands[m->band - 1]->arrivals + BELOW);
    if (m->band + 1 < m->num_bands) take_arrivals(m, bands[m->band + 1]->arrivals + ABOVE);
    step_range(m, 0, m->top);
    step_range(m, m->bottom, m->run.count);
    m->num_active = m->run.count;
    if (m->num_active) m->last_active = m->now;
    const List *wakeups = m->wakeups[m->turn & 1];
    m->next = wakeups[ABOVE].count || wakeups[BELOW].count ? m->now + 1 : next_event(m);
}

static void take_wakeups(Machine *m, const List *list) {
    for (u32 k = 0; k < list->count; k++) schedule(m, m->pes[list->items[k]], m->now + 1);
}

static void end_cycle(Machine *m) {
    Machine *const *bands = m->team->bands;
    if (m->band > 0) take_wakeups(m, bands[m->band - 1]->wakeups[m->turn & 1] + BELOW);
    if (m->band + 1 < m->num_bands) take_wakeups(m, bands[m->band + 1]->wakeups[m->turn & 1] + ABOVE);
}

#endif
