/* Which PEs look around in which cycle: a bit each for the next one, which is what most ask for; a
 * timing wheel; a list of what lies beyond its turn. */
#ifndef FABRIC_WHEEL_H
#define FABRIC_WHEEL_H

#include "arena.h"

enum { WHEEL = 256 };

static void append(List *list, u32 item) {
    if (UNLIKELY(list->count == list->capacity)) {
        list->capacity = list->capacity ? 2 * list->capacity : 16;
        list->items = realloc(list->items, list->capacity * sizeof(u32));
    }
    list->items[list->count++] = item;
}

/* Marks a PE for the next cycle. */
INLINE void mark(Machine *m, u32 at) {
    m->soon[at / 64] |= 1ull << at % 64;
    m->soon_words[at / 4096] |= 1ull << at / 64 % 64;
    m->num_soon++;
}

__attribute__((noinline)) static void schedule_far(Machine *m, Pe *pe, u64 cycle) {
    append(&m->far, pe->number);
    if (cycle < m->far_next) m->far_next = cycle;
}

/* Has a PE look around in a cycle; earlier wakeups win, since a PE that looks asks again. */
INLINE void schedule(Machine *m, Pe *pe, u64 cycle) {
    const u32 at = pe->number - m->first;
    if (UNLIKELY(at >= m->span)) { /* always for the next cycle */
        append(&m->wakeups[m->turn & 1][pe->number < m->first ? ABOVE : BELOW], pe->number);
        return;
    }
    if (cycle >= pe->wake) return;
    pe->wake = cycle;
    if (LIKELY(cycle == m->now + 1)) { mark(m, at); return; }
    if (UNLIKELY(cycle - m->now >= WHEEL)) { schedule_far(m, pe, cycle); return; }
    append(m->wheel + cycle % WHEEL, pe->number);
    m->num_in_wheel++;
}

/* Moves what has come near from the far list to the wheel. */
static void bring_near(Machine *m) {
    List *far = &m->far;
    u32 kept = 0;
    m->far_next = NEVER;
    for (u32 k = 0; k < far->count; k++) {
        Pe *pe = m->pes[far->items[k]];
        if (pe->wake == NEVER || pe->wake < m->now) continue;
        if (pe->wake - m->now < WHEEL) {
            append(m->wheel + pe->wake % WHEEL, pe->number);
            m->num_in_wheel++;
            continue;
        }
        if (pe->wake < m->far_next) m->far_next = pe->wake;
        far->items[kept++] = far->items[k];
    }
    far->count = kept;
}

/* The PEs of a cycle, by number. */
static void collect(Machine *m, u64 now) {
    List *slot = m->wheel + now % WHEEL;
    for (u32 k = 0; k < slot->count; k++)
        if (m->pes[slot->items[k]]->wake == now) mark(m, slot->items[k] - m->first);
    m->num_in_wheel -= slot->count;
    slot->count = m->num_soon = m->run.count = 0;
    for (u32 high = 0; high < (m->span + 4095) / 4096; high++) {
        for (u64 words = m->soon_words[high]; words; words &= words - 1) {
            const u32 word = 64 * high + (u32)__builtin_ctzll(words);
            for (u64 bits = m->soon[word]; bits; bits &= bits - 1)
                append(&m->run, m->first + 64 * word + (u32)__builtin_ctzll(bits));
            m->soon[word] = 0;
        }
        m->soon_words[high] = 0;
    }
}

/* The next cycle in which a PE of this band looks around, perhaps in vain. */
static u64 next_event(const Machine *m) {
    if (m->num_soon) return m->now + 1;
    u64 next = m->far_next;
    if (!m->num_in_wheel) return next;
    for (u64 cycle = m->now + 1; cycle < next; cycle++)
        if (m->wheel[cycle % WHEEL].count) return cycle;
    return next;
}

static void make_wheel(Machine *m) {
    m->soon = calloc((m->span + 63) / 64, sizeof(u64));
    m->soon_words = calloc((m->span + 4095) / 4096, sizeof(u64));
    m->wheel = calloc(WHEEL, sizeof(List));
}

static void free_wheel(Machine *m) {
    for (u32 k = 0; k < WHEEL; k++) free(m->wheel[k].items);
    free(m->wheel);
    free(m->far.items);
    free(m->soon);
    free(m->soon_words);
}

#endif
