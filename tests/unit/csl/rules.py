# ruff: noqa: E501 - rows of a table
"""The rules of CSL, each with the test of a right program and that of a wrong one.

A row names the rule, says it in one sentence, and names `module.test` twice: what shows a right
program, and what shows a wrong one with the words that are looked for in its report. `test_rules`
checks that every test exists and that it looks for those words.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """One rule of the language, of the machine or of a library."""

    name: str
    sentence: str
    right: str
    wrong: str
    words: str


_CODE, _TOP = "test_language.test_a_rule_of_code", "test_language.test_a_rule_of_declarations"
_FILES = "test_language.test_a_rule_of_files"
_D_CODE, _D_TOP = (
    "test_diagnostics.test_a_rule_of_statements_and_expressions",
    "test_diagnostics.test_a_rule_of_declarations",
)
_V_CODE, _V_TOP = (
    "test_diagnostics_values.test_a_rule_of_statements_and_expressions",
    "test_diagnostics_values.test_a_rule_of_declarations",
)
_F_CODE, _F_TOP = (
    "test_diagnostics_fabric.test_a_rule_of_code",
    "test_diagnostics_fabric.test_a_rule_of_declarations",
)
_O, _O3, _OD = (
    "test_diagnostics_vectors.test_a_rule_of_operations",
    "test_diagnostics_vectors.test_a_rule_of_operations_on_wse3",
    "test_diagnostics_vectors.test_a_rule_of_descriptors",
)
_FIT, _NO_FIT, _SUMS, _NO_SUMS = (
    "test_types.test_values_fit",
    "test_types.test_values_do_not_fit",
    "test_types.test_known_arithmetic_rounds_and_wraps",
    "test_types.test_wrong_arithmetic",
)
_GRAMMAR, _NO_GRAMMAR = (
    "test_grammar.test_the_grammar_is_read",
    "test_grammar.test_syntax_errors_are_at_the_place",
)
_COMPTIME, _NO_COMPTIME = (
    "test_comptime.test_functions_run_at_compile_time",
    "test_comptime.test_wrong_programs",
)
_LAYOUT, _NO_LAYOUT, _NO_EXPORT = (
    "test_layout.test_routes_are_sets_of_directions",
    "test_layout.test_wrong_layouts",
    "test_layout.test_wrong_exports",
)
_TASKS, _NO_TASKS = (
    "test_tasks_and_queues.test_comptime_blocks_set_the_state_at_start",
    "test_tasks_and_queues.test_wrong_programs",
)
_DSDS, _NO_DSDS = "test_dsds.test_an_operation_names_its_operands", "test_dsds.test_wrong_programs"

RULES = (
    # 1. Dialects.
    Rule("dialect.concat_structs", "Joining structs exists in the old dialect only.", "test_types.test_old_structs_are_errors_in_the_new_language", "test_types.test_old_structs_are_errors_in_the_new_language", "no longer supported"),
    Rule("dialect.comptime_struct", "The type `comptime_struct` exists in the old dialect only.", "test_language.test_the_type_of_all_structs_is_of_the_old_dialect", "test_language.test_the_type_of_all_structs_is_of_the_old_dialect", "no longer supported"),
    Rule("dialect.struct_coercion", "An anonymous struct becomes the named one that is expected.", _FIT, _NO_FIT, "has no field 'z'"),
    Rule("dialect.fabric_color", "A fabout of WSE-2 names its color, one of WSE-3 its queue.", "test_dsds.test_fabric_dsds_keep_what_they_are_told", _O3, "a fabout_dsd of wse3 needs '.output_queue'"),
    Rule("dialect.fabin_queue", "A fabin names its queue.", "test_tasks_and_queues.test_a_queue_of_the_old_dialect_gets_its_color_from_the_dsd", _NO_DSDS, "a fabin_dsd needs '.input_queue'"),
    Rule("dialect.output_queue", "An output queue is initialised without a color on WSE-2, with one on WSE-3.", _D_TOP, _NO_TASKS, "an output queue of wse3 needs '.color'"),
    Rule("dialect.same_type", "`@is_same_type` is deprecated.", "test_language.test_what_2_10_says_instead_gets_none", "test_language.test_what_2_10_deprecates_gets_a_warning", "deprecated: '@is_same_type'"),
    Rule("dialect.no_fabric_color", "The color of a queue is not told again by a DSD.", "test_language.test_what_2_10_says_instead_gets_none", "test_language.test_what_2_10_deprecates_gets_a_warning", "deprecated: '.fabric_color' of a fabin_dsd"),
    Rule("dialect.initialised_queue", "2.10 initialises no input queue from its DSD.", "test_language.test_2_10_initialises_no_input_queue_by_itself", "test_language.test_2_10_initialises_no_input_queue_by_itself", "is not initialised; '.fabric_color' no longer does that"),
    Rule("dialect.color_params", "A color may come as a number, and is then made with `@get_color`.", _FIT, _NO_FIT, "expected type 'color', got: 'comptime_int'"),
    Rule("dialect.inlining", "Unrolled loops have a largest number of rounds.", "test_comptime.test_unrolling_has_a_limit", "test_comptime.test_unrolling_has_a_limit", "exceeded the maximum of 50 inlined iterations"),
    # 2. Text and grammar.
    Rule("text.comment", "A comment begins with two slashes and ends with its line.", "test_grammar.test_comments_are_kept_apart_from_the_tokens", _TOP, "expected a declaration"),
    Rule("text.integer", "Integers are decimal, 0x, 0b or 0o, with underscores.", "test_grammar.test_literals_have_their_value", _V_TOP, "is not a number"),
    Rule("text.character", "A character stands for one byte.", "test_grammar.test_literals_have_their_value", _V_TOP, "a character literal holds one byte"),
    Rule("text.escape", "Strings know the escapes n, t, backslash, quotes and xNN.", "test_grammar.test_literals_have_their_value", _NO_GRAMMAR, "unknown escape"),
    Rule("text.hex_escape", "An escape of a byte has two hexadecimal digits.", _V_TOP, _V_TOP, "needs two hexadecimal digits"),
    Rule("text.string_end", "A string ends in its line.", "test_grammar.test_literals_have_their_value", _NO_GRAMMAR, "expected an expression, found character"),
    Rule("text.keyword", "A keyword is no name.", _GRAMMAR, _NO_GRAMMAR, "'if' is a keyword and cannot be the name of a const"),
    Rule("grammar.top", "A file is a row of declarations, functions and blocks.", _GRAMMAR, _NO_GRAMMAR, "expected a declaration"),
    Rule("grammar.semicolon", "A declaration ends with a semicolon.", _GRAMMAR, _NO_GRAMMAR, "expected ';' after this"),
    Rule("grammar.label", "A label stands before a loop or a block.", "test_comptime.test_labelled_blocks_and_switches_have_values", _NO_GRAMMAR, "expected a loop or block after its label"),
    Rule("grammar.packed", "Structs and unions can be packed.", _GRAMMAR, _NO_GRAMMAR, "expected 'struct' or 'union' after 'packed'"),
    Rule("grammar.precedence", "Bit operators bind tighter than comparisons.", "test_grammar.test_operators_bind_as_documented", _NO_SUMS, "'&' does not apply to 'f32'"),
    Rule("grammar.boolean", "`and`, `or` and `!` take bools.", _D_CODE, _D_CODE, "'and' needs bools, got 'u16'"),
    Rule("grammar.no_increment", "There is no `++`.", _CODE, _CODE, "expected an expression, found '+'"),
    Rule("grammar.no_defer", "There is no `defer`.", _CODE, _CODE, "expected ';' after this"),
    Rule("grammar.no_slices", "There are no slices, and no ranges in a switch.", _CODE, _CODE, "expected a member's name, found '.'"),
    Rule("grammar.no_optionals", "There are no optional types.", _TOP, _TOP, "expected an expression, found character '?'"),
    Rule("grammar.initialiser", "A brace after a condition begins a block, after a type its value.", "test_grammar.test_a_brace_behind_a_condition_begins_a_block", _V_TOP, "type 'u16' takes no fields"),
    Rule("grammar.nesting", "Expressions nest 200 deep at most.", "test_grammar.test_nesting_has_a_limit", _V_TOP, "nested more than 200 levels deep"),
    Rule("grammar.old_color", "`color name;` is read as the old form of a param.", _GRAMMAR, _NO_GRAMMAR, "expected ';' after this"),
    # 3. Types and values.
    Rule("types.width", "Integers have 1 to 16777215 bits.", _TOP, _TOP, "undeclared identifier 'u16777216'"),
    Rule("types.fit", "A known number must fit its type.", _FIT, _NO_FIT, "value 65536 does not fit type 'u16'"),
    Rule("types.fraction", "A number with a fraction is no integer.", _FIT, _NO_FIT, "expected type 'i32', got: 'comptime_float'"),
    Rule("types.widening", "A value becomes a type that holds all values of its own, no other.", _FIT, _NO_FIT, "expected type 'i16', got: 'i32'"),
    Rule("types.narrowing", "Narrowing is said with `@as`, also at run time.", _CODE, _CODE, "assignment: expected type 'i16', got: 'i32'"),
    Rule("types.one_type", "The operands of an operator have one type.", "test_types.test_a_run_time_sum_needs_one_type", "test_types.test_a_run_time_sum_needs_one_type", "needs two values of one type"),
    Rule("types.literal_adapts", "A literal takes the type of the other operand and must fit it.", _CODE, _CODE, "value 70000 does not fit type 'u16'"),
    Rule("types.bool", "A bool is no number.", _CODE, _CODE, "'+' does not apply to 'bool'"),
    Rule("types.not_bool", "A number is no bool.", _FIT, _NO_FIT, "expected type 'bool', got: 'u16'"),
    Rule("types.wrap", "Integers of a width wrap around.", _SUMS, _NO_SUMS, "needs two values of one type, got 'i16' and 'u32'"),
    Rule("types.division", "Division truncates toward zero; zero divides nothing.", "test_grammar.test_operators_bind_as_documented", _NO_SUMS, "division by zero"),
    Rule("types.shift", "The count of a shift is unsigned.", _D_CODE, _D_CODE, "the count of '<<' must be unsigned, got 'i16'"),
    Rule("types.as", "`@as` converts numbers, bools and enums.", _SUMS, _V_CODE, "'@as' to 'comptime_int' is not possible at run time"),
    Rule("types.bitcast", "`@bitcast` keeps the width.", _SUMS, _NO_SUMS, "(32 bits) to 'u16' (16 bits)"),
    Rule("types.ptrcast", "`@ptrcast` makes a pointer of a pointer.", _D_CODE, _V_CODE, "'@ptrcast' needs a pointer, got 'u16'"),
    Rule("types.comptime_only", "Some types exist at compile time only.", _V_CODE, _V_CODE, "variable of type 'comptime_int' must be comptime-known"),
    Rule("types.half", "One 16-bit float format exists at run time: that of --fp16-format.", "test_half_formats.test_one_format_exists_at_run_time", "test_half_formats.test_one_format_exists_at_run_time", "must be comptime-known"),
    Rule("types.half_arguments", "The host passes numbers of no other 16-bit format than f16.", "test_half_formats.test_a_program_converts_calls_the_library_and_keeps_what_it_was_given", "test_half_formats.test_the_host_passes_no_other_half_than_f16", "an exported function cannot take a"),
    Rule("types.array_of_arrays", "An array has dimensions; its elements are no arrays.", _GRAMMAR, _NO_FIT, "an array of arrays does not exist"),
    Rule("types.dimension", "A dimension is a known number that is not negative.", _D_TOP, _D_TOP, "a dimension must be a known integer"),
    Rule("types.index_count", "An array takes as many indices as it has dimensions.", _D_CODE, _D_CODE, "takes 2 indices, got 1"),
    Rule("types.index_bounds", "A known index lies within the array.", _D_CODE, _D_CODE, "index 8 is outside '[8]u16' (0 to 7)"),
    Rule("types.index_type", "An index is an integer, signed or not.", _D_CODE, _D_CODE, "an index must be an integer, got 'f32'"),
    Rule("types.array_assignment", "Arrays of one type are assigned whole.", _CODE, _CODE, "assignment: expected type '[8]u16', got: '[4]u16'"),
    Rule("types.array_length", "An array's value has all its elements.", _GRAMMAR, _NO_FIT, "takes 3 elements, got 2"),
    Rule("pointers.one", "`*T` is followed with `.*` and takes no index.", _CODE, _CODE, "points to one value; write '.*'"),
    Rule("pointers.many", "`[*]T` takes an index and no `.*`.", _V_CODE, _NO_FIT, "use an index"),
    Rule("pointers.arrays", "A pointer to an array becomes `[*]T` of the same element.", _FIT, _NO_FIT, "expected type '[*]u16', got: '*[3]f32'"),
    Rule("pointers.const", "The address of a constant is a pointer to a constant.", _FIT, _NO_FIT, "expected type '*u16', got: '*const u16'"),
    Rule("pointers.write", "Nothing is written through a pointer to a constant.", _V_CODE, _V_CODE, "cannot assign to a constant"),
    Rule("pointers.address", "Only a variable has an address.", _V_CODE, _V_CODE, "has no address"),
    Rule("pointers.arithmetic", "There is no arithmetic with pointers.", _CODE, _CODE, "'+' needs two values of one type, got '*u16'"),
    Rule("pointers.functions", "A function's name becomes a pointer to it.", _V_CODE, _V_CODE, "expected type '*const fn(u16) u16', got: 'u16'"),
    Rule("structs.nominal", "Named structs are equal by the place of their source.", "test_types.test_structs_of_one_place_are_one_type", _NO_FIT, "has no field 'xx'"),
    Rule("structs.all_fields", "A struct's value has all its fields.", _FIT, _NO_FIT, "no value for field 'y'"),
    Rule("structs.twice", "A field is given once.", "test_comptime.test_structs_are_changed_field_by_field", _NO_FIT, "field 'x' is given twice"),
    Rule("structs.names", "Either all fields have names, or none.", _GRAMMAR, _NO_FIT, "either all fields have names or none"),
    Rule("structs.tuple", "A tuple is indexed with known integers, not with a dot.", _CODE, _D_CODE, "index 2 of a tuple of 2"),
    Rule("structs.union", "A union is declared, and not made of fields.", _V_TOP, _V_TOP, "a union cannot be made of fields here"),
    Rule("enums.count", "An enum counts from zero and leaves out what is taken.", _GRAMMAR, _D_TOP, "member 'A' is defined twice"),
    Rule("enums.distinct", "Two members have two values.", _TOP, _TOP, "member 'C' has the value 2 of member 'A'"),
    Rule("enums.fit", "The value of a member fits the enum's type.", _TOP, _TOP, "value 300 does not fit type 'u8'"),
    Rule("enums.nominal", "Members of two enums are not comparable.", _TOP, _TOP, "'==' needs two values of one type"),
    Rule("enums.type", "An enum is of an integer type.", _D_TOP, _D_TOP, "an enum needs an integer type"),
    Rule("functions.const", "The parameters of a function are constants.", _TOP, _TOP, "cannot assign to a constant"),
    Rule("functions.count", "A call gives all arguments.", _D_CODE, _D_CODE, "function 'twice' takes 1 argument, got 2"),
    Rule("functions.return", "A function with a value returns one at every end.", _F_TOP, _F_TOP, "may end without a return value"),
    Rule("functions.anytype", "`anytype` and `comptime` parameters make functions of their own.", "test_comptime.test_comptime_parameters_make_functions_of_their_own", _F_TOP, "argument 'n' must be known at compile time"),
    Rule("functions.extern", "What is only declared cannot be called.", _V_TOP, _V_TOP, "is only declared"),
    Rule("functions.recursion", "A function that calls itself keeps nothing in memory.", _F_TOP, _F_TOP, "calls itself, which is not possible"),
    Rule("names.once", "A name is declared once, in any order of the file.", _TOP, _TOP, "redefinition of 'z'"),
    # Statements.
    Rule("statements.break", "`break` stands in a loop.", _D_CODE, _D_CODE, "this is not inside a loop"),
    Rule("statements.label", "A label stands around what it is used in.", _D_CODE, _D_CODE, "label 'l' is not around this"),
    Rule("statements.block_value", "A block gives a value by `break :label value`.", "test_comptime.test_labelled_blocks_and_switches_have_values", _V_CODE, "a block used as a value is left by"),
    Rule("statements.if_value", "An `if` with a value has an `else`.", _D_CODE, _D_CODE, "needs an 'else' to have a value"),
    Rule("statements.switch_whole", "A `switch` has a prong for every value.", _D_CODE, _D_CODE, "'switch' has no prong for B"),
    Rule("statements.switch_once", "A value stands in one prong.", _D_CODE, _D_CODE, "the value 0 is in two prongs"),
    Rule("statements.for", "`for` takes a range or an array of one dimension.", _V_CODE, _V_CODE, "'for' needs an array of one dimension"),
    Rule("statements.range_step", "The step of a range is not zero.", _D_TOP, _NO_COMPTIME, "the step of a range is zero"),
    Rule("statements.inline", "What is unrolled is known.", _D_CODE, _V_CODE, "the range of an unrolled loop must be known"),
    Rule("statements.unused", "A value that is not used gets a warning.", "test_diagnostics_fabric.test_a_warning", "test_diagnostics_fabric.test_a_warning", "the value of this expression is not used"),
    # 3.1 Compile time.
    Rule("comptime.call", "Functions run at compile time, with variables of their own.", _COMPTIME, _NO_COMPTIME, "argument 'a': expected type 'u16'"),
    Rule("comptime.read", "Run-time variables are not read at compile time.", _V_CODE, _NO_COMPTIME, "run-time variable 'v' is not known"),
    Rule("comptime.write", "Run-time variables are not written at compile time.", _TOP, _TOP, "an assignment to a run-time variable is not allowed at compile time"),
    Rule("comptime.expression", "`comptime` before an expression needs known values.", _CODE, _CODE, "the value of run-time variable 'x' is not known"),
    Rule("comptime.dead_code", "The side that a known condition removes is not looked at.", "test_comptime.test_a_known_condition_removes_the_other_side_unseen", _CODE, "function 'twice' takes 1 argument, got 2"),
    Rule("comptime.lazy", "What nothing reaches is not checked.", "test_comptime.test_a_function_that_nothing_reaches_is_not_checked", _NO_COMPTIME, "there is no builtin '@foo'"),
    Rule("comptime.circle", "A constant does not depend on itself.", _TOP, _NO_COMPTIME, "depends on itself"),
    Rule("comptime.steps", "Compile time has a number of steps.", _COMPTIME, "test_comptime.test_a_runaway_loop_ends_with_an_error", "steps at compile time"),
    Rule("comptime.assert", "`@comptime_assert` and a known `@assert` end the compilation.", _TOP, _TOP, "the assertion does not hold"),
    Rule("comptime.task", "A task is not called.", "test_tasks_and_queues.test_a_task_stands_for_the_id_that_it_is_bound_to", _NO_COMPTIME, "is a task and cannot be called"),
    Rule("params.missing", "A param without a value gets one from the importer or the command line.", _FILES, _FILES, "give it with --params=n:VALUE"),
    Rule("params.type", "A param with a type takes values of it only, functions too.", _FILES, _FILES, "param 'f': expected type 'fn() void', got: 'fn(u16) void'"),
    Rule("params.unknown", "A param that the module lacks is a warning.", "test_layout.test_unknown_parameters_are_a_warning", "test_layout.test_unknown_parameters_are_a_warning", "has no param 'm'"),
    Rule("modules.path", "A module is found beside the file that imports it.", "test_comptime.test_params_are_given_by_the_importer", _NO_LAYOUT, "there is no file 'no.csl'"),
    Rule("modules.library", "A name in angle brackets is a library.", _D_TOP, _NO_LAYOUT, "there is no library '<no>'"),
    Rule("modules.copies", "Every import has globals of its own.", "test_comptime.test_every_import_has_globals_of_its_own", "test_diagnostics_fabric.test_a_rule_of_whole_programs", "imports nest more than 64 levels deep"),
    Rule("modules.layout", "The layout block of an imported file is ignored.", _FILES, _FILES, "undeclared identifier 'nope'"),
    Rule("modules.member", "A member is a name of the module.", _V_TOP, _V_TOP, "has no member 'nothing'"),
    # 4. Builtins.
    Rule("builtins.map", "`@map` calls a function for each element.", "test_dsds.test_map_calls_a_function_per_element", _NO_DSDS, "'@map' needs a DSD among its inputs"),
    Rule("builtins.map_direction", "`@map` does not read from a fabout.", _O, _O, "a fabout_dsd cannot be an input of '@map'"),
    Rule("builtins.zeros", "`@zeros` makes an array.", _D_TOP, _D_TOP, "expected an array type, got 'u16'"),
    Rule("builtins.constants", "`@constants` makes an array of one value that fits.", _TOP, _TOP, "@constants: expected type 'u16', got: 'comptime_float'"),
    Rule("builtins.rank", "`@rank` and its like take an array type.", _D_TOP, _D_TOP, "expected an array type, got 'u16'"),
    Rule("builtins.field", "`@field` names a field of the struct.", _V_CODE, _V_CODE, "has no field 'r'"),
    Rule("builtins.has_field", "`@has_field` takes the name as a string.", _TOP, _TOP, "expected a string, got 'comptime_int'"),
    Rule("builtins.strings", "`@strlen`, `@strcat` and their like take strings.", _TOP, _TOP, "expected a string, got 'comptime_int'"),
    Rule("builtins.range", "`@range` is of integers.", _D_TOP, _D_TOP, "a range is of integers, not 'f32'"),
    Rule("builtins.random", "`@random16` takes nothing and gives 16 bits.", _CODE, _CODE, "'@random16' takes no arguments, got 1"),
    Rule("builtins.get_int", "`@get_int` is for ids, colors, queues, enums and integers.", _V_CODE, _V_CODE, "'@get_int' does not apply to 'f32'"),
    Rule("builtins.json", "`@import_comptime_value` reads JSON.", "test_diagnostics_fabric.test_a_compilation_ends_when_memory_or_stack_does", "test_diagnostics_fabric.test_a_rule_of_whole_programs", "is no JSON"),
    Rule("builtins.arch", "`@is_arch` knows wse2 and wse3.", _D_TOP, _D_TOP, "there is no architecture 'wse9'"),
    Rule("builtins.config", "A configuration register is named by its address.", _F_TOP, _F_TOP, "there is no configuration register at word address 0x0003"),
    Rule("builtins.symbols", "A symbol's number is that of an exported name.", _F_TOP, _F_TOP, "has no '@export_name' in the layout"),
    Rule("builtins.operands", "An operation has a DSD among its operands, and of its own type.", _CODE, _CODE, "'@fmach': expected type 'f16', got: 'f32'"),
    Rule("builtins.fused", "The factor of a fused operation is a scalar.", _D_CODE, _D_CODE, "the factor of a fused operation is a scalar"),
    # 5. DSDs, DSRs, FIFOs.
    Rule("dsd.access", "A tensor access is affine in its variables.", "test_dsds.test_tensor_accesses_become_walks", _NO_DSDS, "a sum of multiples"),
    Rule("dsd.variables", "It has an extent for each variable.", "test_dsds.test_tensor_accesses_become_walks", _NO_DSDS, "2 variables and 1 extents"),
    Rule("dsd.dimensions", "A mem1d has one dimension, a mem4d up to four.", "test_dsds.test_tensor_accesses_become_walks", _NO_DSDS, "a mem1d_dsd has one dimension, got 2"),
    Rule("dsd.twice", "A property is given once.", _DSDS, _NO_DSDS, "'.tensor_access' gives '.extent' already"),
    Rule("dsd.length", "A length is a u16.", _CODE, _CODE, "value -1 does not fit type 'u16'"),
    Rule("dsd.length_mem4d", "`@set_dsd_length` is not for mem4d.", _O, _O, "'@set_dsd_length' does not apply to a mem4d_dsd"),
    Rule("dsd.stride", "A stride is an i8.", _CODE, _CODE, "value 200 does not fit type 'i8' (-128 to 127)"),
    Rule("dsd.access_stride", "So is that of a tensor access of one dimension.", _O, _O, "the stride of this access is 128; it must fit 'i8'"),
    Rule("dsd.offset", "An offset is an i16.", _O, _O, "'.offset' is 40000; it must fit 'i16'"),
    Rule("dsd.base", "A base address is that of an array or a pointer.", _O, _O, "expected an array or a pointer, got 'u16'"),
    Rule("dsd.circular", "A circular buffer has base, extent and wraparound.", _OD, _OD, "a circbuf_dsd needs '.base_address', '.extent' and '.wraparound'"),
    Rule("dsd.simd", "A SIMD mode is one of a few.", _D_TOP, _D_TOP, "'.simd_mode' is one of"),
    Rule("dsd.direction", "A fabin is a source, a fabout a destination.", _DSDS, _NO_DSDS, "a fabin_dsd cannot be a destination"),
    Rule("dsd.one_fabin", "An operation of WSE-3 reads one queue.", "test_dsds.test_wse3_reads_one_queue_per_operation", "test_dsds.test_wse3_reads_one_queue_per_operation", "reads from one fabin_dsd at most"),
    Rule("async.fabric", "Only an operation on the fabric or on DSRs is asynchronous.", _DSDS, _NO_DSDS, "'.async' needs a fabric DSD or a DSR"),
    Rule("async.completion", "It activates or unblocks, not both, and only if asynchronous.", _DSDS, _NO_DSDS, "either '.activate' or '.unblock'"),
    Rule("async.on_control", "`.on_control` terminates, activates or unblocks.", _CODE, _CODE, "'.on_control' has no option '.stop'"),
    Rule("async.ut_id", "WSE-3 gives a microthread's number with the operation.", _O3, _NO_DSDS, "'.ut_id' exists on wse3 only"),
    Rule("async.microthreads", "Two running operations have two microthreads.", "tests.unit.fabric.test_fabric.test_a_run_gives_the_same_cycles_every_time", "tests.unit.fabric.test_fabric.test_two_operations_on_one_microthread_are_a_fault", "microthread"),
    Rule("fifo.buffer", "A FIFO is a global over an array of 16- or 32-bit elements.", "test_dsds.test_fifos_are_buffers_in_memory", _OD, "a FIFO has 16- or 32-bit elements, not 'u64'"),
    Rule("fifo.place", "A FIFO is made at the top of a file.", _TOP, _TOP, "'@allocate_fifo' is for top-level comptime blocks"),
    Rule("fifo.first_source", "A FIFO is not the first of two sources.", _CODE, _CODE, "a FIFO is not the first source of '@add16'"),
    Rule("fifo.map", "A FIFO is no operand of `@map`.", _O, _O, "a FIFO cannot be an operand of '@map'"),
    Rule("fifo.action", "What a full or empty FIFO does is one of a few; full on WSE-3 only.", _OD, _OD, "'.full_action' exists on wse3 only"),
    Rule("dsr.number", "DSRs are numbered from 0 to 63.", "test_dsds.test_dsrs_are_loaded_and_used", _NO_DSDS, "DSR 64 is outside 0 to 63"),
    Rule("dsr.kind", "A dest is no source and a src1 no destination.", "test_dsds.test_dsrs_are_loaded_and_used", _NO_DSDS, "a 'dsr_dest' cannot be a source"),
    Rule("dsr.fabric", "A fabin is not loaded to a dest, a fabout to a dest only.", "test_dsds.test_dsrs_are_loaded_and_used", _NO_DSDS, "a fabin_dsd cannot be in a 'dsr_dest'"),
    # 6. Tasks.
    Rule("ids.colors", "Colors are 0 to 31; 0 to 23 can be routed.", _TOP, _TOP, "color -4 is outside 0 to 31"),
    Rule("ids.local", "Local task ids are 0 to 30, from 8 on WSE-3.", _TASKS, _NO_TASKS, "outside 8 to 30, the range of wse3"),
    Rule("ids.control", "Control task ids are 0 to 63.", "test_tasks_and_queues.test_control_tasks_have_a_table_of_their_own_if_asked", _NO_TASKS, "outside 0 to 63"),
    Rule("ids.data", "A data task id is a color on WSE-2, an input queue on WSE-3.", _D_TOP, _NO_TASKS, "a data task id of wse3 needs a value of type 'input_queue'"),
    Rule("ids.queues", "There are 8 input queues; 6 output queues on WSE-2, 8 on WSE-3.", _F_CODE, _NO_TASKS, "output queue 6 is outside 0 to 5"),
    Rule("ids.known", "Queues are known at compile time, colors need not be.", _F_CODE, _F_CODE, "the number of an input queue must be known at compile time"),
    Rule("tasks.local", "A local task has no parameters.", _TASKS, _NO_TASKS, "cannot have parameters"),
    Rule("tasks.data", "A data task has parameters of 32 bits together.", "test_tasks_and_queues.test_data_tasks_take_their_arguments_from_the_low_end", _NO_TASKS, "take 48 bits; a wavelet has 32"),
    Rule("tasks.control", "A control task takes 16 bits.", _TOP, _TOP, "the parameters of control task 't' take 32 bits; a wavelet has 16"),
    Rule("tasks.void", "A task returns nothing.", _TOP, _TOP, "task 't' returns 'u16'; a task is void"),
    Rule("tasks.table", "One id is bound once; tables are shared as the machine shares them.", "test_tasks_and_queues.test_control_tasks_have_a_table_of_their_own_if_asked", _NO_TASKS, "wse2 has one table for both"),
    Rule("tasks.block", "What can be blocked depends on the machine.", _CODE, _CODE, "'@block' needs 'color', 'data_task_id', 'local_task_id' or a task, got 'ut_id'"),
    Rule("tasks.activate", "Only a local task is activated.", _TASKS, _NO_TASKS, "'@activate' needs 'local_task_id'"),
    Rule("queues.color", "A queue that is used was given a color.", "tests.unit.fabric.test_fabric.test_a_run_gives_the_same_cycles_every_time", "tests.unit.fabric.test_fabric.test_a_queue_that_was_never_given_a_color_is_a_fault", "input queue 2 has no color"),
    Rule("queues.once", "A queue is initialised once.", "test_tasks_and_queues.test_a_queue_of_the_old_dialect_gets_its_color_from_the_dsd", _NO_TASKS, "input_queue 1 is initialised twice"),
    Rule("teardown.handler", "A color has one teardown handler, a function without arguments.", _D_TOP, _D_TOP, "a handler is a function without arguments"),
    Rule("teardown.task", "The handler excludes a task of its id.", _D_TOP, _D_TOP, "local task id 29 belongs to the teardown handler"),
    Rule("flush.wse3", "Queues are flushed on WSE-3.", "test_diagnostics_fabric.test_a_rule_of_wse3", _NO_TASKS, "'@queue_flush' exists on wse3 only"),
    Rule("flush.handler", "A queue has one handler.", "test_diagnostics_fabric.test_a_queue_of_wse3_has_one_handler", "test_diagnostics_fabric.test_a_queue_of_wse3_has_one_handler", "already has a handler"),
    # 7. Routes, switches, filters; the layout.
    Rule("layout.rectangle", "The rectangle is set once, and first.", _LAYOUT, _NO_LAYOUT, "call @set_rectangle first"),
    Rule("layout.code", "Every PE has code exactly once.", "test_layout.test_a_pe_may_have_no_code", _NO_LAYOUT, "PE (0, 0) already has code"),
    Rule("layout.outside", "Only PEs of the rectangle have colors.", _FILES, _FILES, "PE (1, 0) is outside the rectangle of 1 x 1"),
    Rule("layout.fabric", "The rectangle fits the fabric, with room for memcpy.", _FILES, "test_layout.test_the_rectangle_must_fit_the_fabric", "Fabric dimension must be at least"),
    Rule("routes.both", "Routes have rx and tx.", _LAYOUT, _D_TOP, "the routes of a color need '.tx'"),
    Rule("routes.directions", "They are directions.", "test_layout.test_routes_may_be_bits_of_the_directions_library", _D_TOP, "'.rx' needs directions, got 'comptime_int'"),
    Rule("routes.once", "A color of a PE is configured once, by the layout or by its code.", _LAYOUT, "test_layout.test_a_color_is_configured_by_the_layout_or_by_the_code", "is configured by the layout and by its code"),
    Rule("routes.collision", "Two wavelets of a color do not come in one cycle.", "tests.unit.fabric.test_fabric.test_a_multicast_reaches_everyone_and_waits_for_the_slowest", "tests.unit.fabric.test_fabric.test_two_wavelets_of_a_color_in_one_cycle_are_a_fault", "same cycle"),
    Rule("switches.side", "A position of WSE-2 changes one side.", "test_layout.test_switches_change_one_side", _F_TOP, "a switch position of wse2 changes '.rx' or '.tx', not both"),
    Rule("switches.bits", "So do the bits of a position.", "test_layout.test_routes_may_be_bits_of_the_directions_library", "test_layout.test_bits_of_a_position_of_wse2_change_one_side", "changes '.rx' or '.tx', not both"),
    Rule("switches.place", "A switch stands in `.switches` or beside rx and tx, not in both.", "test_layout.test_a_switch_may_stand_beside_the_routes", "test_layout.test_a_switch_stands_in_one_place", "'.routes' has no option '.pos1'"),
    Rule("switches.old_pop", "A pop mode beside rx and tx is deprecated.", "test_layout.test_a_switch_may_stand_beside_the_routes", "test_layout.test_a_switch_may_stand_beside_the_routes", "deprecated: '.pop_mode' beside"),
    Rule("switches.start", "The first position is 0 to 3.", _F_TOP, _F_TOP, "'.current_switch_pos' is 0 to 3, got 4"),
    Rule("switches.pop", "There is one pop mode.", _F_TOP, _F_TOP, "'.pop_mode' is one of"),
    Rule("switches.wse3", "Some colors of WSE-3 have none.", "test_layout.test_some_colors_of_wse3_have_no_switches", "test_layout.test_some_colors_of_wse3_have_no_switches", "has no switches on wse3"),
    Rule("filters.kind", "A filter is a counter, a sparse counter or a range.", "test_layout.test_filters_keep_their_limits", _F_TOP, "'.kind' of a filter is one of"),
    Rule("filters.number", "A PE of WSE-2 has six filters.", "test_layout.test_a_pe_of_wse2_has_six_filters", "test_layout.test_a_pe_of_wse2_has_six_filters", "a PE of wse2 has 6"),
    Rule("export.types", "Pointers to 16- and 32-bit numbers are exported.", _FILES, _FILES, "'[*]u8' cannot be exported; pointers to 16- and 32-bit numbers can"),
    Rule("export.arguments", "So are functions of such scalars, 15 at most.", _FILES, _FILES, "an exported function cannot take a 'bool'"),
    Rule("export.mutable", "Data say whether they are mutable.", _FILES, _NO_LAYOUT, "whether it is mutable"),
    Rule("export.match", "A symbol has the type of its exported name.", _F_TOP, _NO_EXPORT, "the exported type is 'fn() void', the symbol's is"),
    # 8. Libraries; memory.
    Rule("libraries.math", "Functions of <math> take f16 and f32.", "test_libraries.test_mathematics_works_at_compile_time", "test_libraries.test_a_wrong_argument_is_reported_in_the_library_with_the_way_there", "the argument must be an f16 or f32"),
    Rule("libraries.services", "Services of the machine are for libraries.", "test_libraries.test_every_member_of_every_library_compiles", "test_libraries.test_services_of_the_machine_are_for_libraries_only", "there is no builtin '@intrinsic'"),
    Rule("libraries.streams", "A stream of memcpy is a color or its number.", "test_libraries.test_memcpy_says_which_colors_the_host_streams", "test_diagnostics_fabric.test_a_rule_of_whole_programs", "a stream needs a color or its number"),
    Rule("libraries.fft", "The transform begins at PE (0, 0).", "test_libraries.test_the_fourier_transform_takes_both_forms_of_its_arguments", "test_libraries.test_the_fourier_transform_refuses_others", "the transform begins at PE (0, 0)"),
    Rule("memory.limit", "A PE has 48 kB for code and data.", "test_memory.test_every_byte_of_code_counts", "test_diagnostics_fabric.test_a_rule_of_whole_programs", "bytes of memory"),
    Rule("memory.align", "An alignment is a power of two.", _D_TOP, _D_TOP, "alignment 3 is no power of two"),
)  # fmt: skip
