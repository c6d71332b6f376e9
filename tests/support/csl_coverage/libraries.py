# ruff: noqa: E501 - rows of a table
"""Libraries."""

from tests.support.csl_coverage.rows import Row

PAGE = "libraries"
VECTORS = """
const o = @import_module("<dsd_ops>");
var F = [3]f32{ 1.0, -2.0, 4.0 }; var G = @zeros([3]f32); var H = [3]f16{ 1.0, -2.0, 4.0 }; var K = @zeros([3]f16); var I = [3]i16{ 1, -2, 4 }; var J = @zeros([3]i16); var L = [3]u32{ 70000, 2, 3 }; var M = @zeros([3]u32);
const f = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> F[i] }); const g = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> G[i] }); const h = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> H[i] }); const k = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> K[i] });
const ii = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> I[i] }); const j = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> J[i] }); const l = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> L[i] }); const m = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> M[i] });
var s: f32 = 0.0; var t: f16 = 0.0;
"""
ARENA = 'const mem = @import_module("<malloc>", .{ .buffer_num_words = 16 });\n'
TILE = 'const c = @import_module("<tile_config>");\n'
ROUTES = """
const r = @get_color(3); const iq = @get_input_queue(2); const oq = @get_output_queue(2); const done = @get_local_task_id(10);
comptime { @initialize_queue(iq, .{ .color = r }); if (@is_arch("wse3")) { @initialize_queue(oq, .{ .color = r }); } @bind_local_task(finish, done); }
const o = if (@is_arch("wse3")) @get_dsd(fabout_dsd, .{ .extent = 1, .output_queue = oq }) else @get_dsd(fabout_dsd, .{ .extent = 1, .output_queue = oq, .fabric_color = r });
var word = @zeros([1]u32); const w = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{1} -> word[k] }); const i = @get_dsd(fabin_dsd, .{ .extent = 1, .input_queue = iq });
task finish() void { out[0] = @as(i32, word[0]); sys.unblock_cmd_stream(); }
"""
LOOP = " @mov32(w, i, .{ .async = true, .activate = done }); @mov32(o, @as(u32, 7));"
PRIORITIES = """
const a = @get_local_task_id(10); const b = @get_local_task_id(11); var turn: i32 = 0;
task one() void { turn += 1; out[0] = turn; ended(); } task two() void { turn += 1; out[1] = turn; ended(); }
fn ended() void { if (turn == 2) { sys.unblock_cmd_stream(); } }
comptime { @bind_local_task(one, a); @bind_local_task(two, b); c.task_priority.set_task_priority(b); c.main_thread_priority.update_main_thread_priority(c.main_thread_priority.level.HIGH); }
"""
ROWS = (
    Row(
        page=PAGE,
        says="<complex>: numbers of any float type",
        top='const c = @import_module("<complex>"); var re: f32 = 3.0; var x: c.complex_64 = .{ .real = 0.0, .imag = 0.0 };',
        body="x = c.get_complex(re, @as(f32, 4.0)); const y = c.multiply_complex(x, x); out[0] = @as(i32, y.real); out[1] = @as(i32, y.imag); const z = c.subtract_complex_64(y, c.add_complex_64(x, x)); out[2] = @as(i32, z.real); out[3] = @as(i32, z.imag);",
        out=(-7, 24, -13, 16),
    ),
    Row(
        page=PAGE,
        says="<complex>: numbers of 16 bits",
        top='const c = @import_module("<complex>"); var re: f16 = 3.0;',
        body="const x = c.get_complex_32(re, 1.0); const y = c.multiply_complex_32(x, c.get_complex(re, @as(f16, 2.0))); out[0] = @as(i32, y.real); out[1] = @as(i32, y.imag); const T = c.complex(f16); const z = T { .real = 1.0, .imag = 2.0 }; out[2] = @as(i32, z.imag);",
        out=(7, 9, 2),
    ),
    Row(
        page=PAGE,
        says="<data_utils>: halves of 32 and 64 bits",
        top='const d = @import_module("<data_utils>"); var x: u32 = 0x12345678; var y: f32 = 1.0; var z: u64 = 0x123456789abcdef0; var n: i32 = -2;',
        body="out[0] = d.lo16(x); out[1] = d.hi16(x); out[2] = d.hi16(y); out[3] = @bitcast(i32, d.lo32(z)); out[4] = @bitcast(i32, d.hi32(z)); out[5] = d.lo16(n); out[6] = d.hi16(n);",
        out=(0x5678, 0x1234, 0x3F80, -0x65432110, 0x12345678, 0xFFFE, 0xFFFF),
    ),
    Row(
        page=PAGE,
        says="<data_utils>: a number of another width is refused",
        top='const d = @import_module("<data_utils>"); var x: u16 = 1;',
        body="out[0] = $$d.lo16(x);",
        refused="the number has another width",
    ),
    Row(
        page=PAGE,
        says="<empty>: what is imported instead of nothing",
        top='param stage: u16 = 0; const cache = @import_module(if (stage == 0) "<empty>" else "none.csl");',
        body="out[0] = 1;",
        out=(1,),
    ),
    Row(
        page=PAGE,
        says="<dsd_ops>: moves by the type of the data",
        top=VECTORS,
        body="_ = o.mov(f32, g, f, .{}); _ = o.mov(f16, k, h, .{}); _ = o.mov(i16, j, ii, .{}); _ = o.mov(u32, m, l, .{}); out[0] = @as(i32, G[2]); out[1] = @as(i32, K[1]); out[2] = J[1]; out[3] = @as(i32, M[0]); o.mov(f32, &s, f, .{}); out[4] = @as(i32, s);",
        out=(4, -2, -2, 70000, 4),
    ),
    Row(
        page=PAGE,
        says="<dsd_ops>: conversions",
        top=VECTORS,
        body="o.convert(f16, f32, k, f, .{}); out[0] = @as(i32, K[1]); o.convert(f32, f16, g, h, .{}); out[1] = @as(i32, G[2]); o.convert(i16, f32, j, f, .{}); out[2] = J[1]; o.convert(f32, i16, g, ii, .{}); out[3] = @as(i32, G[0]); o.convert(i16, f16, j, h, .{}); out[4] = J[2]; o.convert(f16, i16, k, ii, .{}); out[5] = @as(i32, K[1]);",
        out=(-2, 4, -2, 1, 4, -2),
    ),
    Row(
        page=PAGE,
        says="<dsd_ops>: arithmetic",
        top=VECTORS,
        body="o.add(f32, f32, g, f, 1.0, .{}); out[0] = @as(i32, G[1]); o.sub(f32, g, f, f, .{}); out[1] = @as(i32, G[2]); o.mul(f16, k, h, h, .{}); out[2] = @as(i32, K[2]); o.fmac(f32, f32, g, f, f, 2.0, .{}); out[3] = @as(i32, G[2]); o.neg(f32, g, f, .{}); out[4] = @as(i32, G[2]); o.abs(f16, k, h, .{}); out[5] = @as(i32, K[1]); o.max(f32, g, f, 0.0, .{}); out[6] = @as(i32, G[1]); o.add(u16, u16, j, ii, 5, .{}); out[7] = J[1];",
        out=(-1, 0, 16, 12, -4, 2, 0, 3),
    ),
    Row(
        page=PAGE,
        says="<dsd_ops>: mixed widths, normalization and scaling",
        top=VECTORS,
        body="o.add(f32, f16, g, h, f, .{}); out[0] = @as(i32, G[2]); o.fmac(f32, f16, g, f, h, 2.0, .{}); out[1] = @as(i32, G[2]); o.scale(f32, &s, 3.0, 2, .{}); out[2] = @as(i32, s); o.scale(f16, &t, 3.0, -1, .{}); out[3] = @as(i32, t * 2.0); o.norm(f32, &s, 12.0, .{}); out[4] = @as(i32, s * 4.0);",
        out=(8, 12, 12, 3, 6),
    ),
    Row(
        page=PAGE,
        says="<dsd_ops>: a type without the operation is refused",
        top=VECTORS,
        body="$$o.mul(i16, j, ii, ii, .{});",
        refused="mul has no operation for T",
    ),
    Row(
        page=PAGE,
        says="<malloc>: objects one behind the other",
        top=ARENA,
        body="const a = mem.malloc_u16(3); const b = mem.malloc(f32, 2); const c = mem.malloc_i16(1); a[0] = 1; a[2] = 2; b[0] = 3.0; b[1] = 4.0; c[0] = 5; out[0] = a[0] + a[2]; out[1] = @as(i32, b[0] + b[1]); out[2] = c[0]; out[3] = @bitcast(u16, b) - @bitcast(u16, a); out[4] = @bitcast(u16, c) - @bitcast(u16, b);",
        out=(3, 7, 5, 8, 8),
    ),
    Row(
        page=PAGE,
        says="<malloc>: whether there is room, and free",
        top=ARENA,
        body="if (mem.has_enough_words(16)) { out[0] = 1; } if (mem.has_enough_words(17)) { out[1] = 1; } _ = mem.malloc_u32(7); if (mem.has_enough_double_words(1)) { out[2] = 1; } if (mem.has_enough_double_words(2)) { out[3] = 1; } if (mem.has_enough_space(f16, 3)) { out[4] = 1; } mem.free(); if (mem.has_enough_space(f32, 8)) { out[5] = 1; }",
        out=(1, 0, 1, 0, 0, 1),
    ),
    Row(
        page=PAGE,
        says="<timer>: elapsed cycles of several timers",
        top='const t = @import_module("<timer>", .{ .timerCount = 2 }); var e: t.timerType = @zeros(t.timerType); var a = @zeros([100]f32); const d = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{100} -> a[i] });',
        body="t.start(0); t.start(1); @fmovs(d, 1.0); t.stop(1); t.elapsed(1, &e); if (e[0] >= 50 and e[0] < 1000 and e[1] == 0) { out[0] = 1; } const short = e[0]; @fmovs(d, 2.0); t.stop(0); t.elapsed(0, &e); if (e[0] > short) { out[1] = 1; }",
        out=(1, 1),
    ),
    Row(
        page=PAGE,
        says="<string>: numbers and formats at compile time",
        top='const s = @import_module("<string>"); const a = s.comptime_int_to_string(-120); const b = s.fmt("{d}-{X}-{b} {{x} {s}", .{ 5, @as(u16, 42), @as(u8, 5), "y" });\ncomptime { @comptime_assert(a == "-120"); @comptime_assert(b == "5-002A-00000101 {x} y"); @comptime_assert(s.fmt("{X}", .{ @as(i16, -1) }) == "FFFF"); @comptime_assert(s.comptime_int_to_string(0) == "0"); }',
        body="out[0] = @strlen(a);",
        out=(4,),
    ),
    Row(
        page=PAGE,
        says="<string>: a float has no form",
        top='const s = @import_module("<string>"); const a = $$s.fmt("{d}", .{ 1.5 });',
        body="out[0] = @strlen(a);",
        refused="fmt takes integers, bools and strings",
    ),
    Row(
        page=PAGE,
        says="<types>: kinds of types",
        top='const t = @import_module("<types>"); const E = enum { A }; const S = struct { a: u16 };\ncomptime { @comptime_assert(t.is_unsigned_int(u7) and !t.is_unsigned_int(i16) and t.is_signed_int(i64) and t.is_float(f16) and !t.is_float(i16) and t.is_numeric(comptime_int) and t.is_numeric(f32) and !t.is_numeric(bool)); @comptime_assert(t.is_dsd(mem1d_dsd) and !t.is_dsd(dsr_dest) and t.is_dsr(dsr_src1) and t.is_enum(E) and t.is_struct(S) and t.is_array([2]u16) and t.is_pointer([*]u16)); }',
        body="out[0] = 1;",
        out=(1,),
    ),
    Row(
        page=PAGE,
        says="<types>: sizes",
        top='const t = @import_module("<types>"); const S = struct { a: u16, b: f32 };',
        body="out[0] = t.word_size_of(f32); out[1] = t.byte_size_of(i16); out[2] = t.bit_size_of(u7); out[3] = t.word_size_of([3]u32); out[4] = t.bit_size_of(f16); out[5] = t.byte_size_of(S);",
        out=(2, 2, 7, 6, 16, 8),
    ),
    Row(
        page=PAGE,
        says="<types>: what is not in memory has no size",
        top='const t = @import_module("<types>"); const a = $$t.byte_size_of(comptime_int);',
        body="out[0] = a;",
        refused="a value of type 'comptime_int' is not in memory",
    ),
    Row(
        page=PAGE,
        says="<types>: what is not in memory has no width",
        top='const t = @import_module("<types>"); const a = $$t.bit_size_of(comptime_string);',
        body="out[0] = a;",
        refused="a value of type 'comptime_string' has no width",
    ),
    Row(
        page=PAGE,
        says="<types>: its builtin is not for programs",
        top="const a = $$@type_kind(u16);",
        body="out[0] = @strlen(a);",
        refused="import <types>",
    ),
    Row(
        page=PAGE,
        says="<tile_config>: constants and the place on the fabric",
        top=TILE,
        body="out[0] = c.get_fabric_coord(c.fabric_coord.X); out[1] = c.get_fabric_coord(c.fabric_coord.Y); out[2] = c.word_size; const r: c.reg_type = 3; const d: c.double_reg_type = 70000; out[3] = @as(i32, d) + r; out[4] = @strlen(c.target_name); out[5] = c.FIFO_MIN_ALIGNMENT;",
        out=(4, 1, 2, 70003, 4, 4),
        options={"fabric_offsets": (4, 1), "fabric_dims": (8, 3)},
    ),
    Row(
        page=PAGE,
        says="<tile_config>: the registers of colors by pointers, as programs of SDK 1.x have them",
        top=TILE
        + "const a = c.target.addresses; const k = @get_color(3); fn at(x: color) u16 { return @as(u16, a.COLOR_CONFIG) + @get_int(x) * c.target.word_size; } comptime { @set_local_color_config(k, .{ .routes = .{ .rx = .{ WEST }, .tx = .{ EAST } } }); }",
        body="const r: u16 = @bitcast(*u16, at(k)).*; out[0] = @as(i32, r); @bitcast(*u16, at(k)).* = (r & 0xfc00) | 0x0104; out[1] = @as(i32, @get_config(c.color_config.get_color_config_addr(k)));",
        out=(0x22, 0x104),
        architectures=("wse2",),
    ),
    Row(
        page=PAGE,
        says="<tile_config>: '@control_mask' is not for programs",
        top="comptime { $$@control_mask(2); }",
        refused="import <tile_config>",
    ),
    Row(
        page=PAGE,
        says="<tile_config>: the mask of control_transform",
        top=TILE + "comptime { c.control_transform.set_mask(2); }",
        body="c.control_transform.set_mask(1); out[0] = 1;",
        out=(1,),
    ),
    Row(
        page=PAGE,
        says="<tile_config>: a DSD that would apply the mask is refused",
        top=TILE
        + "const q = @get_input_queue(2); const r = @get_color(3); comptime { @initialize_queue(q, .{ .color = r }); $$c.control_transform.set_mask(2); }",
        body="var w = @zeros([1]u16); @mov16(@get_dsd(mem1d_dsd, .{ .tensor_access = |i|{1} -> w[i] }), @get_dsd(fabin_dsd, .{ .extent = 1, .input_queue = q, .control_transform = true }));",
        refused="the mask of '.control_transform' is not simulated",
    ),
    Row(
        page=PAGE,
        says="<tile_config>: exceptions are masked and unmasked",
        top=TILE,
        body="const e = c.exceptions; e.set_exception_mask(e.FP_DIV_BY_0 & e.FP_OVERFLOW); out[0] = 1;",
        out=(1,),
    ),
    *(
        Row(
            page="libraries",
            says=f"<tile_config>: 'filters.{call.split('(')[0]}' counts half-wavelets",
            top='const tc = @import_module("<tile_config>");',
            body=f"_ = $$tc.filters.{call};",
            refused="filters in half-wavelets are not simulated",
            architectures=("wse3",),
        )
        for call in (
            "set_counter_and_state(1, 2, tc.filters.counter_filter_state.DROP)",
            "set_counter_value(1, 2)",
            "get_counter_value(1)",
            "set_state(1, tc.filters.counter_filter_state.DROP)",
            "get_state(1)",
            "set_pass_count(1, 2)",
            "get_pass_count(1)",
            "set_drop_count(1, 2)",
            "get_drop_count(1)",
        )
    ),
    Row(
        page="libraries",
        says="<tile_config>: WSE-2 has no filters in half-wavelets",
        top='const tc = @import_module("<tile_config>");',
        body="_ = $$tc.filters.get_state(1);",
        refused="filters in half-wavelets exist on wse3 only",
        architectures=("wse2",),
    ),
    Row(
        page=PAGE,
        says="<tile_config>: filters by their number",
        top=TILE
        + "const r = @get_color(3); comptime { @set_local_color_config(r, .{ .routes = .{ .rx = RAMP, .tx = RAMP }, .filter = .{ .kind = .{ .counter = true }, .count_data = true, .limit1 = 3, .max_counter = 1 } }); }",
        body="const id = @get_filter_id(r); c.filters.set_counter(id, 0); c.filters.set_active_limit(id, 5); c.filters.set_max_counter(id, 2); out[0] = id;",
        out=(3,),
    ),
    Row(
        page=PAGE,
        says="<tile_config>: directions of a color one by one",
        top=TILE + ROUTES,
        body="const cc = c.color_config; cc.reset_routes(r, .{ .tx = EAST, .rx = WEST }); cc.set_io_direction(r, cc.fabric_io.TX_RAMP); cc.clear_io_direction(r, cc.fabric_io.TX_EAST); cc.clear_io_direction(r, cc.fabric_io.RX_WEST); cc.toggle_io_direction(cc.get_color_config_addr(r), cc.fabric_io.RX_RAMP);"
        + LOOP,
        out=(7,),
        finishes=False,
    ),
    Row(
        page=PAGE,
        says="<tile_config>: switch positions by color and address",
        top=TILE + ROUTES,
        body="const s = c.switch_config; const cc = c.color_config; cc.reset_routes(r, .{ .tx = EAST, .rx = RAMP }); s.set_invalid_for_all_switch_positions(r); s.set_switch_pos(s.switch_pos.POS2, r, RAMP, s.switch_select.OUTPUT); s.set_ring_mode(r, s.ring_mode.NO_RING_MODE); s.set_pop_mode(s.get_switch_config_addr(r, s.pop_mode), s.pop_mode.NO_POP); s.set_current_switch_position(s.get_color_config_addr(r), 2);"
        + LOOP,
        out=(7,),
        finishes=False,
    ),
    Row(
        page=PAGE,
        says="<tile_config>: a switch position of both sides on WSE-3",
        top=TILE + ROUTES,
        body="const s = c.switch_config; c.color_config.reset_routes(r, .{ .tx = EAST, .rx = WEST }); s.set_rxtx_switch_pos1(r, RAMP, RAMP); s.set_current_switch_position(r, 1);"
        + LOOP,
        out=(7,),
        finishes=False,
        architectures=("wse3",),
    ),
    Row(
        page=PAGE,
        says="<tile_config>: WSE-2 changes one side",
        top=TILE + ROUTES,
        body="$$c.switch_config.set_rxtx_switch_pos(c.switch_config.switch_pos.POS1, r, RAMP, RAMP);",
        refused="a switch position of wse2 changes one side",
        architectures=("wse2",),
    ),
    Row(
        page=PAGE,
        says="<tile_config>: queues that are empty",
        top=TILE + ROUTES,
        body="const s = c.input_queue_status.get(); if (c.input_queue_status.is_empty(s, iq)) { out[0] = 1; } if (c.input_queue_status.none_full(s) and c.input_queue_status.all_empty(s)) { out[1] = 1; } const t = c.output_queue_status.get(); if (c.output_queue_status.is_full(t, oq)) { out[2] = 1; } out[3] = c.input_queue_status.get_raw() & 0xff;",
        out=(1, 1, 0, 255),
    ),
    Row(
        page=PAGE,
        says="<tile_config>: priorities of tasks, before and during the run",
        top=TILE + PRIORITIES,
        body="@activate(a); @activate(b);",
        out=(2, 1),
        finishes=False,
    ),
    Row(
        page=PAGE,
        says="<tile_config>: the task of teardown and its pending colors",
        top=TILE,
        body="out[0] = @get_int(c.teardown.get_task_id()); const p = c.teardown.get_pending(); if (c.teardown.is_pending(p, @get_color(3))) { out[1] = 1; }",
        out=(29, 0),
    ),
    Row(
        page=PAGE,
        says="<tile_config>: which queues have been flushed",
        top=TILE + ROUTES,
        body="out[0] = c.queue_flush.oq_status() | c.queue_flush.iq_status(); if (c.queue_flush.is_flushed(4, oq)) { out[1] = 1; } if (c.queue_flush.is_flushed(3, iq)) { out[2] = 1; }",
        out=(0, 1),
    ),
    Row(
        page=PAGE,
        says="<time>: performance counters by number",
        top='const t = @import_module("<time>"); var w = @zeros([3]u16); var v = @zeros([3]u16);',
        body="t.enable_tsc(); t.get_perf_cntr(&w, 0); t.get_perf_cntr(&v, 1); if (v[0] > w[0]) { out[0] = 1; }",
        out=(1,),
    ),
    Row(
        page=PAGE,
        says="<math>: subtraction that saturates",
        top='const m = @import_module("<math>"); var a: u16 = 3; var s: i16 = -32000; var f: f32 = 1.5;',
        body="out[0] = m.subsat(a, @as(u16, 5)); out[1] = m.subsat(s, @as(i16, 2000)); out[2] = m.subsat(@as(i16, 0) - s, @as(i16, -2000)); out[3] = @as(i32, m.subsat_f32(1.0, 2.0)); out[4] = @as(i32, 2.0 * m.subsat_f32(3.0, f)); out[5] = m.subsat(@as(i32, -2147483647), @as(i32, 5));",
        out=(0, -32768, 32767, 0, 3, -2147483648),
    ),
    Row(
        page=PAGE,
        says="<math>: functions of the 16-bit format of the program",
        top='const m = @import_module("<math>"); var h: bf16 = -2.0;',
        body="out[0] = @as(i32, m.abs_f16(h)); out[1] = @as(i32, m.max_f16(h, 3.0)); if (m.isInf_f16(m.POSITIVE_INF_f16) and m.isNaN_f16(m.NaN_f16)) { out[2] = 1; }",
        out=(2, 3, 1),
        options={"fp16_format": "bf16"},
    ),
    Row(
        page=PAGE,
        says="<random>: ranges and the normal distribution",
        top='const r = @import_module("<random>"); var s: f32 = 0.0; var q: f32 = 0.0;',
        body="for (@range(u16, 200)) |i| { const x = r.random_normal_f32(); s += x; q += x * x; } if (s > -60.0 and s < 60.0 and q > 120.0 and q < 300.0) { out[0] = 1; } if (r.random_pow_u32(4) < 16 and r.random_f16(1.0, 2.0) < 2.0) { out[1] = 1; }",
        out=(1, 1),
    ),
)
