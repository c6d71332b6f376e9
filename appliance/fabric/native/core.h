/* The core of a PE: one instruction issue a cycle, for microthreads and the main thread. */
#ifndef FABRIC_CORE_H
#define FABRIC_CORE_H

#include "router.h"

enum { TASK_HANDLER, TASK_CONTROL, TASK_DATA, TASK_LOCAL, TASK_CALL };
enum { TEARDOWN_ID = 29 };

typedef struct Candidate {
    u32 kind, id, queue;
} Candidate;

/* The task of a wavelet at the head of an input queue, if it can run. */
static int wavelet_task(Machine *m, const Pe *pe, u32 number, u64 now, Candidate *found) {
    const Queue *q = pe->inputs + number;
    const Entry *e = head_of(q);
    if (!q->count || !is_due(e, now) || q->user) return 0;
    const u32 id = m->is_wse3 ? number : e->color;
    if (e->control) {
        const u64 blocked = m->is_wse3 ? pe->blocked_queue : pe->blocked_color;
        if (blocked >> id & 1) return 0;
        *found = (Candidate){TASK_CONTROL, e->data >> 16 & 63, number};
        return 1;
    }
    if (pe->image->data_tasks[id] == NEVER32 || (pe->blocked_data >> id & 1)) return 0;
    *found = (Candidate){TASK_DATA, id, number};
    return 1;
}

static int handler_task(const Pe *pe, Candidate *found) {
    if (pe->blocked_local >> TEARDOWN_ID & 1) return 0;
    for (u32 k = 0; k < NUM_COLORS; k++)
        if ((pe->teardown_pending & ~pe->teardown_seen) >> k & 1) { *found = (Candidate){TASK_HANDLER, k, 0}; return 1; }
    for (u32 k = 0; k < 16; k++)
        if (pe->flush_pending >> k & 1) { *found = (Candidate){TASK_HANDLER, NUM_COLORS + k, 0}; return 1; }
    return 0;
}

/* High priority first; else tasks take turns by their ids, from the one after the last that ran. */
static int pick_task(Machine *m, Pe *pe, u64 now, Candidate *best) {
    Candidate list[8 + 1 + 64];
    u32 n = 0;
    if (pe->has_call && pe->call_at <= now) { *best = (Candidate){TASK_CALL, pe->call_function, 0}; return 1; }
    if ((pe->teardown_pending | pe->flush_pending) && handler_task(pe, list)) n++;
    for (u32 held = pe->in_mask; held; held &= held - 1)
        n += (u32)wavelet_task(m, pe, (u32)__builtin_ctz(held), now, list + n);
    u64 ready = pe->active & ~pe->blocked_local;
    for (; ready; ready &= ready - 1) {
        const u32 id = (u32)__builtin_ctzll(ready);
        if (pe->image->local_tasks[id] != NEVER32) list[n++] = (Candidate){TASK_LOCAL, id, 0};
    }
    if (!n) return 0;
    u32 chosen = 0, least = NEVER32;
    for (u32 k = 0; k < n; k++) {
        const u32 id = list[k].kind == TASK_HANDLER ? TEARDOWN_ID : list[k].id;
        const u32 turn = (m->order ? pe->last_task_id - 1 - id : id - pe->last_task_id - 1) & 63;
        const int high = list[k].kind == TASK_LOCAL && (pe->high_priority >> id & 1);
        const u32 rank = turn + (high ? 0 : 64);
        if (rank < least) { least = rank; chosen = k; }
    }
    *best = list[chosen];
    return 1;
}

static void enter(Pe *pe, u32 function) {
    const u32 *f = pe->image->functions + 4 * function;
    pe->pc = f[0];
    pe->frame[f[2]] = 0; /* returns to the STOP at 0 */
    pe->is_running = 1;
}

static void split_arguments(Pe *pe, u32 function, u32 data, u32 widths) {
    u64 *parameter = pe->frame + pe->image->functions[4 * function + 1];
    u32 shift = 0;
    for (; widths; widths >>= 8) {
        const u32 bits = widths & 63, is_signed = widths >> 7 & 1;
        *parameter++ = shift >= 32 ? 0 : extend(data >> shift, (int)(bits ? bits : 1), (int)is_signed);
        shift += bits < 16 ? 16 : bits;
    }
}

static void start_task(Machine *m, Pe *pe, const Candidate *c) {
    const ClassImage *image = pe->image;
    u32 function = NEVER32;
    switch (c->kind) {
    case TASK_CALL:
        function = c->id;
        pe->has_call = 0;
        for (u32 k = 0; k < image->functions[4 * function + 3] && k < MAX_ARGUMENTS; k++)
            pe->frame[image->functions[4 * function + 1] + k] = pe->call_arguments[k];
        break;
    case TASK_HANDLER:
        function = image->handlers[c->id];
        if (c->id < NUM_COLORS) pe->teardown_seen |= 1u << c->id;
        break;
    case TASK_LOCAL:
        function = image->local_tasks[c->id];
        pe->active &= ~(1ull << c->id);
        break;
    default: {
        const u32 data = take_wavelet(m, pe, c->queue).data;
        function = (c->kind == TASK_DATA ? image->data_tasks : image->control_tasks)[c->id];
        const u32 widths = (c->kind == TASK_DATA ? image->data_widths : image->control_parameters)[c->id];
        if (function != NEVER32) split_arguments(pe, function, data, widths);
        schedule(m, pe, m->now + 1);
        break;
    }
    }
    pe->last_task_id = (u8)(c->kind == TASK_CALL ? 0 : c->kind == TASK_HANDLER ? TEARDOWN_ID : c->id);
    if (function != NEVER32) {
        enter(pe, function);
        pe->task_started = m->now;
        pe->last_function = function;
        TRACE(m, m->now, pe->number, pe->pc, c->kind << 8 | (c->id & 255), TRACE_TASK, NONE8, 0, 0);
        return;
    }
    if (c->kind == TASK_CONTROL && c->id == 31) return;
    fail(m, pe, FAULT_NO_TASK, 0, c->kind, c->id);
}

/* --- one cycle */

static int issue_thread(Machine *m, Pe *pe, u32 number, u64 now) {
    Thread *t = pe->threads + number;
    const u32 used = thread_step(m, pe, t, now);
    if (!used) return 0;
    pe->slot_free = now + used;
    pe->busy_cycles += used;
    schedule(m, pe, now + used);
    return 1;
}

/* Microthreads of one priority take turns. */
static int issue_microthreads(Machine *m, Pe *pe, u32 priority, u64 now) {
    const u32 around = (u32)pe->thread_mask | (u32)pe->thread_mask << 8;
    for (u32 k = pe->next_thread; around >> k; k++) {
        k += (u32)__builtin_ctz(around >> k);
        if (k >= pe->next_thread + MAIN_THREAD) return 0;
        const u32 number = k & 7;
        const Thread *t = pe->threads + number;
        if (t->priority != priority || t->ready > now || (pe->blocked_threads >> number & 1)) continue;
        if (!issue_thread(m, pe, number, now)) continue;
        pe->next_thread = (u8)((number + 1) & 7);
        if (pe->busy_until > now) pe->busy_until += pe->slot_free - now;
        return 1;
    }
    return 0;
}

/* Notes when the main thread comes to a breakpoint that lies no cycle behind where it goes on. */
static void note_break(Machine *m, const Pe *pe, u64 at) {
    if (LIKELY(!m->watched) || !m->watched[pe->number] || !pe->is_running) return;
    const Instruction *i = pe->image->code + pe->pc;
    while (!(i->op & BREAK) && !i->cost && i->op != OP_STOP) i++;
    if ((i->op & BREAK) && at < m->break_at) m->break_at = at;
}

static void end_operation(Pe *pe) {
    const Instruction *i = pe->image->code + pe->pc;
    pe->in_operation = 0;
    if (i->a) pe->frame[i->a] = pe->threads[MAIN_THREAD].result;
    pe->pc++;
}

/* Whether the main thread used this cycle. */
static int issue_main(Machine *m, Pe *pe, u64 now) {
    if (pe->busy_until > now) { schedule(m, pe, pe->busy_until); return 1; }
    while (!pe->has_failed) {
        if (pe->in_operation) {
            if (!issue_thread(m, pe, MAIN_THREAD, now)) return 0;
            if (pe->threads[MAIN_THREAD].is_active) return 1;
            end_operation(pe);
            note_break(m, pe, pe->slot_free);
            return 1;
        }
        u64 cycles;
        if (pe->is_running) {
            int state;
            cycles = interpret(m, pe, now, &state);
            m->steps += cycles >> 4;
            if (state != RAN) return 0;
            if (!pe->is_running) TRACE(m, now + cycles, pe->number, 0, 0, TRACE_TASK_END, NONE8, 0, 0);
        } else {
            Candidate next;
            if (!pick_task(m, pe, now, &next)) return 0;
            start_task(m, pe, &next);
            cycles = next.kind == TASK_LOCAL ? m->local_task_cycles : m->task_cycles;
        }
        if (cycles) {
            if (!pe->in_operation) note_break(m, pe, now + cycles);
            pe->busy_until = now + cycles;
            pe->busy_cycles += cycles;
            schedule(m, pe, pe->busy_until);
            return 1;
        }
    }
    return 1;
}

/* When this PE has something to do by itself: what others cause, they schedule. */
static void schedule_next(Machine *m, Pe *pe, u64 now) {
    if (pe->wake == now + 1) return; /* no earlier one */
    u64 next = NEVER;
    if (pe->busy_until > now) next = pe->busy_until;
    if (pe->slot_free > now && pe->slot_free < next) next = pe->slot_free;
    for (u32 held = pe->in_mask | (u32)pe->out_mask << NUM_QUEUES; held; held &= held - 1) {
        const u32 k = (u32)__builtin_ctz(held);
        const Queue *q = k < NUM_QUEUES ? pe->inputs + k : pe->outputs + (k - NUM_QUEUES);
        const i32 wait = (i32)(head_of(q)->ready - (u32)now);
        if (wait > 0 && now + (u32)wait < next) next = now + (u32)wait;
    }
    for (u32 starting = pe->starting; starting; starting &= starting - 1) {
        const u32 k = (u32)__builtin_ctz(starting);
        const u64 ready = pe->threads[k].ready;
        if (ready <= now) pe->starting &= (u8)~(1u << k);
        else if (ready < next) next = ready;
    }
    if (UNLIKELY(pe->has_feed)) {
        const HostPort *h = &pe->host_in;
        const u64 at = h->start + (h->first + h->position) / m->channel_words;
        if (at > now && at < next) next = at;
    }
    if (UNLIKELY(pe->has_call) && pe->call_at > now && pe->call_at < next) next = pe->call_at;
    if (next != NEVER) schedule(m, pe, next);
}

static void settle_flushes(Machine *m, Pe *pe) {
    for (u32 k = 0; k < 2 * NUM_QUEUES; k++) {
        Queue *q = k < NUM_QUEUES ? pe->inputs + k : pe->outputs + (k - NUM_QUEUES);
        if (q->flushing && !q->count && !q->user) pe->flush_pending |= 1u << k;
    }
    (void)m;
}

static void core_step(Machine *m, Pe *pe, u64 now) {
    m->steps++;
    if (pe->is_flushing) settle_flushes(m, pe);
    if (pe->slot_free <= now) {
        const u32 main = pe->main_priority; /* microthreads above it: 3 none, 2 high, 1 also medium, 0 all */
        int used = 0;
        for (u32 priority = 3; !used && priority >= 1; priority--) {
            if (priority == main) used = issue_main(m, pe, now);
            if (!used) used = issue_microthreads(m, pe, priority, now);
        }
        if (!used && main == 0) used = issue_main(m, pe, now);
    }
    schedule_next(m, pe, now);
}

#endif
