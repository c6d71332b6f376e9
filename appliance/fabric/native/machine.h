/* What a processing element, its router and the machine are made of.
 *
 * Records that Python fills (Instruction, OperandSite, Site, Shape, ColorConfig, ClassImage) have
 * fixed sizes; `fabric_layout` reports them and the loader compares them with its own.
 */
#ifndef FABRIC_MACHINE_H
#define FABRIC_MACHINE_H

#include "numerics.h"
#include "numbers.h" /* generated from appliance/fabric/bytecode.py */

void *malloc(u64 size);
void *calloc(u64 count, u64 size);
void *realloc(void *old, u64 size);
void free(void *block);
void *memcpy(void *to, const void *from, u64 size);
void *memmove(void *to, const void *from, u64 size);
void *memset(void *to, int value, u64 size);

enum {
    NUM_COLORS = 24,
    NUM_QUEUES = 8,
    WSE2_OUTPUTS = 6, /* queues that it has to send */
    NUM_TASK_IDS = 64,
    NUM_THREADS = 9, /* microthreads 0 to 7 and the main thread's own operation */
    MAIN_THREAD = 8,
    NUM_DSRS = 48,
    DSR_FILES = 3,
    RING = 16, /* most entries of a queue: greatest depth, ramp latency, and a margin */
    LINE = 64, /* bytes of a cache line */
    MAP_DEPTH = 4,
    MAP_INPUTS = 8,
    NONE8 = 0xff,
    NEVER32 = 0xffffffff,
    ENDLESS = 0x7fff,
};
#define NEVER (~0ull)

enum { WEST, EAST, SOUTH, NORTH, RAMP, HOST, NUM_PORTS };

typedef struct Instruction {
    u16 op, a, b, c;
    i32 imm, cost;
} Instruction;

typedef struct OperandSite {
    u8 kind;   /* OperandKind */
    u8 file;   /* DSR: 0 dest, 1 src0, 2 src1 */
    u16 slot;  /* frame slot; DSR or FIFO number */
} OperandSite;

typedef struct Settings {
    u8 asynchronous;
    u8 completion; /* 0 none, 1 activate, 2 unblock */
    u8 target_kind;
    u8 control_terminate;
    u8 control_action; /* as completion */
    u8 control_kind;
    u8 priority;    /* 0 default, 1 low, 2 medium, 3 high */
    u8 microthread; /* NONE8: not given */
    u16 target_slot, control_slot, index_slot; /* 0xffff: none */
    u16 position_high;
} Settings;

typedef struct Site {
    u16 op; /* VECTOR_OPS; for MAP the number of inputs */
    u16 cost;
    u32 position; /* program counter of the instruction, for messages */
    OperandSite operands[MAP_INPUTS + 1];
    u8 widths[MAP_INPUTS + 1]; /* MAP: bytes of each element */
    u8 steps[MAP_INPUTS + 1];
    u8 is_signed[MAP_INPUTS + 1];
    u8 file, number, save_address, single_step; /* LOAD_DSR */
    u8 simd; /* elements per cycle */
    Settings settings;
} Site;

typedef struct Shape { /* SHAPED: innermost first. CIRCULAR: base, wraparound, extent. */
    u16 rank, extents[4];
    i16 strides[4]; /* bytes */
    u16 base, wrap, reserved[5];
} Shape;

/* A wavelet that waits. Small, so that what a cycle touches of a queue lies in one cache line. */
typedef struct Entry {
    u32 ready; /* low half of the cycle from which it may go on: see is_due */
    u32 data;
    u8 control, color, advances, pad; /* advances: the sender's switch, behind it */
} Entry;

typedef struct Queue {
    _Alignas(LINE) u8 head;
    u8 count, depth, size; /* size: entries of the ring in use */
    u8 color, is_bound, user, filtered, flushing;
    u8 priority, is_lent, pad; /* lent: bound though the program did not ask */
    Entry ring[RING];
} Queue;

typedef struct Cursor {
    u8 kind; /* DsdKind, or one of the two below */
    u8 queue, color, flags;
    u8 element_bytes, op_bytes, dsr, file; /* strides count elements of the operation's width */
    u16 index[4];
    i32 stride;
    u32 address, remaining, value;
    const Shape *shape;
} Cursor;
enum { CURSOR_SCALAR = 8, CURSOR_PLACE = 9, CURSOR_FIFO = 10 };
enum { OUT_CONTROL = 1, OUT_INDEX = 2, OUT_ADVANCE = 4, OUT_ZERO0 = 8, OUT_ZERO1 = 16, OUT_TRANSFORM = 32 };
enum { IN_TRANSFORM = OUT_TRANSFORM }; /* a control wavelet goes on as data, and comes from it, by its two highest bits */
enum { IN_STOPS = 64, IN_ITS_COLOR = 128 }; /* at a control wavelet; whether it leaves other colors */

/* What the end of an operation activates or unblocks. */
typedef struct Ending {
    u8 action, kind;
    u16 target;
} Ending;
enum { NUM_ENDINGS = 4 }; /* of the operation itself, and of each DSR among its operands */

typedef struct Thread {
    _Alignas(LINE) u8 is_active;
    u8 op, priority, is_accumulating;
    u8 has_index, pad[3];
    Ending endings[NUM_ENDINGS];
    Ending controls[2]; /* what a control wavelet from source 0 or 1 causes instead */
    u32 pc;
    u32 remaining, done, third, index, result;
    u64 since; /* cycle of its last progress */
    u64 ready; /* its first element moves when it has been set up */
    Cursor cursors[3]; /* destination, source 0, source 1 */
} Thread;

typedef struct Dsr {
    u64 value;
    Settings settings;
    u16 target, control_target;
    u8 save_address, single_step, is_loaded, pad[5];
} Dsr;

typedef struct Fifo {
    u32 address, capacity, head, count;
    u32 read_length, write_length; /* elements of an operation; 0: what its other operands say */
    u8 element_bytes, activate_pop, activate_push, empty_action, full_action, was_full, was_empty, pad;
} Fifo;

typedef struct MapState {
    u32 site, pad;
    Cursor cursors[MAP_INPUTS + 1];
} MapState;

typedef struct Filter {
    u8 is_active, kind, count_data, count_control, filter_control, has_limit2, stage, pad;
    u32 counter, init_counter, max_counter, limit1, limit2, min_index, max_index, reserved;
} Filter;

typedef struct ColorConfig {
    u8 color, is_used, rx, tx;
    u8 rx1[4], tx1[4]; /* by position; entry 0 is not used: rx and tx are position 0 */
    u8 valid, position, ring, pop_mode;
    u8 swap_x, swap_y, teardown, has_switch;
    Filter filter;
} ColorConfig;

typedef struct Route { /* what every wavelet needs lies in the first cache line */
    _Alignas(LINE) u64 arrival;
    Entry buffer[2];
    u8 rx, tx; /* of the current position */
    u8 count, barrier, arrival_ports, pad[3];
    ColorConfig config;
} Route;

typedef struct ClassImage {
    const Instruction *code;
    const u64 *frame;
    const u8 *memory;
    const Site *sites;
    const Shape *shapes;
    const u32 *functions; /* per function: entry, first parameter slot, return slot, parameters */
    const u8 *fifos;      /* array of Fifo */
    const u32 *local_tasks, *data_tasks, *control_tasks; /* entry and first parameter, per id */
    const u32 *data_widths;  /* per id: bits of each argument, 8 bits each */
    const u32 *control_parameters;
    const u32 *handlers; /* per color: teardown; then per input queue, output queue: flushed */
    u32 num_code, num_slots, num_memory, num_functions, num_fifos, num_shapes;
    u64 active, blocked_local, blocked_data, blocked_color, blocked_queue;
    u8 input_color[NUM_QUEUES], output_color[NUM_QUEUES], input_priority[NUM_QUEUES];
    u8 control_table[NUM_QUEUES];
    u32 start; /* entry of code that runs first (DSR loads), or NEVER32 */
    u32 reserved;
    u8 queue_of_color[NUM_COLORS]; /* several colors may go to one queue of WSE-2 */
    const u32 *limits; /* of variables, by address: start << 16 | bytes; none where nothing is checked */
    u32 num_limits, unused;
} ClassImage;

typedef struct HostPort {
    u32 *data;
    u64 start; /* cycle in which the stream begins */
    u32 color, total, position, first; /* first: words of the stream before this PE's */
} HostPort;

typedef struct Pe {
    /* what every cycle of an active PE reads: three cache lines */
    _Alignas(LINE) u64 wake; /* the cycle in which it is looked at next */
    const ClassImage *image;
    u8 *memory;
    u64 *frame;
    u32 number;
    u16 x, y;
    u32 memory_size;
    u32 buffered; /* colors with a wavelet in the router */
    u8 next_color, next_output;
    u8 in_mask, out_mask; /* queues that hold a wavelet */
    u8 thread_mask, starting, has_swap, next_thread; /* microthreads at work, those being set up; whether a color swaps here */
    u8 is_running, in_operation, has_failed, main_priority;
    u8 has_call, last_task_id, has_feed, pad; /* feed: the host sends a stream */
    u64 busy_until, slot_free, busy_cycles;
    u64 active, blocked_local, blocked_threads;
    u32 is_flushing;
    u32 teardown_pending, flush_pending; /* colors; queues: input bits 0-7, output bits 8-15 */
    u32 host_open; /* colors that the host drains here */
    Route *routes;
    u8 route_at[NUM_COLORS]; /* which of `routes` is a color's, or NONE8 */
    u8 queue_for[NUM_COLORS]; /* input queue bound to a color */
    u64 wavelets;
    Queue inputs[NUM_QUEUES], outputs[NUM_QUEUES];
    Thread threads[NUM_THREADS];
    HostPort host_in, host_out;
    u32 pc;
    u32 teardown_seen; /* colors whose handler has been started */
    u8 num_routes, route_capacity, carry, map_depth;
    u64 instructions;
    u64 blocked_data, blocked_color, blocked_queue, high_priority;
    Dsr *dsrs; /* DSR_FILES files of NUM_DSRS; allocated at the first load */
    MapState *maps;
    Fifo *fifos;
    /* what few cycles read */
    u8 command_ready, is_counting, pad2[6];
    u64 task_started;
    u32 call_function, last_function; /* the one that waits to begin; that the last task or launch was */
    u64 call_at, call_arguments[MAX_ARGUMENTS]; /* from this cycle on; extended as registers are */
    u32 stack_top, stack_size;
    u64 *stack;
    u64 timer_start, timer_value;
    u32 prng[4];
    u32 active_prng, line_length, line_capacity;
    char *line;
} Pe;

typedef struct List {
    u32 *items;
    u32 count, capacity;
} List;

typedef struct Console { /* records: cycle u64, PE u32, length u32, bytes */
    u8 *bytes;
    u64 size, capacity;
} Console;

typedef struct TraceEvent {
    u64 cycle;
    u32 pe, a, b; /* what they mean: trace.h */
    u8 kind, color, ports, more;
} TraceEvent;

/* A wavelet on its way into another band. */
typedef struct Arrival {
    u32 pe;
    u8 color, port, pad[2];
    Entry entry;
} Arrival;

typedef struct Arrivals {
    Arrival *items;
    u32 count, capacity;
} Arrivals;

enum { ABOVE, BELOW };

/* A band of rows with all that its thread writes. What it does to PEs of the bands above and below
 * goes through lists: `arrivals` of this cycle, `wakeups` to be looked at in the next one. */
/* What a checked program is told of its first operation that is likely not what was meant. */
typedef struct Note {
    u64 cycle;
    u32 pe, pc, a, b;
    u32 operand, is_noted;
} Note;

typedef struct Machine {
    u32 first, span; /* PEs of this band */
    u32 band, num_bands;
    struct Team *team;
    Arrivals arrivals[2];
    List wakeups[2][2]; /* by parity of `turn`, and side */
    u64 turn;
    u64 next, num_active, last_active; /* the cycle of its next wakeup, PEs of this cycle, its last busy cycle */
    u32 width, height, is_wse3, format, ramp_cycles, memory_bytes;
    u32 task_cycles, local_task_cycles, channel_words, pad1;
    Pe **pes;
    u32 *class_of, *routing_of;
    const ClassImage *classes;
    const ColorConfig **routings;
    const u32 *routing_sizes;
    u64 now;
    u32 num_pes, num_touched;
    /* when PEs look around: bits for the next cycle, a wheel of lists by cycle, and what lies beyond */
    u64 *soon, *soon_words; /* a bit for each PE of the band; one for each word of those */
    u32 num_soon, pad2;
    List *wheel;
    List far, run;
    u64 far_next;
    u32 num_in_wheel, fault;
    u32 fault_pe, fault_pc, fault_a, fault_b;
    u64 fault_cycle;
    struct Move *move_list;
    u32 num_moves, move_capacity;
    u32 top, bottom, num_edge_moves; /* cycle.h: parts of `run` */
    u64 num_streams; /* PEs whose host stream is not done */
    u64 steps, moves; /* PE-cycles simulated, wavelets moved */
    u64 last_move;
    u64 num_left, left_cycle; /* wavelets that left the rectangle; when and where the first did */
    Note beyond; /* the first operation that went beyond its array: the byte, and its variable */
    Note uneven; /* the first whose operands differ in length: how many it takes, and an operand's */
    u32 left_pe;
    u8 left_port, left_color, pad3[2];
    Console console;
    u64 num_unblocked;
    u32 order; /* 0: tasks take turns upwards; 1: downwards, to find programs that depend on it */
    u32 pad;
    const u8 *watched; /* for each PE, whether it stops at breakpoints; 0: nobody debugs */
    u64 break_at; /* the cycle in which the first PE comes to one */
    TraceEvent *trace; /* 0: nobody asked for one */
    u64 trace_capacity, trace_count;
    u8 *arena;
    u64 arena_left;
    void **chunks;
    u64 num_chunks;
} Machine;

#endif
