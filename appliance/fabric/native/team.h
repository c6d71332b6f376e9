/* Threads that simulate the bands of a grid in step: the barrier between them, their gate. */
#ifndef FABRIC_TEAM_H
#define FABRIC_TEAM_H

#include "machine.h"

int pthread_create(u64 *thread, const void *attributes, void *(*start)(void *), void *argument);
int pthread_join(u64 thread, void **result);
int sched_yield(void);

enum { MAX_BANDS = 64, SPINS = 4000 };
enum { GATE_CLOSED, GATE_OPEN, GATE_GIVEN_UP };

typedef struct Team {
    u32 count, arrived, epoch, gate;
    u32 lock; /* held while a PE is made */
    u32 busy; /* cycles in a row in which threads were worth it */
    Machine *bands[MAX_BANDS];
    /* what fabric_run was asked for */
    u64 limit, target, end;
    u32 stop, reason;
} Team;

INLINE void wait_while(const u32 *word, u32 value) {
    for (u32 spins = 0; __atomic_load_n(word, __ATOMIC_ACQUIRE) == value; spins++)
        if (spins > SPINS) sched_yield();
}

/* Waits until every thread of the team is here. */
static void meet(Team *team) {
    const u32 epoch = __atomic_load_n(&team->epoch, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&team->arrived, 1, __ATOMIC_ACQ_REL) < team->count) {
        wait_while(&team->epoch, epoch);
        return;
    }
    __atomic_store_n(&team->arrived, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&team->epoch, epoch + 1, __ATOMIC_RELEASE);
}

INLINE void lock_team(Team *team) {
    while (__atomic_exchange_n(&team->lock, 1, __ATOMIC_ACQUIRE)) sched_yield();
}

INLINE void unlock_team(Team *team) { __atomic_store_n(&team->lock, 0, __ATOMIC_RELEASE); }

#endif
