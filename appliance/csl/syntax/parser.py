"""Statements, declarations and files: the upper half of the parser."""

from appliance.csl.diagnostics import CslError, Diagnostic
from appliance.csl.sources import Source
from appliance.csl.syntax import tree
from appliance.csl.syntax.expressions import ExpressionParser
from appliance.csl.syntax.tokens import Token, TokenKind

MAX_SYNTAX_ERRORS = 20
_ATTRIBUTES = frozenset(("align", "linksection", "linkname"))
_TOP_WORDS = frozenset(
    [
        "const",
        "var",
        "param",
        "fn",
        "task",
        "comptime",
        "layout",
        "export",
        "extern",
        "inline",
        "noinline",
    ]
)


def parse(source: Source) -> tuple[tree.File, list[Diagnostic]]:
    """Parses a file.

    After an error the parser goes on at the next statement or declaration, so that one run
    reports several; what could not be read is missing from the tree.
    """
    parser = _Parser(source)
    return parser.file(), parser.errors


class _Parser(ExpressionParser):
    """Parses statements and declarations."""

    def file(self) -> tree.File:
        items: list[tree.Declaration | tree.Function | tree.TopBlock] = []
        while self.token.kind is not TokenKind.END and len(self.errors) < MAX_SYNTAX_ERRORS:
            self.depth = 0
            start = self.at
            try:
                items.append(self._top())
                while self.accept(";"):
                    pass
            except CslError as error:
                self.failed(error)
                self._skip_to_top(start)
        return tree.File(0, len(self.source.text), items, self.tokens, self.comments)

    def _skip_to_top(self, start: int) -> None:
        """Goes to the next word that begins a declaration and stands first on its line."""
        if self.at == start:
            self.advance()
        text = self.source.text
        while self.token.kind is not TokenKind.END:
            before = self.token.start
            is_first = before == 0 or text[before - 1] == "\n"
            if is_first and self.token.text in _TOP_WORDS:
                return
            self.advance()

    def _top(self) -> tree.Declaration | tree.Function | tree.TopBlock:
        start = self.token.start
        if self.token.text in ("comptime", "layout") and self.peek().text == "{":
            kind = self.advance().text
            body = self.block()
            return tree.TopBlock(start, body.end, kind, body)
        flags = {"export": False, "extern": False, "inline": False, "noinline": False}
        while self.token.text in flags:
            flags[self.advance().text] = True
        if flags["inline"] and flags["noinline"]:
            raise self.error("a function is 'inline' or 'noinline'", start, self.previous_end())
        if self.sees("fn") or self.sees("task"):
            return self._function(start, flags)
        if self.token.text in ("const", "var", "param") and not flags["noinline"]:
            found = self._declaration(start)
            found.is_exported = flags["export"]
            found.is_extern = flags["extern"]
            return found
        if self.token.text == "color" and self.peek().kind == TokenKind.NAME:
            return self._old_color(start)
        raise self.unexpected("a declaration ('const', 'var', 'param', 'fn', 'task', ...)")

    def _old_color(self, start: int) -> tree.Declaration:
        """`color name;`, the old form of `param name: color;`."""
        word = self.advance()
        name = self.advance()
        self.expect(";")
        type_ = tree.Name(word.start, word.end, "color")
        return tree.Declaration(
            start, self.previous_end(), "param", name.text, name.start, type_, [], None
        )

    def _result_type(self, name: Token, *, is_task: bool) -> tree.Expression:
        """What a function returns; a task returns nothing and need not say so."""
        if not self.sees("{"):
            return self.type()
        if is_task:
            return tree.Name(name.start, name.end, "void")
        text = f"'{name.text}' has no result type; write 'void' before the '{{'"
        raise self.error(text, name.start, self.previous_end())

    def _function(self, start: int, flags: dict[str, bool]) -> tree.Function:
        is_task = self.advance().text == "task"
        name = self.expect_name("a function's name")
        self.expect("(")
        parameters: list[tree.Parameter] = []
        while not self.sees(")"):
            parameters.append(self._parameter(len(parameters), may_lack_name=flags["extern"]))
            if not self.accept(","):
                break
        self.expect(")")
        attributes = self._attributes()
        result = self._result_type(name, is_task=is_task)
        attributes += self._attributes()
        body = None if self.accept(";") else self.block()
        return tree.Function(
            start, self.previous_end(), name.text, name.start, is_task, flags["inline"],
            flags["export"], flags["extern"], parameters, attributes, result, body,
        )  # fmt: skip

    def _parameter(self, at: int, *, may_lack_name: bool) -> tree.Parameter:
        """A parameter; of an extern function it may be a type alone."""
        start = self.token.start
        if may_lack_name and not (self.token.kind == TokenKind.NAME and self.peek().text == ":"):
            alone = self.type()
            return tree.Parameter(start, alone.end, f"argument {at}", alone, False)
        is_comptime = self.accept("comptime")
        name = self.expect_name("a parameter's name")
        self.expect(":")
        if self.token.text == "anytype" and self.token.kind == TokenKind.NAME:
            self.advance()
            return tree.Parameter(start, self.previous_end(), name.text, None, is_comptime)
        type_ = self.type()
        return tree.Parameter(start, type_.end, name.text, type_, is_comptime)

    def _attributes(self) -> list[tree.Attribute]:
        found: list[tree.Attribute] = []
        while (
            self.token.text in _ATTRIBUTES
            and self.token.kind == TokenKind.NAME
            and self.peek().text == "("
        ):
            word = self.advance()
            self.expect("(")
            value = self.expression()
            self.expect(")")
            found.append(tree.Attribute(word.start, self.previous_end(), word.text, value))
        return found

    def _declaration(self, start: int) -> tree.Declaration:
        kind = self.advance().text
        name = self.expect_name(f"the name of a {kind}")
        type_ = self.type() if self.accept(":") else None
        attributes = self._attributes()
        value = self.expression() if self.accept("=") else None
        self.expect(";")
        return tree.Declaration(
            start, self.previous_end(), kind, name.text, name.start, type_, attributes, value
        )

    # Statements.

    def block(self) -> tree.Block:
        """`{ ... }`, with a label or without."""
        self.enter()
        start = self.token.start
        label = None
        if self.token.kind == TokenKind.NAME and self.peek().text == ":":
            label = self.advance().text
            self.advance()
        self.expect("{")
        statements: list[tree.Statement] = []
        while not self.sees("}") and self.token.kind is not TokenKind.END:
            if self.accept(";"):
                continue
            self._statement_or_error(statements)
        self.expect("}")
        self.leave()
        return tree.Block(start, self.previous_end(), label, statements)

    def _statement_or_error(self, statements: list[tree.Statement]) -> None:
        depth = self.depth
        start = self.at
        try:
            statements.append(self.statement())
        except CslError as error:
            if self.at == start:
                self.advance()
            self.failed(error)
            if len(self.errors) >= MAX_SYNTAX_ERRORS:
                raise
            self.depth = depth
            self._skip_statement()

    def _skip_statement(self) -> None:
        """Goes past the next `;`, or to the `}` of the block that holds the statement."""
        level = 0
        while self.token.kind is not TokenKind.END:
            text = self.token.text
            if text in ("{", ".{"):
                level += 1
            elif text == "}":
                if level == 0:
                    return
                level -= 1
            elif text == ";" and level == 0:
                self.advance()
                return
            self.advance()

    def statement(self) -> tree.Statement:
        """One statement."""
        token = self.token
        if token.kind is TokenKind.KEYWORD:
            parse_statement = _STATEMENTS.get(token.text)
            if parse_statement is not None:
                self.enter()
                found = parse_statement(self)
                self.leave()
                return found
        if token.text == "{":
            return self.block()
        if token.kind == TokenKind.NAME and self.peek().text == ":":
            if self.peek(2).text == "{":
                return self.block()
            return self._labelled_loop()
        return self._simple(end=";")

    def _simple(self, end: str | None) -> tree.Statement:
        """An assignment or a call; `end` must follow, if given."""
        target = self.expression()
        if self.is_assignment():
            op = self.advance().text
            value = self.expression()
            if end:
                self.expect(end)
            return tree.Assignment(target.start, value.end, op, target, value)
        if end:
            self.expect(end)
        return tree.ExpressionStatement(target.start, target.end, target)

    def _labelled_loop(self) -> tree.Statement:
        label = self.advance().text
        self.expect(":")
        is_inline = self.accept("inline")
        if self.sees("while"):
            return self._while(label, is_inline=is_inline)
        if self.sees("for"):
            return self._for(label, is_inline=is_inline)
        raise self.unexpected("a loop or block after its label")

    def _inline_loop(self) -> tree.Statement:
        start = self.expect("inline").start
        is_while = self.sees("while")
        loop = self._while(None, is_inline=True) if is_while else self._for(None, is_inline=True)
        loop.start = start
        return loop

    def _while(self, label: str | None = None, *, is_inline: bool = False) -> tree.Statement:
        start = self.expect("while").start
        condition = self._parenthesised()
        step = None
        if self.accept(":"):
            self.expect("(")
            step = self._simple(end=None)
            self.expect(")")
        body = self._body()
        return tree.While(start, body.end, label, is_inline, condition, step, body)

    def _for(self, label: str | None = None, *, is_inline: bool = False) -> tree.Statement:
        start = self.expect("for").start
        self._check_sequence()
        sequence = self._parenthesised()
        self.expect("|")
        item = self._variable()
        index = self._variable() if self.accept(",") else None
        self.expect("|")
        body = self._body()
        return tree.For(start, body.end, label, is_inline, sequence, item, index, body)

    def _check_sequence(self) -> None:
        """Refuse a loop as C has it."""
        first, second = self.peek(), self.peek(2)
        declares = first.text in ("var", "const") and first.kind is TokenKind.KEYWORD
        if self.sees("(") and (declares or second.text == "="):
            text = "a 'for' goes over a range or an array; write 'for (@range(u16, n)) |i| { ... }'"
            raise self.error(text, first.start, second.end)

    def _body(self) -> tree.Statement:
        """A block or one statement."""
        return self.block() if self.sees("{") else self.statement()

    def _if(self) -> tree.Statement:
        start = self.expect("if").start
        condition = self._parenthesised()
        then = self._then_body()
        otherwise = self._body() if self.accept("else") else None
        return tree.If(start, (otherwise or then).end, condition, then, otherwise)

    def _then_body(self) -> tree.Statement:
        """As `_body`, but a statement before `else` needs no `;`."""
        if self.sees("{") or self.token.text in _STATEMENTS:
            return self._body()
        then = self._simple(end=None)
        if not self.sees("else"):
            self.expect(";")
        return then

    def _switch_statement(self) -> tree.Statement:
        value = self.switch()
        self.accept(";")
        return tree.ExpressionStatement(value.start, value.end, value)

    def _return(self) -> tree.Statement:
        start = self.expect("return").start
        value = None if self.sees(";") else self.expression()
        self.expect(";")
        return tree.Return(start, self.previous_end(), value)

    def _break(self) -> tree.Statement:
        start = self.expect("break").start
        label = self._label()
        value = None if self.sees(";") else self.expression()
        self.expect(";")
        return tree.Break(start, self.previous_end(), label, value)

    def _continue(self) -> tree.Statement:
        start = self.expect("continue").start
        label = self._label()
        self.expect(";")
        return tree.Continue(start, self.previous_end(), label)

    def _label(self) -> str | None:
        return self.expect_name("a label").text if self.accept(":") else None

    def _local(self) -> tree.Statement:
        return self._declaration(self.token.start)

    def _comptime(self) -> tree.Statement:
        start = self.expect("comptime").start
        body = self._body()
        return tree.ComptimeStatement(start, body.end, body)

    def case_body(self) -> tree.Statement | tree.Expression:
        """What follows `=>`: a block, a statement that leaves, an assignment or a value."""
        if self.sees("{"):
            return self.block()
        if self.token.text in ("return", "break", "continue"):
            return self._leaving_case()
        found = self._simple(end=None)
        return found.value if isinstance(found, tree.ExpressionStatement) else found

    def _leaving_case(self) -> tree.Statement:
        """`return x`, `break` or `continue` as the whole prong, before its comma."""
        word = self.advance()
        label = self._label() if word.text != "return" else None
        value = None
        if word.text != "continue" and self.token.text not in (",", "}", ";"):
            value = self.expression()
        self.accept(";")
        end = self.previous_end()
        if word.text == "return":
            return tree.Return(word.start, end, value)
        if word.text == "break":
            return tree.Break(word.start, end, label, value)
        return tree.Continue(word.start, end, label)


_STATEMENTS = {
    "if": _Parser._if,
    "while": _Parser._while,
    "for": _Parser._for,
    "inline": _Parser._inline_loop,
    "switch": _Parser._switch_statement,
    "return": _Parser._return,
    "break": _Parser._break,
    "continue": _Parser._continue,
    "const": _Parser._local,
    "var": _Parser._local,
    "param": _Parser._local,
    "comptime": _Parser._comptime,
}
