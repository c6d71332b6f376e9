/* Memory of a band's PEs, side by side in large pages: it lives as long as the machine.
 *
 * A cycle touches a little of every active PE. Spread over pages of 4 kB, ten thousand PEs spend
 * most of their time in looking up addresses.
 */
#ifndef FABRIC_ARENA_H
#define FABRIC_ARENA_H

#include "machine.h"

int posix_memalign(void **block, u64 alignment, u64 size);
int madvise(void *block, u64 size, int advice);

enum { CHUNK = 2 << 20, FEW_PES = 64, SMALL_CHUNK = 1 << 16, ADVICE_HUGE_PAGES = 14 };

static void *new_chunk(Machine *m, u64 size, u64 alignment) {
    void *block = 0;
    if (posix_memalign(&block, alignment, size)) return 0;
    if (alignment == CHUNK) madvise(block, size, ADVICE_HUGE_PAGES); /* only advice: may fail */
    m->chunks = realloc(m->chunks, (m->num_chunks + 1) * sizeof(void *));
    m->chunks[m->num_chunks++] = block;
    return block;
}

/* Zeroed memory that begins at a cache line. */
static void *allot(Machine *m, u64 size) {
    size = (size + LINE - 1) & ~(u64)(LINE - 1);
    if (size > m->arena_left) {
#ifdef __SANITIZE_ADDRESS__ /* each block apart, so that a step beyond one is seen */
        const u64 usual = 0;
#else
        const u64 usual = m->num_pes < FEW_PES ? SMALL_CHUNK : CHUNK;
#endif
        const u64 chunk = size > usual ? size : usual;
        m->arena = new_chunk(m, chunk, chunk == CHUNK ? CHUNK : LINE);
        m->arena_left = chunk;
    }
    void *block = m->arena;
    m->arena += size;
    m->arena_left -= size;
    return memset(block, 0, size);
}

static void free_arena(Machine *m) {
    for (u32 k = 0; k < m->num_chunks; k++) free(m->chunks[k]);
    free(m->chunks);
}

#endif
