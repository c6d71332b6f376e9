/* The simulated fabric: time, PEs as they are touched, and what Python calls. */
#include "core.h"

enum { WHEEL = 256 };
enum { STOP_QUIET, STOP_LIMIT, STOP_FAULT, STOP_UNBLOCKED, STOP_STREAMED };

static void append(List *list, u32 item) {
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? 2 * list->capacity : 16;
        list->items = realloc(list->items, list->capacity * sizeof(u32));
    }
    list->items[list->count++] = item;
}

/* Has a PE look around in a cycle; earlier wishes win, since a PE that looks asks again. */
static void schedule(Machine *m, Pe *pe, u64 cycle) {
    if (cycle >= pe->wake) return;
    pe->wake = cycle;
    if (cycle - m->now < WHEEL) {
        append(m->wheel + cycle % WHEEL, pe->number);
        m->num_in_wheel++;
    } else {
        append(&m->far, pe->number);
        if (cycle < m->far_next) m->far_next = cycle;
    }
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

static void set_up_router(Machine *m, Pe *pe) {
    const u32 routing = m->routing_of[pe->number];
    if (routing == NEVER32) return;
    const ColorConfig *configs = m->routings[routing];
    for (u32 k = 0; k < m->routing_sizes[routing]; k++) {
        Route *r = route_of(pe, configs[k].color);
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
        pe->inputs[k].filtered = 1;
        pe->inputs[k].color = pe->outputs[k].color = NONE8;
        if (!pe->image) continue;
        pe->inputs[k].priority = pe->image->input_priority[k];
        if (pe->image->input_color[k] != NONE8) bind_input(pe, k, pe->image->input_color[k]);
        if (pe->image->output_color[k] == NONE8) continue;
        pe->outputs[k].color = pe->image->output_color[k];
        pe->outputs[k].is_bound = 1;
    }
}

/* WSE-2: a color that reaches the ramp has a queue without asking; the highest free ones serve. */
static void bind_free_queues(Machine *m, Pe *pe) {
    u32 number = NUM_QUEUES;
    for (u32 color = 0; color < NUM_COLORS && !m->is_wse3; color++) {
        const Route *r = pe->routes[color];
        if (!r || pe->queue_for[color] != NONE8) continue;
        const ColorConfig *c = &r->config;
        if (!((c->tx | c->tx1[1] | c->tx1[2] | c->tx1[3]) >> RAMP & 1)) continue;
        while (number > 0 && pe->inputs[number - 1].is_bound) number--;
        if (number == 0) return;
        bind_input(pe, --number, color);
        pe->inputs[number].is_lent = 1;
    }
}

static void set_up_core(Machine *m, Pe *pe) {
    const ClassImage *image = pe->image;
    pe->memory_size = image->num_memory;
    pe->memory = malloc(image->num_memory + 8);
    memcpy(pe->memory, image->memory, image->num_memory);
    pe->frame = malloc(image->num_slots * sizeof(u64));
    memcpy(pe->frame, image->frame, image->num_slots * sizeof(u64));
    if (image->num_fifos) {
        pe->fifos = malloc(image->num_fifos * sizeof(Fifo));
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

static Pe *pe_at(Machine *m, u32 number) {
    if (m->pes[number]) return m->pes[number];
    Pe *pe = calloc(1, sizeof(Pe));
    m->pes[number] = pe;
    m->num_touched++;
    pe->number = number;
    pe->x = number % m->width;
    pe->y = number / m->width;
    pe->wake = NEVER;
    pe->main_priority = 1;
    for (u32 k = 0; k < 4; k++) pe->prng[k] = 0xdeadbeef;
    const u32 image = m->class_of[number];
    if (image != NEVER32) pe->image = m->classes + image;
    set_up_queues(m, pe);
    set_up_router(m, pe);
    if (pe->image) bind_free_queues(m, pe);
    if (pe->image) set_up_core(m, pe);
    schedule(m, pe, m->now + 1);
    return pe;
}

static void collect(Machine *m, u64 now) {
    List *slot = m->wheel + now % WHEEL;
    m->run.count = 0;
    for (u32 k = 0; k < slot->count; k++) {
        Pe *pe = m->pes[slot->items[k]];
        if (pe->wake != now) continue;
        pe->wake = NEVER;
        append(&m->run, pe->number);
    }
    m->num_in_wheel -= slot->count;
    slot->count = 0;
}

static void simulate_cycle(Machine *m) {
    const u64 now = m->now;
    collect(m, now);
    m->num_moves = 0;
    for (u32 k = 0; k < m->run.count; k++) decide(m, m->pes[m->run.items[k]], now);
    for (u32 k = 0; k < m->num_moves; k++) commit(m, m->move_list + k, now);
    for (u32 k = 0; k < m->run.count; k++) {
        Pe *pe = m->pes[m->run.items[k]];
        if (pe->image) core_step(m, pe, now);
    }
}

/* Goes to the next cycle in which a PE looks around; 0 if there is none up to the limit. */
static int advance(Machine *m, u64 limit) {
    for (;;) {
        if (m->num_in_wheel == 0) {
            if (m->far_next == NEVER) return 0;
            if (m->far_next - m->now >= WHEEL) {
                if (m->far_next >= limit) return 0;
                m->now = m->far_next - 1;
            }
            bring_near(m);
            if (m->num_in_wheel == 0) return 0;
        }
        if (m->now + 1 >= limit) return 0;
        m->now++;
        if (m->far_next != NEVER && m->far_next - m->now < WHEEL) bring_near(m);
        if (m->wheel[m->now % WHEEL].count) return 1;
    }
}

static int is_pending(const Machine *m) { return m->num_in_wheel || m->far_next != NEVER; }

/* Simulates until nothing happens any more, the limit, a fault, or what `stop` waits for:
 * 1: so many PEs have let the next command start; 2: the host's streams are done. After so much
 * work it returns as at the limit, so that whoever called can look around. */
u32 fabric_run(Machine *m, u64 limit, u32 stop, u64 target, u64 work) {
    const u64 end = m->steps + work;
    for (;;) {
        if (m->steps >= end) return STOP_LIMIT;
        if (m->fault) return STOP_FAULT;
        if (stop == 1 && m->num_unblocked >= target) return STOP_UNBLOCKED;
        if (stop == 2 && m->num_streams == 0) return STOP_STREAMED;
        if (!advance(m, limit)) return is_pending(m) ? STOP_LIMIT : STOP_QUIET;
        simulate_cycle(m);
    }
}

u64 fabric_layout(u32 which) {
    const u64 sizes[] = {sizeof(Instruction), sizeof(Site), sizeof(Shape), sizeof(ColorConfig), sizeof(ClassImage), sizeof(Fifo), sizeof(Settings), sizeof(TraceEvent)};
    return which < sizeof(sizes) / sizeof(sizes[0]) ? sizes[which] : 0;
}

/* options: width, height, is_wse3, format, ramp cycles, task cycles, channel words, order. */
Machine *fabric_new(const u32 *options, const ClassImage *classes, u32 *class_of, u32 *routing_of,
                    const ColorConfig **routings, const u32 *routing_sizes) {
    Machine *m = calloc(1, sizeof(Machine));
    m->width = options[0];
    m->height = options[1];
    m->is_wse3 = options[2];
    m->format = options[3];
    m->ramp_cycles = options[4];
    m->task_cycles = options[5];
    m->channel_words = options[6];
    m->order = options[7];
    m->num_pes = m->width * m->height;
    m->pes = calloc(m->num_pes, sizeof(Pe *));
    m->classes = classes;
    m->class_of = class_of;
    m->routing_of = routing_of;
    m->routings = routings;
    m->routing_sizes = routing_sizes;
    m->wheel = calloc(WHEEL, sizeof(List));
    m->far_next = NEVER;
    return m;
}

static void free_pe(Pe *pe) {
    for (u32 k = 0; k < NUM_COLORS; k++) free(pe->routes[k]);
    free(pe->memory);
    free(pe->frame);
    free(pe->fifos);
    free(pe->dsrs);
    free(pe->maps);
    free(pe->stack);
    free(pe->line);
    free(pe->configs);
    free(pe);
}

void fabric_free(Machine *m) {
    for (u32 k = 0; k < m->num_pes; k++)
        if (m->pes[k]) free_pe(m->pes[k]);
    for (u32 k = 0; k < WHEEL; k++) free(m->wheel[k].items);
    free(m->wheel);
    free(m->far.items);
    free(m->run.items);
    free(m->move_list);
    free(m->console.bytes);
    free(m->trace);
    free(m->pes);
    free(m);
}

/* Brings to life every PE that does something by itself. */
void fabric_start(Machine *m) {
    for (u32 k = 0; k < m->num_pes; k++) {
        const u32 image = m->class_of[k];
        if (image != NEVER32 && m->classes[image].active) pe_at(m, k);
    }
}

u32 fabric_trace(Machine *m, u64 capacity) { return (u32)begin_trace(m, capacity); }

u8 *fabric_memory(Machine *m, u32 number) {
    Pe *pe = pe_at(m, number);
    return pe->memory;
}

/* Has the PE call a function when its main thread is free. */
void fabric_call(Machine *m, u32 number, u32 function, const u32 *arguments, u32 count) {
    Pe *pe = pe_at(m, number);
    pe->has_call = 1;
    pe->command_ready = 0;
    pe->call_function = function;
    for (u32 k = 0; k < count && k < 16; k++) pe->call_arguments[k] = arguments[k];
    schedule(m, pe, m->now + 1);
}

void fabric_stream(Machine *m, u32 number, u32 color, u32 is_in, u32 *data, u32 total, u32 first) {
    Pe *pe = pe_at(m, number);
    HostPort *port = is_in ? &pe->host_in : &pe->host_out;
    *port = (HostPort){.data = data, .start = m->now + 1, .color = color, .total = total, .first = first};
    if (!total) return;
    m->num_streams++;
    if (!is_in) pe->host_open |= 1u << color;
    schedule(m, pe, m->now + 1);
}

void fabric_reset_streams(Machine *m) { m->num_streams = 0; m->num_unblocked = 0; }

/* Lets time pass while nothing moves: the host's own work. */
void fabric_pass(Machine *m, u64 cycles) {
    if (!is_pending(m)) m->now += cycles;
}

u64 fabric_value(const Machine *m, u32 which) {
    switch (which) {
    case 0: return m->now;
    case 1: return m->fault;
    case 2: return m->fault_pe;
    case 3: return m->fault_pc;
    case 4: return m->fault_a;
    case 5: return m->fault_b;
    case 6: return m->steps;
    case 7: return m->moves;
    case 8: return m->num_touched;
    case 9: return m->num_unblocked;
    case 10: return m->num_streams;
    case 11: return m->console.size;
    case 12: return (u64)m->console.bytes;
    case 13: return m->last_move;
    case 14: return (u64)m->trace;
    case 15: return m->trace_count;
    }
    return 0;
}

/* One number of a PE, for reports; all ones where the PE has never been touched. */
u64 fabric_inspect(const Machine *m, u32 number, u32 what, u32 index) {
    const Pe *pe = m->pes[number];
    if (!pe) return NEVER;
    const Thread *t = pe->threads + index % NUM_THREADS;
    const Queue *in = pe->inputs + index % NUM_QUEUES, *out = pe->outputs + index % NUM_QUEUES;
    const Route *r = pe->routes[index % NUM_COLORS];
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
    case 11: return in->color;
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
    }
    return 0;
}
