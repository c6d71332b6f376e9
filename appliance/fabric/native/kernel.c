/* The simulated fabric: time, PEs as they are touched, and what Python calls. */
#include "core.h"
#include "team.h"

static void set_up_router(Machine *m, Pe *pe) {
    const u32 routing = m->routing_of[pe->number];
    if (routing == NEVER32) return;
    const ColorConfig *configs = m->routings[routing];
    reserve_routes(m, pe, m->routing_sizes[routing]);
    for (u32 k = 0; k < m->routing_sizes[routing]; k++) {
        Route *r = route_of(m, pe, configs[k].color);
        r->config = configs[k];
        r->config.filter.counter = r->config.filter.init_counter;
        select_position(r);
        if (configs[k].swap_x || configs[k].swap_y) pe->has_swap = 1;
    }
}

static void set_up_queues(Machine *m, Pe *pe) {
    static const u8 in2[] = {6, 6, 4, 4, 2, 2, 2, 2}, out2[] = {2, 2, 6, 6, 2, 2, 2, 2};
    static const u8 in3[] = {8, 8, 4, 4, 4, 4, 4, 4}, out3[] = {8, 8, 8, 8, 8, 8, 8, 8};
    memset(pe->queue_for, NONE8, NUM_COLORS);
    for (u32 k = 0; k < NUM_QUEUES; k++) {
        pe->inputs[k].depth = m->is_wse3 ? in3[k] : in2[k];
        pe->outputs[k].depth = m->is_wse3 ? out3[k] : out2[k];
        pe->inputs[k].size = (u8)room_of(m, pe->inputs + k);
        pe->outputs[k].size = (u8)room_of(m, pe->outputs + k);
        pe->inputs[k].filtered = 1;
        pe->inputs[k].color = pe->outputs[k].color = NONE8;
        if (!pe->image) continue;
        pe->inputs[k].priority = pe->image->input_priority[k];
        if (pe->image->input_color[k] != NONE8) bind_input(pe, k, pe->image->input_color[k]);
        if (pe->image->output_color[k] == NONE8) continue;
        pe->outputs[k].color = pe->image->output_color[k];
        pe->outputs[k].is_bound = 1;
    }
    for (u32 color = 0; pe->image && color < NUM_COLORS; color++)
        if (pe->image->queue_of_color[color] != NONE8) pe->queue_for[color] = pe->image->queue_of_color[color];
}

/* WSE-2: a color that reaches the ramp has a queue without asking; the highest free ones serve. */
static void bind_free_queues(Machine *m, Pe *pe) {
    u32 number = NUM_QUEUES;
    for (u32 color = 0; color < NUM_COLORS && !m->is_wse3; color++) {
        const Route *r = find_route(pe, color);
        if (!r || pe->queue_for[color] != NONE8) continue;
        const ColorConfig *c = &r->config;
        if (!((c->tx | c->tx1[1] | c->tx1[2] | c->tx1[3]) >> RAMP & 1)) continue;
        while (number > 0 && pe->inputs[number - 1].is_bound) number--;
        if (number == 0) return;
        bind_input(pe, --number, color);
        pe->inputs[number].is_lent = 1;
    }
}

enum { SPARE_SLOTS = 16 }; /* services and @map read or write so many from a slot on */

static void set_up_core(Machine *m, Pe *pe) {
    const ClassImage *image = pe->image;
    pe->memory_size = image->num_memory;
    pe->memory = allot(m, image->num_memory + 8);
    memcpy(pe->memory, image->memory, image->num_memory);
    pe->frame = allot(m, (image->num_slots + SPARE_SLOTS) * sizeof(u64));
    memcpy(pe->frame, image->frame, image->num_slots * sizeof(u64));
    if (image->num_fifos) {
        pe->fifos = allot(m, image->num_fifos * sizeof(Fifo));
        memcpy(pe->fifos, image->fifos, image->num_fifos * sizeof(Fifo));
    }
    pe->active = image->active;
    pe->blocked_local = image->blocked_local;
    pe->blocked_data = image->blocked_data;
    pe->blocked_color = image->blocked_color;
    pe->blocked_queue = image->blocked_queue;
    if (image->start != NEVER32) {
        int state;
        pe->pc = image->start;
        pe->is_running = 1;
        interpret(m, pe, m->now, &state);
    }
}

static Pe *make_pe(Machine *m, u32 number) {
    Pe *pe = allot(m, sizeof(Pe));
    m->num_touched++;
    pe->number = number;
    pe->x = (u16)(number % m->width);
    pe->y = (u16)(number / m->width);
    memset(pe->route_at, NONE8, NUM_COLORS);
    pe->wake = NEVER;
    pe->main_priority = 1;
    for (u32 k = 0; k < 4; k++) pe->prng[k] = 0xdeadbeef;
    const u32 image = m->class_of[number];
    if (image != NEVER32) pe->image = m->classes + image;
    set_up_queues(m, pe);
    set_up_router(m, pe);
    if (pe->image) bind_free_queues(m, pe);
    if (pe->image) set_up_core(m, pe);
    return pe;
}

/* The PE, made when it is first touched, perhaps by the thread of the band beside its own. */
static Pe *pe_at(Machine *m, u32 number) {
    Pe *pe = __atomic_load_n(m->pes + number, __ATOMIC_ACQUIRE);
    if (LIKELY(pe != 0)) return pe;
    lock_team(m->team);
    pe = m->pes[number];
    if (!pe) {
        pe = make_pe(m, number);
        __atomic_store_n(m->pes + number, pe, __ATOMIC_RELEASE);
    }
    unlock_team(m->team);
    schedule(m, pe, m->now + 1);
    return pe;
}

#include "cycle.h"
#include "bands.h"

u64 fabric_layout(u32 which) {
    const u64 sizes[] = {sizeof(Instruction), sizeof(Site), sizeof(Shape), sizeof(ColorConfig), sizeof(ClassImage), sizeof(Fifo), sizeof(Settings), sizeof(TraceEvent)};
    return which < sizeof(sizes) / sizeof(sizes[0]) ? sizes[which] : 0;
}

static Machine *new_band(const u32 *options, const ClassImage *classes, u32 *class_of, u32 *routing_of,
                    const ColorConfig **routings, const u32 *routing_sizes) {
    Machine *m = calloc(1, sizeof(Machine));
    m->width = options[0];
    m->height = options[1];
    m->is_wse3 = options[2];
    m->format = options[3];
    m->ramp_cycles = options[4];
    m->task_cycles = options[5];
    m->local_task_cycles = options[6];
    m->channel_words = options[7];
    m->order = options[8];
    m->num_pes = m->width * m->height;
    m->classes = classes;
    m->class_of = class_of;
    m->routing_of = routing_of;
    m->routings = routings;
    m->routing_sizes = routing_sizes;
    m->far_next = m->next = m->break_at = NEVER;
    return m;
}

/* options: width, height, is_wse3, format, ramp cycles, task cycles, local task cycles, channel words,
 * order, bands. Returns the first band, which stands for all of them. */
Machine *fabric_new(const u32 *options, const ClassImage *classes, u32 *class_of, u32 *routing_of,
                    const ColorConfig **routings, const u32 *routing_sizes) {
    Team *team = calloc(1, sizeof(Team));
    const u32 height = options[1], most = options[9] < MAX_BANDS ? options[9] : MAX_BANDS;
    team->count = most < 1 ? 1 : most < height ? most : height;
    Pe **pes = calloc((u64)options[0] * height, sizeof(Pe *));
    for (u32 k = 0; k < team->count; k++) {
        Machine *m = new_band(options, classes, class_of, routing_of, routings, routing_sizes);
        const u64 row = (u64)k * height / team->count, end = (u64)(k + 1) * height / team->count;
        m->pes = pes;
        m->band = k;
        m->num_bands = team->count;
        m->team = team;
        m->first = (u32)row * m->width;
        m->span = (u32)(end - row) * m->width;
        make_wheel(m);
        team->bands[k] = m;
    }
    return team->bands[0];
}

static void free_pe(Pe *pe) {
    free(pe->dsrs);
    free(pe->maps);
    free(pe->stack);
    free(pe->line);
}

static void free_band(Machine *m) {
    free_wheel(m);
    for (u32 k = 0; k < 2; k++) {
        free(m->arrivals[k].items);
        free(m->wakeups[0][k].items);
        free(m->wakeups[1][k].items);
    }
    free(m->run.items);
    free(m->move_list);
    free(m->console.bytes);
    free(m->trace);
    free_arena(m);
    free(m);
}

void fabric_free(Machine *m) {
    Team *team = m->team;
    for (u32 k = 0; k < m->num_pes; k++)
        if (m->pes[k]) free_pe(m->pes[k]);
    free(m->pes);
    for (u32 k = 0; k < team->count; k++) free_band(team->bands[k]);
    free(team);
}

static Machine *band_of(Machine *m, u32 number) {
    for (u32 k = 0; k < m->num_bands; k++) {
        Machine *band = m->team->bands[k];
        if (number - band->first < band->span) return band;
    }
    return m;
}

/* Brings to life every PE that does something by itself. */
void fabric_start(Machine *m) {
    for (u32 k = 0; k < m->num_pes; k++) {
        const u32 image = m->class_of[k];
        if (image != NEVER32 && m->classes[image].active) pe_at(band_of(m, k), k);
    }
}

/* For each PE whether it stops at instructions whose number has the bit BREAK; 0 ends it. */
void fabric_watch(Machine *m, const u8 *pes) {
    for (u32 k = 0; k < m->num_bands; k++) m->team->bands[k]->watched = pes;
}

u32 fabric_trace(Machine *m, u64 capacity) { return (u32)begin_trace(m, capacity); }

u8 *fabric_memory(Machine *m, u32 number) {
    Pe *pe = pe_at(band_of(m, number), number);
    return pe->memory;
}

/* Has the PE call a function when its main thread is free, `delay` cycles after the next at the earliest. */
void fabric_call(Machine *all, u32 number, u32 function, const u64 *arguments, u32 count, u32 delay) {
    Machine *m = band_of(all, number);
    Pe *pe = pe_at(m, number);
    pe->has_call = 1;
    pe->command_ready = 0;
    pe->call_function = function;
    for (u32 k = 0; k < count && k < MAX_ARGUMENTS; k++) pe->call_arguments[k] = arguments[k];
    pe->call_at = m->now + 1 + delay;
    schedule(m, pe, pe->call_at);
}

void fabric_stream(Machine *all, u32 number, u32 color, u32 is_in, u32 *data, u32 total, u32 first) {
    Machine *m = band_of(all, number);
    Pe *pe = pe_at(m, number);
    HostPort *port = is_in ? &pe->host_in : &pe->host_out;
    *port = (HostPort){.data = data, .start = m->now + 1, .color = color, .total = total, .first = first};
    if (!total) return;
    if (is_in) pe->has_feed = 1;
    m->num_streams++;
    if (!is_in) pe->host_open |= 1u << color;
    schedule(m, pe, m->now + 1);
}

void fabric_reset_streams(Machine *m) {
    for (u32 k = 0; k < m->num_bands; k++) m->team->bands[k]->num_streams = m->team->bands[k]->num_unblocked = 0;
}

/* Lets time pass while nothing moves: the host's own work. */
void fabric_pass(Machine *m, u64 cycles) {
    for (u32 k = 0; k < m->num_bands; k++)
        if (next_event(m->team->bands[k]) != NEVER) return;
    for (u32 k = 0; k < m->num_bands; k++) go_to(m->team->bands[k], m->team->bands[k]->now + cycles);
}

static u64 value_of(const Machine *m, u32 which) {
    switch (which) {
    case 6: return m->steps;
    case 7: return m->moves;
    case 8: return m->num_touched;
    case 9: return m->num_unblocked;
    case 10: return m->num_streams;
    }
    return 0;
}

static u64 latest_move(const Team *team) {
    u64 latest = 0;
    for (u32 k = 0; k < team->count; k++)
        if (team->bands[k]->last_move > latest) latest = team->bands[k]->last_move;
    return latest;
}

/* The first wavelet that left the rectangle: its PE, then 8 bits each of port and color; all ones
 * where none has. */
static u64 first_left(const Team *team) {
    u64 first = NEVER, cycle = NEVER;
    for (u32 k = 0; k < team->count; k++) {
        const Machine *m = team->bands[k];
        if (!m->num_left || m->left_cycle >= cycle) continue;
        cycle = m->left_cycle;
        first = (u64)m->left_pe << 16 | (u64)m->left_port << 8 | m->left_color;
    }
    return first;
}

static const Note *note_of(const Machine *m, int is_uneven) {
    return is_uneven ? &m->uneven : &m->beyond;
}

/* A part of the first note of a kind: its operand and 1, PE and instruction, or both numbers;
 * 0 where there is none. */
static u64 first_note(const Team *team, int is_uneven, u32 part) {
    const Note *first = 0;
    for (u32 k = 0; k < team->count; k++) {
        const Note *note = note_of(team->bands[k], is_uneven);
        if (note->is_noted && (!first || note->cycle < first->cycle)) first = note;
    }
    if (!first) return 0;
    switch (part) {
    case 0: return (u64)first->operand << 32 | 1;
    case 1: return (u64)first->pe << 32 | first->pc;
    default: return (u64)first->a << 32 | first->b;
    }
}

/* A number of the whole machine; in the high half of `which` the band whose console is meant. */
u64 fabric_value(const Machine *m, u32 which) {
    const Team *team = m->team;
    const Machine *failed = first_fault(team), *band = team->bands[(which >> 16) % team->count];
    u64 sum = 0;
    switch (which & 0xffff) {
    case 0: return m->now;
    case 1: return failed ? failed->fault : 0;
    case 2: return failed ? failed->fault_pe : 0;
    case 3: return failed ? failed->fault_pc : 0;
    case 4: return failed ? failed->fault_a : 0;
    case 5: return failed ? failed->fault_b : 0;
    case 11: return band->console.size;
    case 12: return (u64)band->console.bytes;
    case 13: return latest_move(team);
    case 14: return (u64)m->trace;
    case 15: return m->trace_count;
    case 16: return team->count;
    case 17: return first_left(team);
    case 18: case 19: case 20: return first_note(team, 0, (which & 0xffff) - 18);
    case 22: case 23: case 24: return first_note(team, 1, (which & 0xffff) - 22);
    }
    for (u32 k = 0; k < team->count; k++) sum += value_of(team->bands[k], which);
    return sum;
}

/* One number of a PE, for reports; all ones where the PE has never been touched. */
u64 fabric_inspect(const Machine *m, u32 number, u32 what, u32 index) {
    const Pe *pe = m->pes[number];
    if (!pe) return NEVER;
    const Thread *t = pe->threads + index % NUM_THREADS;
    const Queue *in = pe->inputs + index % NUM_QUEUES, *out = pe->outputs + index % NUM_QUEUES;
    const Route *r = find_route(pe, index % NUM_COLORS);
    switch (what) {
    case 0: return pe->pc;
    case 1: return (u64)pe->is_running | (u64)pe->in_operation << 1 | (u64)pe->has_call << 2 | (u64)pe->command_ready << 3;
    case 2: return pe->active;
    case 3: return pe->blocked_local;
    case 4: return pe->blocked_data;
    case 5: return t->is_active;
    case 6: return t->pc;
    case 7: return t->remaining;
    case 8: return t->since;
    case 9: return (u64)t->cursors[0].kind | (u64)t->cursors[0].queue << 8 | (u64)t->cursors[0].color << 16 |
                   (u64)t->cursors[1].kind << 24 | (u64)t->cursors[1].queue << 32 |
                   (u64)t->cursors[2].kind << 40 | (u64)t->cursors[2].queue << 48;
    case 10: return in->count;
    case 11: return in->count ? in->ring[in->head].color : in->color;
    case 12: return out->count;
    case 13: return out->count ? out->ring[out->head].color : NONE8;
    case 14: return r ? r->count : 0;
    case 15: return r ? (u64)r->rx | (u64)r->tx << 8 | (u64)r->config.teardown << 16 | (u64)r->config.position << 24 : NEVER;
    case 16: return pe->instructions;
    case 17: return pe->busy_cycles;
    case 18: return in->count ? in->ring[in->head].data : 0;
    case 19: return in->count ? in->ring[in->head].control : 0;
    case 20: return pe->wavelets;
    case 21: return pe->memory_size;
    case 22: return pe->host_in.total - pe->host_in.position;
    case 23: return pe->host_out.total - pe->host_out.position;
    case 24: return pe->last_function;
    case 25: return pe->task_started;
    case 26: return pe->image && index < pe->image->num_slots ? pe->frame[index] : 0;
    case 27: return t->op;
    }
    return 0;
}
