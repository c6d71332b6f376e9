/* Operands, microthreads and the elements that they move. */
#ifndef FABRIC_MICROTHREADS_H
#define FABRIC_MICROTHREADS_H

#include "vector.h"
#include "wheel.h"

static void fail(Machine *m, Pe *pe, u32 fault, u32 pc, u32 a, u32 b) {
    /* The first of a cycle, by number of PE, whatever the order in which PEs were simulated. */
    pe->has_failed = 1;
    if (m->fault && (m->fault_cycle < m->now || m->fault_pe <= pe->number)) return;
    m->fault = fault;
    m->fault_cycle = m->now;
    m->fault_pe = pe->number;
    m->fault_pc = pc;
    m->fault_a = a;
    m->fault_b = b;
}

/* --- tasks' bits */

static void activate(Machine *m, Pe *pe, u32 id) {
    pe->active |= 1ull << (id & 63);
    schedule(m, pe, m->now + 1);
}

static void set_blocked(Machine *m, Pe *pe, u32 kind, u32 id, int blocked) {
    const u64 bit = 1ull << (id & 63);
    u64 *const words[] = {&pe->blocked_local, &pe->blocked_data,  &pe->blocked_local,
                          &pe->blocked_color, &pe->blocked_queue, &pe->blocked_threads};
    u64 *word = words[kind];
    if (!m->is_wse3 && (kind == TARGET_COLOR || kind == TARGET_DATA_TASK)) {
        pe->blocked_color = blocked ? pe->blocked_color | bit : pe->blocked_color & ~bit;
        word = &pe->blocked_data;
    }
    if (m->is_wse3 && (kind == TARGET_INPUT_QUEUE || kind == TARGET_DATA_TASK)) {
        pe->blocked_queue = blocked ? pe->blocked_queue | bit : pe->blocked_queue & ~bit;
        word = &pe->blocked_data;
    }
    *word = blocked ? *word | bit : *word & ~bit;
    schedule(m, pe, m->now + 1);
}

static void complete(Machine *m, Pe *pe, u32 what, u32 kind, u32 id) {
    if (what == 1) activate(m, pe, id);
    if (what == 2) set_blocked(m, pe, kind, id, 0);
}

/* --- operands */

INLINE u32 queue_of_color(const Pe *pe, u32 color) {
    return color < NUM_COLORS ? pe->queue_for[color] : NONE8;
}

/* WSE-2: the queue of a DSD that names a color alone. */
static u32 queue_without_number(const Pe *pe, const Cursor *c) {
    if (c->kind == DSD_FABRIC_IN) {
        const u32 found = queue_of_color(pe, c->color);
        return found == NONE8 ? 15 : found;
    }
    for (u32 k = 0; k < NUM_QUEUES; k++)
        if (pe->outputs[k].is_bound && pe->outputs[k].color == c->color) return k;
    return c->color % WSE2_OUTPUTS; /* all have other colors, or it was not known: colors share */
}

static void aim(Machine *m, const Pe *pe, u64 dsd, Cursor *c) {
    const ClassImage *image = pe->image;
    c->kind = (u8)(dsd >> 60 > DSD_FABRIC_OUT ? DSD_NONE : dsd >> 60);
    c->file = NONE8;
    c->index[0] = c->index[1] = c->index[2] = c->index[3] = 0;
    c->address = (u32)(dsd & 0xffff);
    c->stride = (i16)(dsd >> 32);
    c->remaining = (u32)(dsd >> 16 & 0xffff);
    c->flags = dsd >> 50 & 1 ? OUT_INDEX : 0;
    c->element_bytes = (u8)(2u << (dsd >> 48 & 3));
    c->shape = 0;
    if (c->kind == DSD_SHAPED || c->kind == DSD_CIRCULAR) {
        const u32 number = (u32)(dsd >> 16 & 0xffff);
        if (number >= image->num_shapes) { c->kind = DSD_NONE; return; }
        c->shape = image->shapes + number;
        c->remaining = 1;
        for (u32 i = 0; i < c->shape->rank; i++) c->remaining *= c->shape->extents[i];
        c->stride = c->shape->strides[0];
    }
    if (c->kind == DSD_FABRIC_IN || c->kind == DSD_FABRIC_OUT) {
        c->queue = dsd & 15;
        c->color = dsd >> 5 & 31;
        c->flags = (u8)(dsd >> 32);
        if (c->queue == 15) c->queue = (u8)queue_without_number(pe, c);
        /* WSE-2: a queue may carry several colors, of which a DSD that names one takes only that. */
        if (c->kind == DSD_FABRIC_IN && !m->is_wse3 && queue_of_color(pe, c->color) == c->queue) c->flags |= IN_ITS_COLOR;
    }
    if (c->remaining == ENDLESS && c->kind != DSD_SHAPED) c->remaining = NEVER32;
}

/* Fills a cursor; returns 0 where the operand is not there. */
static int resolve(Machine *m, Pe *pe, const OperandSite *o, Cursor *c, u32 pc) {
    c->kind = DSD_NONE;
    c->file = NONE8;
    c->flags = 0;
    c->remaining = 0;
    c->stride = 0;
    c->shape = 0;
    c->address = c->value = 0;
    c->queue = c->color = 0;
    c->element_bytes = 2;
    switch (o->kind) {
    case OPERAND_DESCRIPTOR:
        aim(m, pe, pe->frame[o->slot], c);
        if (c->kind == DSD_NONE) { fail(m, pe, FAULT_NO_DSD, pc, 0, 0); return 0; }
        break;
    case OPERAND_SCALAR: c->kind = CURSOR_SCALAR; c->value = (u32)pe->frame[o->slot]; break;
    case OPERAND_PLACE: c->kind = CURSOR_PLACE; c->address = (u32)pe->frame[o->slot] & 0xffff; break;
    case OPERAND_FIFO: c->kind = CURSOR_FIFO; c->queue = (u8)o->slot; break;
    case OPERAND_DSR: {
        Dsr *d = pe->dsrs ? pe->dsrs + o->file * NUM_DSRS + o->slot : 0;
        if (!d || !d->is_loaded) { fail(m, pe, FAULT_BAD_OPERAND, pc, o->file, o->slot); return 0; }
        aim(m, pe, d->value, c);
        if (c->kind == DSD_NONE) { fail(m, pe, FAULT_NO_DSD, pc, 0, 0); return 0; }
        c->file = o->file;
        c->dsr = (u8)o->slot;
        break;
    }
    default: break;
    }
    return 1;
}

INLINE u32 cursor_address(const Cursor *c, u32 index) {
    return c->flags & OUT_INDEX ? (c->address + 2 * index) & 0xffff : c->address;
}

/* An operation steps by elements of its own width, whatever width the array had: a 32-bit
 * operation goes through an array of 16-bit elements pair by pair. */
INLINE i32 in_width(const Cursor *c, i32 stride) {
    return c->op_bytes == c->element_bytes ? stride : stride / c->element_bytes * c->op_bytes;
}

INLINE void set_width(Cursor *c, u32 bytes) {
    c->op_bytes = (u8)bytes;
    if (c->kind == DSD_MEMORY) c->stride = in_width(c, c->stride);
}

static void step_shape(Cursor *c) {
    const Shape *shape = c->shape;
    if (c->kind == DSD_CIRCULAR) {
        c->address += (u32)shape->strides[0];
        if (c->address >= shape->base + (u32)shape->wrap) c->address -= shape->wrap;
        return;
    }
    for (u32 i = 0; i < shape->rank; i++) {
        if (++c->index[i] < shape->extents[i]) { c->address += (u32)in_width(c, shape->strides[i]); break; }
        c->index[i] = 0;
    }
    c->address &= 0xffff;
}

INLINE void step_cursor(Cursor *c) {
    if (c->kind == DSD_MEMORY) c->address = (c->address + (u32)c->stride) & 0xffff;
    else if (c->shape) step_shape(c);
}

INLINE int is_fabric(const Cursor *c) { return c->kind == DSD_FABRIC_IN || c->kind == DSD_FABRIC_OUT; }

/* Whether an entry may go on. Cycles that have come are told from those to come within 2^31 of each
 * other; `age_entries` keeps them there. */
INLINE int is_due(const Entry *e, u64 now) { return (i32)((u32)now - e->ready) >= 0; }

/* --- checked programs: whether an operation stays in the variable where it begins */

INLINE int is_checked(const Pe *pe) { return UNLIKELY(pe->image->num_limits != 0); }

/* The variable at an address, as start << 16 | bytes, or 0. */
static u32 variable_at(const ClassImage *image, u32 address) {
    u32 low = 0, high = image->num_limits;
    while (low < high) {
        const u32 middle = (low + high) / 2;
        if (image->limits[middle] >> 16 <= address) low = middle + 1;
        else high = middle;
    }
    const u32 found = low ? image->limits[low - 1] : 0;
    return found && address - (found >> 16) < (found & 0xffff) ? found : 0;
}

/* The first and the last byte that `n` elements of a cursor cover, from its address on. */
static void span_of(const Cursor *c, u32 n, i64 span[2]) {
    span[0] = 0;
    span[1] = c->op_bytes - 1;
    if (c->kind == DSD_MEMORY) { span[c->stride > 0] += (i64)c->stride * (n - 1); return; }
    i64 behind = 0; /* the walk of the inner dimensions, from whose end a stride leads on */
    for (u32 k = 0; k < c->shape->rank; k++) {
        const i64 walk = (in_width(c, c->shape->strides[k]) + behind) * (c->shape->extents[k] - 1);
        span[walk > 0] += walk;
        behind += walk;
    }
}

/* Notes the first operation that does not: public programs go beyond an array and back. */
static void note_extents(Machine *m, const Pe *pe, const Cursor *c, u32 n, u32 pc) {
    for (int k = 0; k < 3 && n && n != NEVER32 && !m->beyond.is_noted; k++) {
        if ((c[k].kind != DSD_MEMORY && c[k].kind != DSD_SHAPED) || c[k].flags & OUT_INDEX) continue;
        const u32 found = variable_at(pe->image, c[k].address);
        if (!found) continue;
        i64 span[2];
        span_of(c + k, n, span);
        const i64 start = (i64)c[k].address - (found >> 16);
        if (start + span[0] >= 0 && start + span[1] < (found & 0xffff)) continue;
        const i64 beyond = start + span[0] < 0 ? start + span[0] : start + span[1];
        m->beyond = (Note){m->now, pe->number, pc, (u32)(i32)beyond, found, 0, 1};
    }
}

/* The DSR that says how an operation runs, or 0 where the operation itself does. It is one of the
 * operands on the fabric and of FIFOs, if there are such; of several the last asynchronous one. */
static const Dsr *deciding_dsr(const Pe *pe, const Site *site, const Cursor *c) {
    const Dsr *found = 0;
    int num_streams = 0, num_direct = 0;
    for (int i = 0; i < 3; i++) {
        const int is_stream = is_fabric(c + i) || c[i].kind == CURSOR_FIFO;
        num_streams += is_stream;
        num_direct += is_stream && c[i].file == NONE8;
    }
    for (int i = 0; i < 3; i++) {
        if (c[i].kind == DSD_NONE || c[i].file == NONE8 || (num_streams && !is_fabric(c + i))) continue;
        const Dsr *d = pe->dsrs + c[i].file * NUM_DSRS + c[i].dsr;
        if (!found || d->settings.asynchronous) found = d;
    }
    if (num_direct && found && (site->settings.asynchronous || !found->settings.asynchronous)) return 0;
    return found;
}

INLINE const Entry *head_of(const Queue *q) { return q->ring + q->head; }

INLINE int can_give(const Pe *pe, const Cursor *c, u64 now) {
    if (c->kind == DSD_FABRIC_IN) {
        const Queue *q = pe->inputs + c->queue;
        const Entry *e = head_of(q);
        if (!q->count || !is_due(e, now) || (e->control && c->flags & IN_STOPS)) return 0;
        return !(c->flags & IN_ITS_COLOR) || e->color == c->color;
    }
    return c->kind != CURSOR_FIFO || pe->fifos[c->queue].count > 0;
}

INLINE u32 room_of(const Machine *m, const Queue *q) { return q->depth + m->ramp_cycles; }

INLINE int can_take(const Machine *m, const Pe *pe, const Cursor *c) {
    if (c->kind == DSD_FABRIC_OUT) return pe->outputs[c->queue].count < room_of(m, pe->outputs + c->queue);
    if (c->kind == CURSOR_FIFO) return pe->fifos[c->queue].count < pe->fifos[c->queue].capacity;
    return 1;
}

/* `mask` has a bit for each queue of a side that holds a wavelet. */
INLINE Entry pop_queue(Queue *queues, u32 number, u8 *mask) {
    Queue *q = queues + number;
    const Entry e = q->ring[q->head];
    q->head = q->head + 1 == q->size ? 0 : (u8)(q->head + 1);
    if (--q->count == 0) *mask &= (u8)~(1u << number);
    return e;
}

INLINE void push_queue(Queue *queues, u32 number, u8 *mask, Entry e) {
    Queue *q = queues + number;
    const u32 at = (u32)q->head + q->count;
    q->ring[at >= q->size ? at - q->size : at] = e;
    q->count++;
    *mask |= (u8)(1u << number);
}

/* Takes the head of an input queue into the core. */
static Entry take_wavelet(Machine *m, Pe *pe, u32 number) {
    const Entry e = pop_queue(pe->inputs, number, &pe->in_mask);
    TRACE(m, m->now, pe->number, e.data, (u32)m->now - e.ready, TRACE_TAKE, e.color, (u8)number,
          trace_more(pe->inputs[number].count, e.control));
    return e;
}

static u32 take_fifo(Machine *m, Pe *pe, u32 number, u32 bytes) {
    Fifo *fifo = pe->fifos + number;
    const u32 value = read_memory(pe, fifo->address + fifo->head * fifo->element_bytes, bytes);
    fifo->head = fifo->head + 1 == fifo->capacity ? 0 : fifo->head + 1;
    fifo->count--;
    if (fifo->was_full && fifo->activate_pop != NONE8) activate(m, pe, fifo->activate_pop);
    fifo->was_full = 0;
    return value;
}

static void put_fifo(Machine *m, Pe *pe, u32 number, u32 bytes, u32 value) {
    Fifo *fifo = pe->fifos + number;
    u32 at = fifo->head + fifo->count;
    if (at >= fifo->capacity) at -= fifo->capacity;
    write_memory(pe, fifo->address + at * fifo->element_bytes, bytes, value);
    fifo->count++;
    if (fifo->was_empty && fifo->activate_push != NONE8) activate(m, pe, fifo->activate_push);
    fifo->was_empty = 0;
}

/* --- threads */

static void release(Pe *pe, const Thread *t) {
    for (int i = 0; i < 3; i++) {
        const Cursor *c = t->cursors + i;
        if (c->kind == DSD_FABRIC_IN) pe->inputs[c->queue].user = 0;
        if (c->kind == DSD_FABRIC_OUT) pe->outputs[c->queue].user = 0;
    }
}

/* The address of a saved DSR moves past what the operation covered. */
static void save_addresses(Pe *pe, const Thread *t) {
    for (int i = 0; i < 3; i++) {
        const Cursor *c = t->cursors + i;
        if (c->file == NONE8) continue;
        Dsr *d = pe->dsrs + c->file * NUM_DSRS + c->dsr;
        if (d->save_address && !is_fabric(c))
            d->value = (d->value & ~0xffffull) | (c->address & 0xffff);
    }
}

static void finish(Machine *m, Pe *pe, Thread *t, u32 result) {
    release(pe, t);
    save_addresses(pe, t);
    t->is_active = 0;
    if (t >= pe->threads && t <= pe->threads + MAIN_THREAD)
        TRACE(m, m->now, pe->number, t->pc, t->done, TRACE_FINISH, NONE8, (u8)(t - pe->threads), 0);
    if (t >= pe->threads && t < pe->threads + MAIN_THREAD) pe->thread_mask &= (u8)~(1u << (t - pe->threads));
    t->result = result;
    for (int i = 0; i < NUM_ENDINGS; i++) complete(m, pe, t->endings[i].action, t->endings[i].kind, t->endings[i].target);
}

/* A control wavelet ends an operation that was told what to do then; others take it as data. */
static int settle_control(Machine *m, Pe *pe, Thread *t, u64 now) {
    for (int i = 1; i < 3; i++) {
        const Cursor *c = t->cursors + i;
        if (c->kind != DSD_FABRIC_IN) continue;
        Queue *q = pe->inputs + c->queue;
        if (!q->count || !is_due(head_of(q), now) || !head_of(q)->control) continue;
        if (!(c->flags & IN_STOPS)) continue;
        take_wavelet(m, pe, c->queue);
        const Ending *control = t->controls + i - 1;
        if (control->action) { /* instead of what a full length would cause */
            complete(m, pe, control->action, control->kind, control->target);
            memset(t->endings, 0, sizeof t->endings);
        }
        finish(m, pe, t, 1);
        return 1;
    }
    return 0;
}

/* What `.control_transform` makes of the two highest bits of a control wavelet that is data. */
#define CONTROL_MARK 0xc0000000u

INLINE u32 take(Machine *m, Pe *pe, Thread *t, Cursor *c, u32 bytes, u32 *index) {
    switch (c->kind) {
    case CURSOR_SCALAR: return c->value;
    case DSD_FABRIC_IN: {
        const Entry e = take_wavelet(m, pe, c->queue);
        const u32 data = e.control && c->flags & IN_TRANSFORM ? e.data | CONTROL_MARK : e.data;
        schedule(m, pe, m->now + 1); /* the router may send another */
        if (!t->has_index) *index = data >> 16;
        return data;
    }
    case CURSOR_FIFO: return take_fifo(m, pe, c->queue, bytes);
    }
    const u32 address = cursor_address(c, *index);
    if (UNLIKELY((u64)address + bytes > pe->memory_size)) { fail(m, pe, FAULT_MEMORY, t->pc, address, bytes); return 0; }
    const u32 value = read_memory(pe, address, bytes);
    step_cursor(c);
    return value;
}

static void put(Machine *m, Pe *pe, Thread *t, Cursor *c, u32 bytes, u32 value, u32 index, u64 now) {
    if (c->kind == DSD_FABRIC_OUT) {
        Queue *q = pe->outputs + c->queue;
        if (bytes == 2) value |= (t->has_index || c->flags & OUT_INDEX) ? index << 16 : 0;
        const int was_control = c->flags & OUT_TRANSFORM && (value & CONTROL_MARK) == CONTROL_MARK;
        Entry e = {.ready = (u32)now + m->ramp_cycles, .data = was_control ? value & ~CONTROL_MARK : value,
                   .control = was_control || c->flags & OUT_CONTROL,
                   .color = m->is_wse3 ? q->color : c->color};
        e.advances = c->flags & OUT_ADVANCE && t->remaining == 1;
        push_queue(pe->outputs, c->queue, &pe->out_mask, e);
        pe->wavelets++;
        return;
    }
    if (c->kind == CURSOR_FIFO) { put_fifo(m, pe, c->queue, bytes, value); return; }
    const u32 address = cursor_address(c, index);
    if (UNLIKELY((u64)address + bytes > pe->memory_size)) { fail(m, pe, FAULT_MEMORY, t->pc, address, bytes); return; }
    write_memory(pe, address, bytes, value);
    step_cursor(c);
}

static void zero_sources(Pe *pe, const Cursor *dest, const u32 addresses[3], const u32 bytes[3], const Cursor *c) {
    if (dest->flags & OUT_ZERO0 && c[1].kind == DSD_MEMORY) write_memory(pe, addresses[1], bytes[1], 0);
    if (dest->flags & OUT_ZERO1 && c[2].kind == DSD_MEMORY) write_memory(pe, addresses[2], bytes[2], 0);
}

/* A synchronous operation that a FIFO ends: what it leaves undone is the FIFO's length afterwards,
 * if it had one, and a pointer's target is as before. */
static void leave_rest(Pe *pe, Fifo *fifo, const Thread *t, int place) {
    u32 *length = place ? &fifo->read_length : &fifo->write_length;
    if (*length) *length = t->remaining == NEVER32 ? ENDLESS : t->remaining;
    const Cursor *dest = t->cursors;
    if (dest->kind == CURSOR_PLACE && t->done) write_memory(pe, dest->address, WIDTHS[t->op].dest, dest->value);
}

/* A FIFO that is empty or full: notes it; ends a synchronous operation or one told to. */
static int settle_fifo(Machine *m, Pe *pe, Thread *t, int is_main) {
    for (int i = 0; i < 3; i++) {
        const Cursor *c = t->cursors + i;
        if (c->kind != CURSOR_FIFO) continue;
        Fifo *fifo = pe->fifos + c->queue;
        const int hit = i == 0 ? fifo->count == fifo->capacity : fifo->count == 0;
        if (!hit) continue;
        if (i == 0) fifo->was_full = 1; else fifo->was_empty = 1;
        const u32 action = i == 0 ? fifo->full_action : fifo->empty_action;
        if (action == 3) { fail(m, pe, FAULT_FIFO_FAULT, t->pc, c->queue, i == 0); return 1; }
        if (action == 1 || (is_main && action == 0)) {
            if (is_main && action == 0) leave_rest(pe, fifo, t, i);
            finish(m, pe, t, action == 1);
            return 1;
        }
    }
    return 0;
}

/* Drops data wavelets until so many control wavelets have come as the extent says. */
static u32 filter_step(Machine *m, Pe *pe, Thread *t, u64 now) {
    Queue *q = pe->inputs + t->cursors[1].queue;
    if (!q->count || !is_due(head_of(q), now)) return 0;
    const Entry e = take_wavelet(m, pe, t->cursors[1].queue);
    t->since = now;
    if (e.control && --t->remaining == 0) finish(m, pe, t, 1);
    return 1;
}

/* Moves one element if it can. Returns the clock cycles that it takes, 0 if it waits. */
static u32 thread_step(Machine *m, Pe *pe, Thread *t, u64 now) {
    Cursor *c = t->cursors;
    if (UNLIKELY(t->remaining == 0)) { finish(m, pe, t, 1); return 1; }
    if (UNLIKELY(t->op == V_dfilt)) return filter_step(m, pe, t, now);
    if (!can_give(pe, c + 1, now) || !can_give(pe, c + 2, now) || !can_take(m, pe, c)) {
        if (settle_control(m, pe, t, now)) return 1;
        return settle_fifo(m, pe, t, t == pe->threads + MAIN_THREAD) ? 1 : 0;
    }
    const Widths width = WIDTHS[t->op];
    u32 index = t->index;
    const u32 addresses[3] = {0, c[1].address, c[2].address};
    const u32 bytes[3] = {0, width.a, width.b};
    /* The wavelet first: its high half may say where in memory the other operand lies. */
    u32 a, b;
    if (c[2].kind == DSD_FABRIC_IN) {
        b = take(m, pe, t, c + 2, width.b, &index);
        a = take(m, pe, t, c + 1, width.a, &index);
    } else {
        a = take(m, pe, t, c + 1, width.a, &index);
        b = c[2].kind ? take(m, pe, t, c + 2, width.b, &index) : 0;
    }
    if (UNLIKELY(pe->has_failed)) return 1;
    const u32 value = compute_any(t->op, a, b, t->third, (int)m->format, &pe->carry);
    if (t->is_accumulating) c[1].value = value;
    put(m, pe, t, c, width.dest, value, index, now);
    if (UNLIKELY(c[0].flags & (OUT_ZERO0 | OUT_ZERO1)) && c[0].kind == DSD_FABRIC_OUT)
        zero_sources(pe, c, addresses, bytes, c);
    t->done++;
    t->since = now;
    if (t->remaining != NEVER32 && --t->remaining == 0) finish(m, pe, t, 1);
    return 1;
}

/* A FIFO has the length that was set for its side, or none. */
INLINE int has_length(const Cursor *c) {
    return c->kind == CURSOR_FIFO ? c->remaining != 0 : c->kind != DSD_NONE && c->kind < CURSOR_SCALAR;
}

/* The length of an operation, also where it is 0: that of source 0, or else of source 1, or else of
 * the destination, or else 1. */
INLINE u32 operation_length(const Cursor *c) {
    for (int k = 1; k < 4; k++)
        if (has_length(c + k % 3)) return c[k % 3].remaining;
    return 1;
}

/* Notes the first operation that goes beyond the length of an operand, or leaves wavelets of it. A
 * memory operand may be longer, and what a destination on the fabric says does not count. */
static void note_lengths(Machine *m, const Pe *pe, const Cursor *c, u32 n, u32 pc) {
    for (u32 k = 0; k < 3 && n != NEVER32 && !m->uneven.is_noted; k += 2) {
        const u32 length = c[k].remaining;
        if (!has_length(c + k) || c[k].kind == DSD_FABRIC_OUT || length == NEVER32) continue;
        if (length < n || (c[k].kind == DSD_FABRIC_IN && length > n)) m->uneven = (Note){m->now, pe->number, pc, n, length, k, 1};
    }
}

/* --- banks: 32 bits wide, eight of them, compared modulo 4 unless more than two words are read of
 * an operand at once (SDK: "bank_1 % 4 != bank_2 % 4"); two sources that meet halve the rate
 *
 * A DSD of several dimensions goes row by row, a row being its innermost dimension of more than one
 * element: what is read or written in one cycle lies in one row. */

INLINE int is_memory(const Cursor *c) { return c->kind == DSD_MEMORY || c->kind == DSD_SHAPED; }

INLINE u32 row_dimension(const Cursor *c) {
    u32 k = 0;
    while (k + 1 < c->shape->rank && c->shape->extents[k] <= 1) k++;
    return k;
}

INLINE i32 row_stride(const Cursor *c) {
    return c->kind == DSD_SHAPED ? in_width(c, c->shape->strides[row_dimension(c)]) : c->stride;
}

INLINE u32 stride_rate(const Cursor *c, i32 stride, u32 bytes) {
    if (!is_memory(c)) return 8;
    const i32 words = stride / 2;
    const i32 step = bytes == 4 ? words / 2 : words;
    if (step == 0 || step == 1) return 8;
    switch (step & 7) {
    case 0: return 1;
    case 1: case 7: case 4: return 2;
    default: return 8;
    }
}

/* Whether both stay in one and the same bank, which reads or writes once a cycle. */
INLINE int share_one_bank(const Cursor *dest, i32 stride, const Cursor *source, i32 other) {
    return is_memory(dest) && is_memory(source) && stride && other && !(stride & 15) && !(other & 15) &&
           ((dest->address / 2) & 7) == ((source->address / 2) & 7);
}

/* The elements of the shortest row of an operand, `n` where all have one row. */
INLINE u32 row_length(const Cursor *c, u32 n) {
    u32 length = n;
    for (int i = 0; i < 3; i++) {
        if (c[i].kind != DSD_SHAPED) continue;
        const u32 own = c[i].shape->extents[row_dimension(c + i)];
        if (own < length) length = own;
    }
    return length;
}

/* The 32-bit words of an operand that hold `n` elements, 1 of a column. */
INLINE u32 words_of(i32 stride, u32 n, u32 bytes) {
    return stride == (i32)bytes ? (n * bytes + 3) / 4 : 1;
}

/* Cycles in which `n` elements of both sources are read: two if some of their words lie in one bank. */
INLINE u32 reading_cycles(const Cursor *a, const Cursor *b, const i32 *strides, const u32 *bytes, u32 n) {
    if (!n) return 0;
    if (!is_memory(a) || !is_memory(b) || !strides[1] || !strides[2]) return 1;
    const u32 a_words = words_of(strides[1], n, bytes[1]), b_words = words_of(strides[2], n, bytes[2]);
    const u32 mask = a_words > 2 || b_words > 2 ? 7 : 3;
    const u32 distance = b->address / 4 - a->address / 4;
    return (distance & mask) < a_words || (-distance & mask) < b_words ? 2 : 1;
}

__attribute__((noinline)) static u32 operation_cycles(u32 op, const Cursor *c, u32 n, u32 simd) {
    const Widths width = WIDTHS[op];
    u32 rate = simd;
    const i32 strides[3] = {row_stride(c), row_stride(c + 1), row_stride(c + 2)};
    const u32 bytes[3] = {width.dest, width.a, width.b};
    for (int i = 0; i < 3; i++) {
        const u32 own = stride_rate(c + i, strides[i], bytes[i]);
        if (own < rate) rate = own;
    }
    const int written = share_one_bank(c, strides[0], c + 1, strides[1]) || share_one_bank(c, strides[0], c + 2, strides[2]);
    const u32 row = row_length(c, n);
    if (!row) return 0;
    const u32 whole = reading_cycles(c + 1, c + 2, strides, bytes, rate);
    u32 cycles = n / row * (row / rate * whole + reading_cycles(c + 1, c + 2, strides, bytes, row % rate));
    cycles += n % row / rate * whole + reading_cycles(c + 1, c + 2, strides, bytes, n % row % rate);
    return written && whole == 1 ? 2 * cycles : cycles;
}

#endif
