/* The byte code of tasks. */
#ifndef FABRIC_INTERPRETER_H
#define FABRIC_INTERPRETER_H

#include "services.h"

enum { SLICE_ALONE = 1 << 20, SLICE_SHARED = 64 };

/* What stopped the interpreter. */
enum { RAN = 0, WAITS = 1, FAILED = 2 };

INLINE int has_microthreads(const Pe *pe) {
    return pe->thread_mask != 0;
}

/* --- DSD operations */

INLINE u16 slot_value(const Pe *pe, u16 slot) { return slot == 0xffff ? 0 : (u16)pe->frame[slot]; }

static Ending ending_of(const Settings *settings, u16 target) {
    return (Ending){settings->completion, settings->target_kind, target};
}

/* What an asynchronous operation does at its end: what it says itself, unless DSRs say how it runs,
 * and what each of its DSRs says that was loaded so. */
static void take_endings(const Pe *pe, Thread *t, const Site *site, int is_own) {
    if (is_own) t->endings[0] = ending_of(&site->settings, slot_value(pe, site->settings.target_slot));
    for (int i = 0; i < 3; i++) {
        const Cursor *c = t->cursors + i;
        if (c->kind == DSD_NONE || c->file == NONE8) continue;
        const Dsr *d = pe->dsrs + c->file * NUM_DSRS + c->dsr;
        if (d->settings.asynchronous) t->endings[i + 1] = ending_of(&d->settings, d->target);
    }
}

/* The number that the first operand with one says, where a DSR has its own and other operands that
 * of the operation; or else that of the first queue. */
static u32 thread_number(const Pe *pe, const Site *site, const Cursor *c) {
    for (int i = 0; i < 3; i++) {
        if (c[i].kind == DSD_NONE || c[i].kind == CURSOR_SCALAR || c[i].kind == CURSOR_PLACE) continue;
        const Settings *own = c[i].file == NONE8 ? &site->settings : &pe->dsrs[c[i].file * NUM_DSRS + c[i].dsr].settings;
        if (own->microthread != NONE8) return own->microthread & 7;
    }
    for (int i = 0; i < 3; i++)
        if (is_fabric(c + i)) return c[i].queue & 7;
    return 7;
}

/* Which streams a control wavelet ends, and what it then causes: as said where each was loaded. */
static void take_control(const Pe *pe, Thread *t, const Site *site) {
    for (int i = 1; i < 3; i++) {
        Cursor *c = t->cursors + i;
        if (c->kind != DSD_FABRIC_IN) continue;
        const Dsr *d = c->file == NONE8 ? 0 : pe->dsrs + c->file * NUM_DSRS + c->dsr;
        const Settings *own = d ? &d->settings : &site->settings;
        if (!own->control_terminate && !own->control_action) continue;
        c->flags |= IN_STOPS;
        t->controls[i - 1] = (Ending){own->control_action, own->control_kind, d ? d->control_target : slot_value(pe, own->control_slot)};
    }
}

static int claim_queues(Machine *m, Pe *pe, Thread *t, u32 user) {
    for (int i = 0; i < 3; i++) {
        const Cursor *c = t->cursors + i;
        if (!is_fabric(c)) continue;
        const int is_in = c->kind == DSD_FABRIC_IN;
        if (c->queue >= NUM_QUEUES) { fail(m, pe, FAULT_NO_QUEUE, t->pc, c->color, (u32)is_in); return 0; }
        Queue *q = is_in ? pe->inputs + c->queue : pe->outputs + c->queue;
        /* An output of WSE-2 has the color of its DSD; a queue lent to a color is not the program's. */
        if (is_in ? !q->is_bound || q->is_lent : m->is_wse3 && !q->is_bound) { fail(m, pe, FAULT_NO_QUEUE, t->pc, c->queue, 2 + (u32)is_in); return 0; }
        if (q->user) { fail(m, pe, FAULT_QUEUE_BUSY, t->pc, c->queue, (u32)is_in); return 0; }
        q->user = (u8)user;
    }
    return 1;
}

static u8 priority_of(const Pe *pe, const Settings *settings, const Cursor *c) {
    if (settings->priority) return settings->priority;
    for (int i = 0; i < 3; i++)
        if (c[i].kind == DSD_FABRIC_IN && pe->inputs[c[i].queue & 7].priority) return pe->inputs[c[i].queue & 7].priority;
    return 2;
}

/* Whether an operation can write to its destination and read its sources: a DSD from memory or from
 * a register may be of any kind. */
static int are_operands(Machine *m, Pe *pe, u32 op, const Cursor *c, u32 pc) {
    const int writes = c->kind != DSD_NONE && c->kind != CURSOR_SCALAR && c->kind != DSD_FABRIC_IN;
    const int reads = c[1].kind != DSD_FABRIC_OUT && c[2].kind != DSD_FABRIC_OUT && c[1].kind != DSD_NONE;
    if (op == V_dfilt ? c[1].kind == DSD_FABRIC_IN : writes && reads) return 1;
    fail(m, pe, FAULT_NO_OPERAND, pc, writes || op == V_dfilt, 0);
    return 0;
}

/* The bytes of an element of an operand, 0 where it does not say. */
INLINE u32 bytes_of(const Pe *pe, const Cursor *c) {
    if (c->kind == CURSOR_FIFO) return pe->fifos[c->queue].element_bytes;
    return c->kind == DSD_MEMORY || c->shape ? c->element_bytes : 0;
}

/* Whether of two streams that @faddhs adds the first one has the 32-bit numbers. */
static int is_wider_first(const Pe *pe, const Cursor *c) {
    if (c[1].kind == CURSOR_SCALAR || c[2].kind == CURSOR_SCALAR) return 0;
    return bytes_of(pe, c + 1) == 4 || bytes_of(pe, c + 2) == 2;
}

/* Starts the operation of a site. Memory alone: does it, and adds its cycles to `cost`. */
static int start_operation(Machine *m, Pe *pe, const Site *site, u32 pc, u64 now, u64 *cost) {
    Thread built;
    Thread *t = &built;
    for (int i = 0; i < 3; i++) {
        Cursor *operand = t->cursors + i;
        if (!resolve(m, pe, site->operands + i, operand, pc)) return FAILED;
        if (operand->kind != CURSOR_FIFO) continue;
        const Fifo *fifo = pe->fifos + operand->queue;
        operand->remaining = i ? fifo->read_length : fifo->write_length;
        if (operand->remaining == ENDLESS) operand->remaining = NEVER32;
        Cursor *dest = t->cursors;
        const u32 bytes = WIDTHS[site->op].dest;
        if (i && dest->kind == CURSOR_PLACE && dest->address + bytes <= pe->memory_size)
            dest->value = read_memory(pe, dest->address, bytes);
    }
    Cursor *c = t->cursors;
    const u32 op = site->op == V_faddhs && is_wider_first(pe, c) ? V_faddsh : site->op;
    if (!are_operands(m, pe, op, c, pc)) return FAILED;
    const Dsr *dsr = deciding_dsr(pe, site, c);
    set_width(c, WIDTHS[op].dest);
    set_width(c + 1, WIDTHS[op].a);
    set_width(c + 2, WIDTHS[op].b);
    const Settings *settings = &site->settings;
    const Settings *from = dsr ? &dsr->settings : settings;
    const int asynchronous = from->asynchronous;
    t->op = (u8)op;
    t->pc = pc;
    t->third = (u32)pe->frame[site->operands[3].slot];
    t->has_index = settings->index_slot != 0xffff;
    t->index = slot_value(pe, settings->index_slot);
    t->done = 0;
    t->since = now;
    t->is_accumulating = c[0].kind == CURSOR_PLACE && c[1].kind == CURSOR_SCALAR && WIDTHS[op].sources > 1;
    t->remaining = operation_length(c);
    t->is_active = 0;
    memset(t->endings, 0, sizeof t->endings);
    memset(t->controls, 0, sizeof t->controls);
    const int linear = is_linear(c) && is_linear(c + 1) && is_linear(c + 2) &&
                       !((c[0].flags | c[1].flags | c[2].flags) & OUT_INDEX);
    const int waits = is_fabric(c) || is_fabric(c + 1) || is_fabric(c + 2) || c[0].kind == CURSOR_FIFO ||
                      c[1].kind == CURSOR_FIFO || c[2].kind == CURSOR_FIFO || asynchronous;
    if (is_checked(pe)) {
        note_extents(m, pe, c, t->remaining, pc);
        note_lengths(m, pe, c, t->remaining, pc);
    }
    if (!waits) {
        if (t->remaining == NEVER32) { fail(m, pe, FAULT_NO_END, pc, 0, 0); return FAILED; }
        const u32 n = t->remaining;
        const u32 cycles = site->cost + operation_cycles(op, c, n, site->simd);
        TRACE(m, now + *cost, pe->number, pc, cycles, TRACE_VECTOR, NONE8, 0, 0);
        *cost += cycles;
        if (linear && n) {
            const Widths width = WIDTHS[op];
            const u32 bytes[3] = {width.dest, width.a, width.b};
            for (int i = 0; i < 3; i++)
                if (c[i].kind != CURSOR_SCALAR && c[i].kind != DSD_NONE && !lies_in_memory(pe, c + i, n, bytes[i])) {
                    fail(m, pe, FAULT_MEMORY, pc, c[i].address + (u32)((i64)(n - 1) * c[i].stride), bytes[i]);
                    return FAILED;
                }
            run_linear_op(pe, op, c, n, t->third, (int)m->format, t->is_accumulating);
            for (int i = 0; i < 3; i++)
                if (c[i].kind == DSD_MEMORY) c[i].address = (c[i].address + n * (u32)c[i].stride) & 0xffff;
            save_addresses(pe, t);
        } else {
            t->is_active = 1;
            while (t->is_active && !pe->has_failed) thread_step(m, pe, t, now);
        }
        return RAN;
    }
    if (*cost) return WAITS; /* what others can see happens at its own cycle */
    const u32 number = asynchronous ? thread_number(pe, site, c) : MAIN_THREAD;
    Thread *to = pe->threads + number;
    if (to->is_active) { fail(m, pe, FAULT_MICROTHREAD_BUSY, pc, number, to->pc); return FAILED; }
    if (!claim_queues(m, pe, t, number + 1)) return FAILED;
    take_control(pe, t, site);
    if (asynchronous) take_endings(pe, t, site, !dsr);
    t->priority = priority_of(pe, from, c);
    t->is_active = 1;
    t->ready = now + site->cost;
    *to = *t;
    TRACE(m, now, pe->number, pc, t->remaining, TRACE_START, NONE8, (u8)number, 0);
    if (asynchronous) {
        pe->thread_mask |= (u8)(1u << number);
        pe->starting |= (u8)(1u << number);
    }
    *cost += site->cost;
    if (asynchronous) return RAN;
    pe->in_operation = 1;
    return RAN;
}

static void load_dsr(Pe *pe, const Site *site) {
    if (!pe->dsrs) pe->dsrs = calloc(DSR_FILES * NUM_DSRS, sizeof(Dsr));
    Dsr *d = pe->dsrs + site->file * NUM_DSRS + site->number;
    d->value = pe->frame[site->operands[0].slot];
    d->settings = site->settings;
    d->target = slot_value(pe, site->settings.target_slot);
    d->control_target = slot_value(pe, site->settings.control_slot);
    d->save_address = site->save_address;
    d->single_step = site->single_step;
    d->is_loaded = 1;
}

/* --- @map */

static int begin_map(Machine *m, Pe *pe, const Site *site, u32 pc) {
    if (!pe->maps) pe->maps = calloc(MAP_DEPTH, sizeof(MapState));
    if (pe->map_depth == MAP_DEPTH) { fail(m, pe, FAULT_STACK, pc, MAP_DEPTH, 0); return 0; }
    MapState *map = pe->maps + pe->map_depth++;
    map->site = (u32)(site - pe->image->sites);
    for (u32 i = 0; i <= site->op; i++) {
        Cursor *c = map->cursors + i;
        if (!site->steps[i] && i < site->op) { c->kind = DSD_NONE; continue; }
        if (!resolve(m, pe, site->operands + i, c, pc)) return 0;
        if (is_fabric(c) && c->queue >= NUM_QUEUES) { fail(m, pe, FAULT_NO_QUEUE, pc, c->color, c->kind == DSD_FABRIC_IN); return 0; }
        set_width(c, site->widths[i]);
    }
    return 1;
}

static void end_map(Pe *pe, MapState *map, const Site *site) {
    for (u32 i = 0; i <= site->op; i++) {
        const Cursor *c = map->cursors + i;
        if (c->file == NONE8 || c->kind == DSD_NONE || is_fabric(c)) continue;
        Dsr *d = pe->dsrs + c->file * NUM_DSRS + c->dsr;
        if (d->save_address) d->value = (d->value & ~0xffffull) | (c->address & 0xffff);
    }
    pe->map_depth--;
}

INLINE int map_has_ended(const MapState *map, u32 cursors) {
    for (u32 i = 0; i < cursors; i++) {
        const Cursor *c = map->cursors + i;
        if (c->kind != DSD_NONE && c->kind < CURSOR_SCALAR && c->remaining == 0) return 1;
    }
    return 0;
}

/* Reads the next element of every stepping input; a wavelet waits for its own cycle, which is not
 * this one where the task has got `before` cycles ahead. Returns 2 at the end, WAITS, or RAN. */
static int next_of_map(Machine *m, Pe *pe, u32 first_slot, u32 pc, u64 now, u64 before) {
    MapState *map = pe->maps + pe->map_depth - 1;
    const Site *site = pe->image->sites + map->site;
    Thread t = {.pc = pc};
    if (map_has_ended(map, site->op + 1u)) { end_map(pe, map, site); return 2; }
    for (u32 i = 0; i < site->op; i++) {
        const Cursor *c = map->cursors + i;
        const int waits = c->kind == DSD_FABRIC_IN || c->kind == CURSOR_FIFO;
        if (waits && (before || !can_give(pe, c, now))) return WAITS;
    }
    u32 index = 0;
    for (u32 i = 0; i < site->op; i++) {
        Cursor *c = map->cursors + i;
        if (c->kind == DSD_NONE) continue;
        if (!can_give(pe, c, now)) { fail(m, pe, FAULT_QUEUE_BUSY, pc, c->queue, c->kind == DSD_FABRIC_IN); return FAILED + 1; } /* two inputs, one queue */
        const u32 value = take(m, pe, &t, c, site->widths[i], &index);
        if (c->remaining != NEVER32) c->remaining--;
        pe->frame[first_slot + i] = extend(value, site->widths[i] * 8, site->is_signed[i]);
    }
    return pe->has_failed ? FAILED + 1 : RAN;
}

static int put_of_map(Machine *m, Pe *pe, u64 value, u32 pc, u64 now, u64 before) {
    MapState *map = pe->maps + pe->map_depth - 1;
    const Site *site = pe->image->sites + map->site;
    Cursor *c = map->cursors + site->op;
    Thread t = {.pc = pc, .remaining = 2};
    const int waits = c->kind == DSD_FABRIC_OUT || c->kind == CURSOR_FIFO;
    if (waits && (before || !can_take(m, pe, c))) return WAITS;
    put(m, pe, &t, c, site->widths[site->op], (u32)value, 0, now);
    if (c->kind < CURSOR_SCALAR && c->remaining != NEVER32) c->remaining--;
    return RAN;
}

/* --- scalar instructions */

#define SIGNED(bits) (i64)(i##bits)
#define UNSIGNED(bits) (u##bits)
#define TYPED(name, expression)                                          \
    L_##name##_I8: R[i->a] = (u64)(i64)(i8)(expression); NEXT;           \
    L_##name##_U8: R[i->a] = (u8)(expression); NEXT;                     \
    L_##name##_I16: R[i->a] = (u64)(i64)(i16)(expression); NEXT;         \
    L_##name##_U16: R[i->a] = (u16)(expression); NEXT;                   \
    L_##name##_I32: R[i->a] = (u64)(i64)(i32)(expression); NEXT;         \
    L_##name##_U32: R[i->a] = (u32)(expression); NEXT;                   \
    L_##name##_I64: L_##name##_U64: R[i->a] = (expression); NEXT;
#define F32_OP(name, expression) L_##name##_F32: { const f32 x = as_f32(R[i->b]), y = as_f32(R[i->c]); (void)y; R[i->a] = expression; } NEXT;
#define F16_OP(name, expression) L_##name##_F16: { const f64 x = widen16((u32)R[i->b], format), y = widen16((u32)R[i->c], format); (void)y; R[i->a] = expression; } NEXT;
#define FLOAT(name, expression) F32_OP(name, of_f32(expression)) F16_OP(name, narrow16(expression, format))
#define FLOAT_TEST(name, expression) F32_OP(name, expression) F16_OP(name, expression)
#define ADDRESS(slot, bytes)                                              \
    const u32 at = (u32)(R[slot] + (u64)(i64)i->imm) & 0xffff;            \
    if (UNLIKELY(at + bytes > size)) { fault_b = bytes; fault_a = at; goto memory_fault; }
#define INDEXED(bytes)                                                    \
    const u32 at = (u32)(R[i->b] + R[i->c] * bytes + (u64)(i64)i->imm) & 0xffff; \
    if (UNLIKELY(at + bytes > size)) { fault_b = bytes; fault_a = at; goto memory_fault; }
#define JUMP_IF(test) if (test) goto jump; NEXT;

f64 fmod(f64 x, f64 y);

/* Runs the main thread's code until it ends, waits, or has used its slice. Returns its cycles. */
static u64 interpret(Machine *m, Pe *pe, u64 now, int *state) {
    static const void *const labels[2 * BREAK] = {ALL_LABELS, [BREAK ... 2 * BREAK - 1] = &&L_BREAK};
    const Instruction *const code = pe->image->code;
    const Instruction *i = code + pe->pc;
    u64 *const R = pe->frame;
    u8 *const memory = pe->memory;
    const u32 size = pe->memory_size;
    const int format = (int)m->format;
    const u64 slice = has_microthreads(pe) ? SLICE_SHARED : SLICE_ALONE;
    u64 n = 0;
    u32 fault_a = 0, fault_b = 0;
    *state = RAN;

#define DISPATCH do { n += (u64)(i64)i->cost; goto *labels[i->op]; } while (0)
#define NEXT do { i++; DISPATCH; } while (0)
#define LEAVE do { pe->pc = (u32)(i - code); n -= (u64)(i64)i->cost; goto leave; } while (0)
#define LEAVE_AT_TARGET do { pe->pc = (u32)(i - code); goto leave; } while (0)
    DISPATCH;

L_BREAK: /* a breakpoint begins a turn of its own, before which whoever debugs stops the machine */
    if (n != (u64)(i64)i->cost && m->watched && m->watched[pe->number]) LEAVE;
    goto *labels[i->op & (BREAK - 1)];
L_STOP:
    pe->is_running = 0;
    pe->pc = 0;
    goto leave;
L_MOV: R[i->a] = R[i->b]; NEXT;
    TYPED(ADD, R[i->b] + R[i->c])
    TYPED(SUB, R[i->b] - R[i->c])
    TYPED(MUL, R[i->b] * R[i->c])
    TYPED(SHL, (R[i->c] >= 64 ? 0 : R[i->b] << R[i->c]))
L_AND: R[i->a] = R[i->b] & R[i->c]; NEXT;
L_OR: R[i->a] = R[i->b] | R[i->c]; NEXT;
L_XOR: R[i->a] = R[i->b] ^ R[i->c]; NEXT;
L_NOT: R[i->a] = ~R[i->b]; NEXT;
L_SHR_S: R[i->a] = (u64)((i64)R[i->b] >> (R[i->c] > 63 ? 63 : R[i->c])); NEXT;
L_SHR_U: R[i->a] = R[i->c] > 63 ? 0 : R[i->b] >> R[i->c]; NEXT;
L_DIV_S:
    if (!R[i->c]) goto division_fault;
    R[i->a] = R[i->c] == ~0ull ? 0 - R[i->b] : (u64)((i64)R[i->b] / (i64)R[i->c]);
    NEXT;
L_DIV_U:
    if (!R[i->c]) goto division_fault;
    R[i->a] = R[i->b] / R[i->c];
    NEXT;
L_REM_S:
    if (!R[i->c]) goto division_fault;
    R[i->a] = R[i->c] == ~0ull ? 0 : (u64)((i64)R[i->b] % (i64)R[i->c]);
    NEXT;
L_REM_U:
    if (!R[i->c]) goto division_fault;
    R[i->a] = R[i->b] % R[i->c];
    NEXT;
L_EXTEND_S: R[i->a] = extend(R[i->b], i->imm, 1); NEXT;
L_EXTEND_U: R[i->a] = extend(R[i->b], i->imm, 0); NEXT;
L_EQ: R[i->a] = R[i->b] == R[i->c]; NEXT;
L_NE: R[i->a] = R[i->b] != R[i->c]; NEXT;
L_LT_S: R[i->a] = (i64)R[i->b] < (i64)R[i->c]; NEXT;
L_LE_S: R[i->a] = (i64)R[i->b] <= (i64)R[i->c]; NEXT;
L_LT_U: R[i->a] = R[i->b] < R[i->c]; NEXT;
L_LE_U: R[i->a] = R[i->b] <= R[i->c]; NEXT;
    FLOAT(FADD, x + y)
    FLOAT(FSUB, x - y)
    FLOAT(FMUL, x * y)
    F32_OP(FDIV, of_f32(x / y))
    F16_OP(FDIV, narrow16(x / y, format))
    F32_OP(FREM, of_f32((f32)fmod(x, y)))
    F16_OP(FREM, narrow16(fmod(x, y), format))
L_FNEG_F32: R[i->a] = R[i->b] ^ 0x80000000; NEXT;
L_FNEG_F16: R[i->a] = R[i->b] ^ 0x8000; NEXT;
    FLOAT_TEST(FEQ, x == y)
    FLOAT_TEST(FNE, x != y)
    FLOAT_TEST(FLT, x < y)
    FLOAT_TEST(FLE, x <= y)
L_S_TO_F32: R[i->a] = integer_to_f32(R[i->b], 1); NEXT;
L_U_TO_F32: R[i->a] = integer_to_f32(R[i->b], 0); NEXT;
L_S_TO_F16: R[i->a] = integer_to_f16(R[i->b], 1, format); NEXT;
L_U_TO_F16: R[i->a] = integer_to_f16(R[i->b], 0, format); NEXT;
L_F32_TO_S: R[i->a] = extend(float_to_integer(as_f32(R[i->b]), i->imm, 1), i->imm, 1); NEXT;
L_F32_TO_U: R[i->a] = float_to_integer(as_f32(R[i->b]), i->imm, 0); NEXT;
L_F16_TO_S: R[i->a] = extend(float_to_integer(widen16((u32)R[i->b], format), i->imm, 1), i->imm, 1); NEXT;
L_F16_TO_U: R[i->a] = float_to_integer(widen16((u32)R[i->b], format), i->imm, 0); NEXT;
L_F32_TO_F16: R[i->a] = narrow16(as_f32(R[i->b]), format); NEXT;
L_F16_TO_F32: R[i->a] = of_f32((f32)widen16((u32)R[i->b], format)); NEXT;
L_F32_TO_BOOL: R[i->a] = (R[i->b] & 0x7fffffff) != 0; NEXT;
L_F16_TO_BOOL: R[i->a] = (R[i->b] & 0x7fff) != 0; NEXT;
L_LOAD_I16: { ADDRESS(i->b, 2) i16 v; memcpy(&v, memory + at, 2); R[i->a] = (u64)(i64)v; } NEXT;
L_LOAD_U16: { ADDRESS(i->b, 2) u16 v; memcpy(&v, memory + at, 2); R[i->a] = v; } NEXT;
L_LOAD_I32: { ADDRESS(i->b, 4) i32 v; memcpy(&v, memory + at, 4); R[i->a] = (u64)(i64)v; } NEXT;
L_LOAD_U32: { ADDRESS(i->b, 4) u32 v; memcpy(&v, memory + at, 4); R[i->a] = v; } NEXT;
L_LOAD_64: { ADDRESS(i->b, 8) u64 v; memcpy(&v, memory + at, 8); R[i->a] = v; } NEXT;
L_STORE_16: { ADDRESS(i->b, 2) const u16 v = (u16)R[i->a]; memcpy(memory + at, &v, 2); } NEXT;
L_STORE_32: { ADDRESS(i->b, 4) const u32 v = (u32)R[i->a]; memcpy(memory + at, &v, 4); } NEXT;
L_STORE_64: { ADDRESS(i->b, 8) const u64 v = R[i->a]; memcpy(memory + at, &v, 8); } NEXT;
L_INDEX_LOAD_I16: { INDEXED(2) i16 v; memcpy(&v, memory + at, 2); R[i->a] = (u64)(i64)v; } NEXT;
L_INDEX_LOAD_U16: { INDEXED(2) u16 v; memcpy(&v, memory + at, 2); R[i->a] = v; } NEXT;
L_INDEX_LOAD_I32: { INDEXED(4) i32 v; memcpy(&v, memory + at, 4); R[i->a] = (u64)(i64)v; } NEXT;
L_INDEX_LOAD_U32: { INDEXED(4) u32 v; memcpy(&v, memory + at, 4); R[i->a] = v; } NEXT;
L_INDEX_STORE_16: { INDEXED(2) const u16 v = (u16)R[i->a]; memcpy(memory + at, &v, 2); } NEXT;
L_INDEX_STORE_32: { INDEXED(4) const u32 v = (u32)R[i->a]; memcpy(memory + at, &v, 4); } NEXT;
L_COPY: {
    const u32 to = (u32)R[i->a] & 0xffff, from = (u32)R[i->b] & 0xffff, bytes = (u32)i->imm;
    if ((u64)to + bytes > size || (u64)from + bytes > size) { fault_a = to > from ? to : from; fault_b = bytes; goto memory_fault; }
    memmove(memory + to, memory + from, bytes);
    NEXT;
}
L_CHECK_INDEX:
    if (LIKELY(R[i->a] < (u32)i->imm)) NEXT;
    pe->pc = (u32)(i - code);
    fail(m, pe, FAULT_INDEX, pe->pc, (u32)R[i->a], (u32)i->imm);
    goto failed;
L_JUMP: goto jump;
L_IF: JUMP_IF(R[i->a])
L_IF_NOT: JUMP_IF(!R[i->a])
L_IF_EQ: JUMP_IF(R[i->a] == R[i->b])
L_IF_NE: JUMP_IF(R[i->a] != R[i->b])
L_IF_LT_S: JUMP_IF((i64)R[i->a] < (i64)R[i->b])
L_IF_LE_S: JUMP_IF((i64)R[i->a] <= (i64)R[i->b])
L_IF_LT_U: JUMP_IF(R[i->a] < R[i->b])
L_IF_LE_U: JUMP_IF(R[i->a] <= R[i->b])
L_CALL:
    R[i->a] = (u64)(i - code) + 1;
    i = code + i->imm;
    DISPATCH;
L_CALL_POINTER: {
    const u64 target = R[i->b];
    if (!target || target > pe->image->num_functions) { fault_a = (u32)target; goto function_fault; }
    const u32 *function = pe->image->functions + 4 * (target - 1);
    if (i->c != function[3]) { fault_a = (u32)target; goto function_fault; }
    for (u32 k = 0; k < i->c; k++) R[function[1] + k] = R[i->a + k];
    R[function[2]] = (u64)(i - code) + 1;
    i = code + function[0];
    DISPATCH;
}
L_RETURN:
    if (UNLIKELY(R[i->a] >= pe->image->num_code)) { fault_a = (u32)R[i->a]; goto function_fault; }
    i = code + R[i->a];
    if (UNLIKELY(n > slice)) LEAVE_AT_TARGET;
    DISPATCH;
L_SAVE: {
    const u32 count = (u32)i->imm;
    if (pe->stack_top + count > pe->stack_size) {
        if (pe->stack_size >= 1 << 16) { pe->pc = (u32)(i - code); fail(m, pe, FAULT_STACK, pe->pc, pe->stack_top, count); goto failed; }
        pe->stack_size = 2 * pe->stack_size + count;
        pe->stack = realloc(pe->stack, pe->stack_size * sizeof(u64));
    }
    memcpy(pe->stack + pe->stack_top, R + i->a, count * sizeof(u64));
    pe->stack_top += count;
    NEXT;
}
L_RESTORE: /* functions that call each other through pointers can come here twice */
    if (UNLIKELY(pe->stack_top < (u32)i->imm)) { pe->pc = (u32)(i - code); fail(m, pe, FAULT_STACK, pe->pc, pe->stack_top, 0); goto failed; }
    pe->stack_top -= (u32)i->imm;
    memcpy(R + i->a, pe->stack + pe->stack_top, (u32)i->imm * sizeof(u64));
    NEXT;
L_ACTIVATE: activate(m, pe, (u32)R[i->a]); NEXT;
L_SET_BLOCKED: set_blocked(m, pe, (u32)i->imm, (u32)R[i->a], i->b); NEXT;
L_ASSERT:
    if (R[i->a]) NEXT;
    pe->pc = (u32)(i - code);
    fail(m, pe, FAULT_ASSERTION, pe->pc, 0, 0);
    goto failed;
L_DSD_LENGTH: R[i->a] = (R[i->b] & ~(0xffffull << 16)) | (R[i->c] & 0xffff) << 16; NEXT;
L_DSD_BASE: { /* a stride counts elements, so another width scales it */
    const int was = (int)(R[i->b] >> 48 & 3);
    const i64 stride = (i64)(i16)(R[i->b] >> 32);
    const i64 scaled_stride = i->imm >= was ? stride * (1ll << (i->imm - was)) : stride / (1ll << (was - i->imm));
    const u64 width_bits = 0xffffull | 3ull << 48, stride_bits = 0xffffull << 32;
    u64 kept = R[i->b] & ~width_bits;
    if (R[i->b] >> 60 == DSD_MEMORY) kept = (kept & ~stride_bits) | ((u64)scaled_stride & 0xffff) << 32;
    R[i->a] = kept | (R[i->c] & 0xffff) | (u64)(u32)i->imm << 48;
    NEXT;
}
L_DSD_STRIDE: {
    const u64 bytes = (R[i->c] << (R[i->b] >> 48 & 3) << 1) & 0xffff;
    R[i->a] = (R[i->b] & ~(0xffffull << 32)) | bytes << 32;
    NEXT;
}
L_DSD_ADVANCE: R[i->a] = (R[i->b] & ~0xffffull) | ((R[i->b] + R[i->c] * (u64)(i64)i->imm) & 0xffff); NEXT;
L_DSD_COLOR: R[i->a] = (R[i->b] & ~(31ull << 5)) | (R[i->c] & 31) << 5; NEXT;
L_DSD_SHAPE: NEXT;
L_VECTOR: {
    const u32 pc = (u32)(i - code);
    u64 cost = n - (u64)(i64)i->cost;
    const int outcome = start_operation(m, pe, pe->image->sites + i->imm, pc, now, &cost);
    if (outcome == WAITS) LEAVE;
    if (outcome == FAILED || pe->has_failed) { pe->pc = pc; goto failed; }
    n = cost;
    if (pe->in_operation) { pe->pc = pc; goto leave; }
    if (i->a) R[i->a] = 1;
    NEXT;
}
L_LOAD_DSR: load_dsr(pe, pe->image->sites + i->imm); NEXT;
L_MAP_BEGIN:
    pe->pc = (u32)(i - code);
    if (!begin_map(m, pe, pe->image->sites + i->imm, pe->pc)) goto failed;
    NEXT;
L_MAP_NEXT: {
    const u32 pc = (u32)(i - code);
    if (UNLIKELY(!pe->map_depth)) goto map_fault;
    const u64 before = n - (u64)(i64)i->cost;
    const int outcome = next_of_map(m, pe, i->a, pc, now, before);
    if (outcome == 2) goto jump;
    if (outcome == WAITS) { if (!before) *state = WAITS; LEAVE; }
    if (outcome) { pe->pc = pc; goto failed; }
    NEXT;
}
L_MAP_PUT: {
    const u32 pc = (u32)(i - code);
    if (UNLIKELY(!pe->map_depth)) goto map_fault;
    const u64 before = n - (u64)(i64)i->cost;
    const int outcome = put_of_map(m, pe, R[i->a], pc, now, before);
    if (outcome == WAITS) { if (!before) *state = WAITS; LEAVE; }
    if (pe->has_failed) { pe->pc = pc; goto failed; }
    NEXT;
}
L_INTRINSIC: {
    const u64 before = n - (u64)(i64)i->cost;
    if (before && is_exact_service((u32)i->imm, pe)) LEAVE;
    R[i->a] = serve(m, pe, i, now + before);
    if (pe->has_failed) { pe->pc = (u32)(i - code); goto failed; }
    NEXT;
}

jump: {
    const Instruction *to = code + i->imm;
    const int backward = to <= i;
    i = to;
    if (UNLIKELY(backward && n > slice)) LEAVE_AT_TARGET;
    DISPATCH;
}
memory_fault:
    if (fault_b == 2 && !(fault_a & 1) && is_register(m, fault_a >> 1)) {
        if (n != (u64)(i64)i->cost) LEAVE; /* others see it: in its own cycle */
        const int write = (i->op & (BREAK - 1)) == OP_STORE_16 || (i->op & (BREAK - 1)) == OP_INDEX_STORE_16;
        const u32 value = access_register(m, pe, fault_a >> 1, write, (u32)R[i->a] & 0xffff);
        const int is_signed = (i->op & (BREAK - 1)) == OP_LOAD_I16 || (i->op & (BREAK - 1)) == OP_INDEX_LOAD_I16;
        if (!write) R[i->a] = extend(value, 16, is_signed);
        NEXT;
    }
    pe->pc = (u32)(i - code);
    fail(m, pe, FAULT_MEMORY, pe->pc, fault_a, fault_b);
    goto failed;
map_fault: /* as at RESTORE */
    pe->pc = (u32)(i - code);
    fail(m, pe, FAULT_STACK, pe->pc, 0, 0);
    goto failed;
division_fault:
    pe->pc = (u32)(i - code);
    fail(m, pe, FAULT_DIVISION, pe->pc, 0, 0);
    goto failed;
function_fault:
    pe->pc = (u32)(i - code);
    fail(m, pe, FAULT_NULL_FUNCTION, pe->pc, fault_a, 0);
failed:
    *state = FAILED;
leave:
    pe->instructions += n;
    return n;
}
#endif
