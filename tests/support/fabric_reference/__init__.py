"""The fabric in plain Python: its rules one after another, slowly. The kernel's specification.

It reads the same byte code and the same routes as the kernel (`appliance/fabric/native`) and shares
none of its mechanisms: every PE is looked at in every cycle, nothing is skipped, woken or batched.
Tests run both on random programs and compare their whole state cycle for cycle.

A cycle:

1. Every router says which wavelets it moves, all by what buffers, queues and routes were as the
   cycle began (`router.Router.decide`).
2. They move: from a buffer over up to five links at once, from an output queue into the router.
   A control wavelet's command takes effect where it leaves.
3. Every core flushes queues that are empty, then issues one instruction: microthreads of a priority
   above the main thread's first, then the main thread, then the others (`core.Core.step`).

arithmetic  what one element of a DSD operation gives
wavelets    wavelets, control words, queues
filters     what a filter between router and core lets through
router      routes, switches, teardown, color swap, back-pressure
operands    DSDs, DSRs, FIFOs as an operation walks over them
threads     DSD operations, element by element
code        scalar instructions
services    what libraries ask of the machine
core        choice of tasks, issue
machine     the grid, the cycle, what the host does
"""
