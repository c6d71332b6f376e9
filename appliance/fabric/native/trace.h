/* What happened, in a ring that keeps the latest events; without one, hooks cost one test.
 *
 * `appliance/fabric/tracing` reads the records. What `a`, `b` and `ports` are, by kind:
 *   HOP       leaves a router: data, cycles waited there, ports that it leaves through
 *   SEND      ramp to router: data, cycles waited in the output queue, its queue
 *   TAKE      the core takes it: data, cycles waited in the input queue, its queue
 *   HOST_IN   host to input queue: data, -, queue
 *   HOST_OUT  output queue to host: data, cycles waited, queue
 *   TASK      the main thread begins: program counter, kind << 8 | id
 *   TASK_END  it has nothing to run
 *   START     an operation that may wait: program counter, elements, thread
 *   FINISH    it is done: program counter, elements moved, thread
 *   VECTOR    an operation over memory: program counter, cycles
 * `more`: how many stay behind in the buffer or queue; bit 7 marks a control wavelet.
 */
#ifndef FABRIC_TRACE_H
#define FABRIC_TRACE_H

#include "machine.h"

__attribute__((noinline)) static void record(Machine *m, TraceEvent event) {
    m->trace[m->trace_count++ % m->trace_capacity] = event;
}

#define TRACE(m, ...) \
    do { if (UNLIKELY((m)->trace != 0)) record(m, (TraceEvent){__VA_ARGS__}); } while (0)

INLINE u8 trace_more(u32 left, u32 control) { return (u8)((left & 127) | (control ? 128 : 0)); }

/* Keeps the latest events from now on; 0 without the memory for so many. */
static int begin_trace(Machine *m, u64 capacity) {
    m->trace = malloc(capacity * sizeof(TraceEvent));
    m->trace_capacity = m->trace ? capacity : 0;
    return m->trace != 0;
}

#endif
