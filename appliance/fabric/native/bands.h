/* Runs the bands of a grid: one thread for all of them, or one for each while there is enough to do.
 *
 * Every band takes the same decisions from the same numbers, so all stop in the same cycle, and
 * results and cycles are those of one band.
 */
#ifndef FABRIC_BANDS_H
#define FABRIC_BANDS_H

enum { STOP_QUIET, STOP_LIMIT, STOP_FAULT, STOP_UNBLOCKED, STOP_STREAMED, STOP_BREAK, GO_ON };
enum { BUSY = 384, PATIENCE = 32 }; /* PEs of a band in a cycle that make a thread worth it; cycles */

static u64 next_of_all(const Team *team) {
    u64 next = NEVER;
    for (u32 k = 0; k < team->count; k++)
        if (team->bands[k]->next < next) next = team->bands[k]->next;
    return next;
}

static const Machine *first_fault(const Team *team) {
    for (u32 k = 0; k < team->count; k++)
        if (team->bands[k]->fault) return team->bands[k];
    return 0;
}

static u64 break_of(const Team *team) {
    u64 first = NEVER;
    for (u32 k = 0; k < team->count; k++)
        if (team->bands[k]->break_at < first) first = team->bands[k]->break_at;
    return first;
}

static u64 sum_of(const Team *team, u64 (*number)(const Machine *)) {
    u64 sum = 0;
    for (u32 k = 0; k < team->count; k++) sum += number(team->bands[k]);
    return sum;
}

static u64 steps_of(const Machine *m) { return m->steps; }
static u64 unblocked_of(const Machine *m) { return m->num_unblocked; }
static u64 streams_of(const Machine *m) { return m->num_streams; }
static u64 active_of(const Machine *m) { return m->num_active; }

/* Between two cycles: why to stop, or GO_ON; `next` is the cycle to go on with. */
static u32 look_around(const Team *team, u64 next) {
    if (sum_of(team, steps_of) >= team->end) return STOP_LIMIT;
    if (first_fault(team)) return STOP_FAULT;
    if (team->stop == 1 && sum_of(team, unblocked_of) >= team->target) return STOP_UNBLOCKED;
    if (team->stop == 2 && sum_of(team, streams_of) == 0) return STOP_STREAMED;
    if (next == NEVER) return STOP_QUIET;
    if (next >= break_of(team)) return STOP_BREAK;
    return next >= team->limit ? STOP_LIMIT : GO_ON;
}

static void simulate_alone(Team *team, u64 now) {
    Machine *const *bands = team->bands;
    const u32 n = team->count;
    for (u32 k = 0; k < n; k++) begin_cycle(bands[k], now);
    for (u32 k = 0; k < n; k++) work_inside(bands[k]);
    for (u32 k = 0; k < n; k++) work_at_edges(bands[k]);
    for (u32 k = 0; k < n; k++) end_cycle(bands[k]);
}

/* Counts cycles in a row in which threads are worth it, or not; whether that is long enough. */
INLINE int is_time(const Team *team, u32 *cycles, int worth) {
    const int is_busy = sum_of(team, active_of) >= (u64)BUSY * team->count;
    *cycles = is_busy == worth ? *cycles + 1 : 0;
    return *cycles >= PATIENCE;
}

static u32 work_together(Machine *m) {
    Team *team = m->team;
    u32 idle = 0;
    for (;;) {
        const u64 next = next_of_all(team);
        const u32 reason = look_around(team, next);
        if (reason != GO_ON || is_time(team, &idle, 0)) return reason;
        begin_cycle(m, next);
        meet(team);
        work_inside(m);
        meet(team);
        work_at_edges(m);
        meet(team);
        end_cycle(m);
    }
}

static void *worker(void *argument) {
    Machine *m = argument;
    wait_while(&m->team->gate, GATE_CLOSED);
    if (m->team->gate == GATE_OPEN) work_together(m);
    return 0;
}

/* A thread for each band until there is too little to do, or why to stop. */
static u32 run_together(Team *team) {
    u64 threads[MAX_BANDS];
    u32 made = 1;
    team->gate = GATE_CLOSED;
    while (made < team->count && !pthread_create(threads + made, 0, worker, team->bands[made])) made++;
    const int is_complete = made == team->count;
    __atomic_store_n(&team->gate, is_complete ? GATE_OPEN : GATE_GIVEN_UP, __ATOMIC_RELEASE);
    const u32 reason = is_complete ? work_together(team->bands[0]) : GO_ON;
    for (u32 k = 1; k < made; k++) pthread_join(threads[k], 0);
    return reason;
}

static u32 run_bands(Team *team) {
    for (u32 k = 0; k < team->count; k++) team->bands[k]->next = next_event(team->bands[k]);
    for (;;) {
        const u64 next = next_of_all(team);
        u32 reason = look_around(team, next);
        if (reason != GO_ON) return reason;
        if (team->count > 1 && is_time(team, &team->busy, 1)) {
            reason = run_together(team);
            if (reason != GO_ON) return reason; /* a later call goes on with threads at once */
            team->busy = 0;
            continue;
        }
        simulate_alone(team, next);
    }
}

static void set_clock(const Team *team, u64 now) {
    for (u32 k = 0; k < team->count; k++) go_to(team->bands[k], now);
}

static u64 last_active(const Team *team, u64 now) {
    for (u32 k = 0; k < team->count; k++)
        if (team->bands[k]->last_active > now) now = team->bands[k]->last_active;
    return now;
}

/* Simulates until nothing happens any more, the limit, a fault, or what `stop` waits for:
 * 1: so many PEs have let the next command start; 2: the host's streams are done. After so much
 * work it returns as at the limit, so that whoever called can look around; and before the cycle in
 * which a PE that is watched comes to a breakpoint. */
u32 fabric_run(Machine *m, u64 limit, u32 stop, u64 target, u64 work) {
    Team *team = m->team;
    team->limit = limit;
    team->stop = stop;
    team->target = target;
    team->end = sum_of(team, steps_of) + work;
    const u64 began = m->now;
    const u32 reason = run_bands(team);
    if (reason == STOP_LIMIT && next_of_all(team) >= limit) set_clock(team, limit - 1);
    if (reason == STOP_BREAK)
        for (u32 k = 0; k < team->count; k++) team->bands[k]->break_at = NEVER;
    if (reason == STOP_QUIET) set_clock(team, last_active(team, began)); /* wakeups may be in vain */
    return reason;
}

#endif
