"""The code of one class of PEs: what comptime blocks declare, and the functions they reach."""

from collections.abc import Callable
from dataclasses import dataclass

from appliance.csl.diagnostics import CslError
from appliance.csl.program import code as c
from appliance.csl.program.operands import Constant, Descriptor, FifoReference
from appliance.csl.program.operations import Target, TargetKind
from appliance.csl.program.placement import ColorConfiguration
from appliance.csl.program.types import POINTER, MachineType, Position
from appliance.csl.semantics.context.builder import FunctionBuilder
from appliance.csl.semantics.context.frames import Frame, FunctionValue, Scope, World
from appliance.csl.semantics.context.session import Session, guard
from appliance.csl.semantics.expressions.linkage import extern_function
from appliance.csl.semantics.results.fields import fields_of
from appliance.csl.semantics.results.fifos import FifoRegisters
from appliance.csl.semantics.results.image import initial_image
from appliance.csl.semantics.results.memory import Symbol, code_symbols, overflow
from appliance.csl.semantics.statements.calls import (
    Specialization,
    compile_function,
    result_type,
    returned_machine,
)
from appliance.csl.semantics.statements.statements import run_block
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import Const
from appliance.csl.semantics.values.variables import GlobalVariable
from appliance.csl.sources import Span
from appliance.csl.syntax import tree

FIRST_ADDRESS = 0x100
"""Where variables begin; what lies below is the machine's."""

MAX_FUNCTIONS = c.MEMORY_BYTES // 8
"""Of a code class: more never fit its memory, even empty ones."""


@dataclass(slots=True)
class _Job:
    """A function that waits to be compiled, or has been."""

    function: FunctionValue
    types: list[Type]
    constants: list[Const | None]
    result: Type
    builder: FunctionBuilder
    num_parameters: int = 0
    is_emitted: bool = False
    """Whether its code is not that of the function, and is in the builder already."""


@dataclass(frozen=True, slots=True)
class UsedQueue:
    """A DSD on a queue, or on any (None), with the color that it names, and where it is made."""

    output: bool
    queue: int | None
    color: int | None
    frame: Frame
    node: tree.Node


class TileWorld(World):
    """Collects everything of one code class."""

    is_tile = True

    def __init__(
        self,
        session: Session,
        coordinates: tuple[int, int],
        rectangle: tuple[int, int],
        *,
        is_alone: bool = False,
    ) -> None:
        super().__init__(session)
        self.is_alone = is_alone
        """Whether the layout is unknown, and with it what it exports and how large it is."""
        self.rectangle = rectangle
        self.declared_exports: dict[str, tuple[Type, bool]] = {}
        """What the layout exports: type, and whether it is mutable."""
        self.coordinates = coordinates
        """Of one PE that has this code, for messages."""
        self.variables: list[GlobalVariable] = []
        self.tasks: list[c.TaskBinding] = []
        self.bound: dict[tuple[TargetKind, int], str] = {}
        self.active: list[Target] = []
        self.activated: dict[int, tuple[Frame, tree.Node]] = {}
        """Local task ids that something activates, and where first."""
        self.blocked: dict[tuple[TargetKind, int], bool] = {}
        self.queues: dict[tuple[bool, int], c.QueueInitialisation] = {}
        self.used_queues: dict[tuple[bool, int | None, int | None], UsedQueue] = {}
        self.more_colors: list[c.QueueInitialisation] = []
        """WSE-2: further colors of input queues."""
        self.fifos: list[c.Fifo] = []
        self.fifo_registers = FifoRegisters()
        self.dsr_loads: list[c.InitialDsrLoad] = []
        self.handlers: dict[tuple[str, int], c.Handler] = {}
        self.exports: dict[str, c.Export] = {}
        self.symbols: list[tuple[str, GlobalVariable]] = []
        self.initial_services: list[c.InitialService] = []
        """What comptime blocks ask of the machine, in order."""
        self.colors: dict[int, tuple[ColorConfiguration, Span]] = {}
        """Colors that the code configures, and where."""
        self.has_control_table = False
        """WSE-3: control tasks have ids of their own."""
        self.in_one_table: list[tuple[Frame, tree.Node, str]] = []
        """WSE-3: ids of a local and a control task, which need a table for control tasks."""
        self.control_mask: tuple[Frame, tree.Node] | None = None
        """Where the code sets the mask of control wavelets."""
        self.has_control_transform = False
        self.has_memcpy = False
        """Whether the code imports <memcpy/memcpy>."""
        self.shared_with_memcpy: list[tuple[Frame, tree.Node, str]] = []
        """What the code uses and memcpy too, if the PE has it."""
        self.next_address = FIRST_ADDRESS
        self._pool: dict[object, GlobalVariable] = {}
        self._symbol_addresses: GlobalVariable | None = None
        self._jobs: list[_Job] = []
        self._numbers: dict[Specialization, int] = {}
        self._compiled = 0
        self.stand_ins: dict[int, int] = {}
        """Code that is bound to a task's id and calls the task, by the task's number."""
        self._locals: dict[int, list[GlobalVariable]] = {}

    # Memory.

    def place(self, variable: GlobalVariable) -> int:
        """Gives a variable the next address that its alignment allows, as published counts show."""
        mask = variable.alignment - 1
        address = (self.next_address + mask) & ~mask
        self.next_address = address + t.size_of(variable.type)
        self.variables.append(variable)
        return address

    def pooled(self, value: Const, frame: Frame, node: tree.Node) -> GlobalVariable:
        """A constant in memory; equal ones are one."""
        assert not t.is_comptime_only(value.type), "`in_memory` and `flattened` refuse these"
        found = self._pool.get(value.key)
        if found is None:
            name = self.unique_name(frame.module.qualified("constant"))
            found = GlobalVariable(
                self.place, name, value.type, is_const=True, position=frame.position(node)
            )
            found.initial = value
            self._pool[value.key] = found
        return found

    def local_variable(
        self, builder: FunctionBuilder, name: str, type_: Type, position: Position
    ) -> GlobalVariable:
        """Memory for a local variable of a function: its own, since functions do not nest."""
        unique = self.unique_name(f"{builder.name}.{name}")
        variable = GlobalVariable(self.place, unique, type_, is_const=False, position=position)
        self._locals.setdefault(id(builder), []).append(variable)
        return variable

    def symbol_addresses(self) -> GlobalVariable:
        """The addresses of the exported variables by their numbers; 0 for all other symbols."""
        if self._symbol_addresses is None:
            type_ = t.array_type((len(self.declared_exports),), t.U16)
            name = self.unique_name("symbol addresses")
            self._symbol_addresses = GlobalVariable(
                self.place, name, type_, is_const=True, position=Position(0, 1, 1)
            )
        return self._symbol_addresses

    def _fill_symbol_addresses(self) -> None:
        if self._symbol_addresses is None:
            return
        found = [self.exports.get(name) for name in self.declared_exports]
        addresses = [export.address or 0 if export else 0 for export in found]
        self._symbol_addresses.initial = Const(self._symbol_addresses.type, addresses)

    def name_fifo(self, fifo: Const, name: str) -> None:
        """Says what a FIFO is called."""
        reference: FifoReference = fifo.value
        old = self.fifos[reference.fifo]
        if old.name == "fifo":
            values = {slot: getattr(old, slot) for slot in old.__slots__}
            self.fifos[reference.fifo] = c.Fifo(**{**values, "name": name})

    # Functions.

    def function_index(self, function: FunctionValue, frame: Frame, node: tree.Node) -> int:
        """A function's number, for its address or a binding: compiled for any arguments."""
        fn = function.node
        if fn.body is None:
            function = extern_function(function, node, frame)
            fn = function.node
        if fn.is_inline:
            frame.fail(node, f"inline function '{fn.name}' has no address")
        signature = function.module.lookup(fn.name, frame, node).type
        if not isinstance(signature, t.FunctionType):
            frame.silent()
        types: list[Type] = []
        for parameter, type_ in zip(fn.parameters, signature.parameters, strict=True):
            if type_ is None or parameter.is_comptime or t.is_comptime_only(type_):
                frame.fail(
                    node, f"'{fn.name}' depends on arguments at compile time and has no address"
                )
            types.append(type_)
        inner = Frame(function.module, what=f"function '{fn.name}'", caller=frame, call_node=node)
        result = result_type(function, inner)
        key = Specialization(function, tuple(types))
        return self.request(key, types, [None] * len(types), result, frame, node)

    def request(
        self,
        key: object,
        types: list[Type],
        constants: list[Const | None],
        result: Type,
        frame: Frame,
        node: tree.Node,
    ) -> int:
        """A function's number; it is compiled later if this is its first use."""
        assert isinstance(key, Specialization)
        number = self._numbers.get(key)
        if number is None:
            if len(self._jobs) >= MAX_FUNCTIONS:
                frame.fail(node, f"more than {MAX_FUNCTIONS} functions, with those made for others")
            fn = key.function.node
            module = key.function.module
            name = self.unique_name(module.qualified(fn.name))
            builder = FunctionBuilder(
                name, self.session.position(module.unit.source, fn.name_start)
            )
            number = self._numbers[key] = len(self._jobs)
            self._jobs.append(_Job(key.function, types, constants, result, builder))
        return number

    def task_target(self, task: FunctionValue, frame: Frame, node: tree.Node) -> Target:
        """The id that a task is bound to."""
        if not task.node.is_task:
            frame.fail(node, f"'{task.node.name}' is a function, not a task")
        index = self.function_index(task, frame, node)
        index = self.stand_ins.get(index, index)
        for binding in self.tasks:
            if binding.function == index:
                kind = TargetKind(f"{binding.kind}_task")
                return Target(kind, Constant(POINTER, binding.id))
        frame.fail(node, f"task '{task.node.name}' is not bound to an id")

    def job_types(self, number: int) -> list[Type]:
        """The parameter types of a function."""
        return self._jobs[number].types

    def add_emitted(
        self, function: FunctionValue, types: list[Type], builder: FunctionBuilder
    ) -> int:
        """The number of code that stands before a function of these parameters."""
        job = _Job(function, types, [None] * len(types), t.VOID, builder, is_emitted=True)
        job.num_parameters = len(types)
        self._jobs.append(job)
        return len(self._jobs) - 1

    def compile_pending(self) -> None:
        """Compiles the functions that are waiting, and those that they call."""
        while self._compiled < len(self._jobs):
            job = self._jobs[self._compiled]
            self._compiled += 1
            if job.is_emitted:
                continue
            module = job.function.module
            what = f"function '{job.function.node.name}'"
            frame = Frame(module, what=what, builder=job.builder)
            try:
                job.num_parameters = compile_function(
                    frame, job.function, job.types, job.constants, job.result
                )
            except CslError as error:
                guard(self.session, error)

    # The end.

    def finish(self, file: str, parameters: str, root: Scope) -> c.CodeClass:
        """Everything collected, as a code class."""
        self._check_control_mask()
        self._check_shared_with_memcpy()
        self.fifo_registers.check()
        for frame, node, text in () if self.has_control_table else self.in_one_table:
            frame.error(node, f"{text}; wse3 has one table for both")
        self._fill_symbol_addresses()
        variables = self._variables(root)
        waits = self._waiting()
        functions = []
        for number, job in enumerate(self._jobs):
            result: MachineType | None = returned_machine(job.result)
            made = job.builder.finish(job.num_parameters, result, may_wait=number in waits)
            functions.append(self.fifo_registers.resolved(made))
        self._check_memory(functions, root)
        self._check_activated()
        self._check_recursion(root)
        numbers = {id(variable): at for at, variable in enumerate(self.variables)}
        symbols = tuple(
            c.MemorySymbol(name, numbers[id(variable)]) for name, variable in self.symbols
        )
        return c.CodeClass(
            file=file,
            parameters=parameters,
            functions=tuple(functions),
            variables=tuple(variables),
            tasks=tuple(self.tasks),
            active=tuple(self.active),
            blocked=self._with_state(blocked=True),
            unblocked=self._with_state(blocked=False),
            queues=(*self.queues.values(), *self.more_colors),
            fifos=tuple(self.fifos),
            dsr_loads=tuple(self.dsr_loads),
            handlers=tuple(self.handlers.values()),
            exports=tuple(self.exports.values()),
            symbols=symbols,
            initial_services=tuple(self.initial_services),
            memory_end=self.next_address,
        )

    def _check_shared_with_memcpy(self) -> None:
        for frame, node, what in self.shared_with_memcpy if self.has_memcpy else ():
            frame.error(node, f"{what} is reserved by memcpy; take another")

    def _check_control_mask(self) -> None:
        if self.control_mask is not None and self.has_control_transform:
            frame, node = self.control_mask
            text = "the mask of '.control_transform' is not simulated; give the DSDs none"
            frame.error(node, text)

    def _with_state(self, *, blocked: bool) -> tuple[c.Blocked, ...]:
        return tuple(c.Blocked(*key) for key, state in self.blocked.items() if state is blocked)

    def _variables(self, root: Scope) -> list[c.Variable]:
        """The placed variables; writing a pointer may place another behind them."""
        found: list[c.Variable] = []
        at = 0
        for _, variable in self.symbols:
            variable.placed_address()
        while at < len(self.variables):
            found.append(_program_variable(self.variables[at], root))
            self.compile_pending()
            at += 1
        linked = [v for v in self.variables if v.linkname]
        self.symbols += [(v.linkname, v) for v in linked if v.linkname]
        return found

    def _waiting(self) -> set[int]:
        """Functions in which a task may stop: they have a DSD operation, or call such a one."""
        waits = {at for at, job in enumerate(self._jobs) if job.builder.may_stop}
        changed = True
        while changed:
            more = {
                at
                for at, job in enumerate(self._jobs)
                if at not in waits and not job.builder.calls.isdisjoint(waits)
            }
            waits |= more
            changed = bool(more)
        return waits

    def _check_memory(self, functions: list[c.Function], root: Scope) -> None:
        variables = [Symbol(v.name, t.size_of(v.type), str(v.type)) for v in self.variables]
        problem = overflow(
            variables,
            code_symbols(functions, self.tasks, self.dsr_loads),
            variables_end=self.next_address,
            coordinates=self.coordinates,
            span=root_span(root),
        )
        if problem is not None:
            self.session.report(problem)

    def _check_activated(self) -> None:
        """An id without a task would be active for ever, and nothing would happen."""
        for number, (frame, node) in self.activated.items():
            if (TargetKind.LOCAL_TASK, number) not in self.bound:
                text = f"local task id {number} is activated, but bound to no task"
                frame.error(node, f"{text}; call @bind_local_task")

    def _check_recursion(self, root: Scope) -> None:
        """Refuses functions that call themselves while their variables are in memory."""
        for number, job in enumerate(self._jobs):
            kept = self._locals.get(id(job.builder))
            if kept and self._reaches(number, number):
                fn = job.function.node
                names = ", ".join(sorted({v.name.rsplit(".", 1)[-1] for v in kept}))
                frame = job.function.module.frame
                frame.error(
                    tree.Node(fn.name_start, fn.name_start + len(fn.name)),
                    f"function '{fn.name}' calls itself, which is not possible while {names} "
                    f"must be in memory",
                )

    def _reaches(self, start: int, goal: int) -> bool:
        seen: set[int] = set()
        pending = list(self._jobs[start].builder.calls)
        while pending:
            number = pending.pop()
            if number == goal:
                return True
            if number not in seen:
                seen.add(number)
                pending.extend(self._jobs[number].builder.calls)
        return False


def root_span(root: Scope) -> Span:
    """The beginning of a module's file."""
    return root.frame.span(tree.Node(0, 0))


def _program_variable(variable: GlobalVariable, root: Scope) -> c.Variable:
    initial: bytes = b""
    descriptors: tuple[tuple[int, Descriptor], ...] = ()
    if variable.initial is not None:
        node = tree.Node(0, 0)
        initial, descriptors = initial_image(variable.type, variable.initial, root.frame, node)
    type_ = variable.type
    shape: tuple[int, ...] = ()
    if isinstance(type_, t.ArrayType):
        shape, type_ = type_.dimensions, type_.element
    return c.Variable(
        name=variable.name,
        address=variable.placed_address(),
        num_bytes=t.size_of(variable.type),
        alignment=variable.alignment,
        initial=initial,
        descriptors=descriptors,
        element=type_.machine,
        shape=shape,
        mutable=not variable.is_const,
        position=variable.position,
        fields=fields_of(type_),
    )


def run_modules(world: World, run: Callable[[Scope], None]) -> None:
    """Runs the comptime blocks of modules that are waiting, and of those they import."""
    while world.pending:
        run(world.pending.pop(0))


def run_comptime_blocks(module: Scope) -> None:
    """Evaluates what a module imports, and runs its comptime blocks."""
    frame = module.frame
    for name, item in module.unit.declarations.items():
        try:
            if isinstance(item, tree.Declaration) and _must_evaluate(item):
                binding = module.lookup(name, frame, item)
                if item.is_exported and isinstance(binding, GlobalVariable):
                    _export(module, name, binding)
            elif isinstance(item, tree.Function) and item.is_exported:
                value = module.lookup(name, frame, item)
                if isinstance(value, Const) and isinstance(value.value, FunctionValue):
                    frame.world.function_index(value.value, frame, item)
        except CslError as error:
            guard(frame.world.session, error)
    for block in module.unit.blocks:
        if block.kind != "comptime":
            continue
        inner = Frame(module, what=f"'{module.unit.source.path}'")
        try:
            run_block(block.body, inner)
        except CslError as error:
            guard(frame.world.session, error)


def _export(module: Scope, name: str, variable: GlobalVariable) -> None:
    world = module.world
    assert isinstance(world, TileWorld)
    symbol = variable.linkname or name
    if any(symbol == other for other, _ in world.symbols):
        text = f"symbol '{symbol}' is exported already; give one of them another linkname"
        module.frame.fail(module.unit.declarations[name], text)
    world.symbols.append((symbol, variable))


def _must_evaluate(item: tree.Declaration) -> bool:
    """Whether a global has an effect even if nothing uses it."""
    if item.is_exported:
        return True
    return item.value is not None and tree.has_call(item.value, "import_module")
