"""Expressions and types: the lower half of the parser."""

from appliance.csl.diagnostics import CslError
from appliance.csl.syntax import tree
from appliance.csl.syntax.cursor import Cursor
from appliance.csl.syntax.literals import LiteralError, float_value, int_value, string_value
from appliance.csl.syntax.tokens import Token, TokenKind

_BINARY = {
    "or": 1,
    "and": 2,
    **dict.fromkeys(("==", "!=", "<", ">", "<=", ">="), 3),
    "|": 4,
    "^": 5,
    "&": 6,
    **dict.fromkeys(("<<", ">>"), 7),
    **dict.fromkeys(("+", "-"), 8),
    **dict.fromkeys(("*", "/", "%"), 9),
}
_DOUBLED = {"&": "'and'", "|": "'or'", "+": "'i += 1'", "-": "'i -= 1'"}
"""Operators that other languages have twice, and what CSL has."""
_UNARY = frozenset(("-", "!", "~", "&", "comptime"))
_ASSIGNMENTS = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="))


class ExpressionParser(Cursor):
    """Parses expressions."""

    def expression(self, level: int = 1) -> tree.Expression:
        """An expression whose operators bind at least as tightly as `level`."""
        self.enter()
        left = self.unary()
        while True:
            token = self.token
            binding = _BINARY.get(token.text, 0)
            if binding < level or token.kind not in (TokenKind.OPERATOR, TokenKind.KEYWORD):
                self.leave()
                return left
            self.advance()
            self._check_doubled(token)
            right = self.expression(binding + 1)
            left = tree.Binary(left.start, right.end, token.text, left, right, token.start)

    def _check_doubled(self, token: Token) -> None:
        """Refuse operators of other languages that are one of CSL twice."""
        instead = _DOUBLED.get(token.text)
        is_twice = self.token.text == token.text and self.token.start == token.end
        # `a --b` is `a - (-b)`, but nothing can follow `a--` of other languages.
        is_behind = token.text != "-" or self.peek().text in (";", ")")
        if instead is not None and is_twice and is_behind:
            text = f"there is no '{2 * token.text}' in CSL; write {instead}"
            raise self.error(text, token.start, self.token.end)

    def unary(self) -> tree.Expression:
        """A prefix operator and its operand."""
        token = self.token
        if token.text not in _UNARY or token.kind not in (TokenKind.OPERATOR, TokenKind.KEYWORD):
            return self.postfix(self.primary(), with_initializer=True)
        self.enter()
        self.advance()
        operand = self.unary()
        self.leave()
        if token.text == "comptime":
            return tree.Comptime(token.start, operand.end, operand)
        return tree.Unary(token.start, operand.end, token.text, operand)

    def postfix(self, value: tree.Expression, *, with_initializer: bool) -> tree.Expression:
        """What follows a primary: members, calls, indices, dereferences, initialisers."""
        while True:
            text = self.token.text
            if self.token.kind != TokenKind.OPERATOR:
                return value
            if text == ".*":
                self.advance()
                value = tree.Dereference(value.start, self.previous_end(), value)
            elif text == ".":
                self.advance()
                name = self.expect_name("a member's name")
                value = tree.Member(value.start, name.end, value, name.text, name.start)
            elif text == "(":
                arguments = self.arguments()
                value = tree.Call(value.start, self.previous_end(), value, arguments)
            elif text == "[":
                value = self._index(value)
            elif text == "{" and with_initializer and self._begins_initializer(value):
                value = self.initializer(value, value.start)
            else:
                return value

    def _index(self, value: tree.Expression) -> tree.Expression:
        self.expect("[")
        indices = [self.expression()]
        while self.accept(",") and not self.sees("]"):
            indices.append(self.expression())
        self.expect("]")
        return tree.Index(value.start, self.previous_end(), value, indices)

    def _begins_initializer(self, value: tree.Expression) -> bool:
        """Whether `{` after a value gives it fields rather than begins a block."""
        if isinstance(value, tree.ArrayType | tree.StructType):
            return True
        if not isinstance(value, tree.Name | tree.Member | tree.Call | tree.BuiltinCall):
            return False
        first, second, third = self.peek(1), self.peek(2), self.peek(3)
        if first.text == "." and second.kind == TokenKind.NAME and third.text == "=":
            return True
        return first.text == "}" and isinstance(value, tree.Name | tree.Member | tree.Call)

    def arguments(self) -> list[tree.Expression]:
        """`(a, b)`; a comma may follow the last."""
        self.expect("(")
        found: list[tree.Expression] = []
        while not self.sees(")"):
            found.append(self.expression())
            if not self.accept(","):
                break
        self.expect(")")
        return found

    def initializer(self, type_: tree.Expression | None, start: int) -> tree.Initializer:
        """`{ .name = value, value, }` with its bracket."""
        self.enter()
        if not self.accept(".{"):
            self.expect("{")
        found: list[tree.FieldValue] = []
        while not self.sees("}"):
            found.append(self._field_value())
            if not self.accept(","):
                break
        self.expect("}")
        self.leave()
        return tree.Initializer(start, self.previous_end(), type_, found)

    def _field_value(self) -> tree.FieldValue:
        start = self.token.start
        name = None
        if self.sees(".") and self.peek().kind == TokenKind.NAME and self.peek(2).text == "=":
            self.advance()
            name = self.advance().text
            self.advance()
        value = self.expression()
        return tree.FieldValue(start, value.end, name, value)

    def primary(self) -> tree.Expression:
        """A literal, a name, something in brackets, a type."""
        token = self.token
        if token.kind in _LITERALS:
            return self._literal()
        if token.kind == TokenKind.NAME:
            if self.peek().text == ":" and self.peek(2).text == "{":
                return self._block_expression()
            self.advance()
            return tree.Name(token.start, token.end, token.text)
        if token.kind == TokenKind.BUILTIN:
            self.advance()
            arguments = self.arguments()
            return tree.BuiltinCall(token.start, self.previous_end(), token.text[1:], arguments)
        parse = _PRIMARIES.get(token.text)
        if parse is None or token.kind not in (TokenKind.OPERATOR, TokenKind.KEYWORD):
            raise self.unexpected("an expression")
        self.enter()
        value = parse(self)
        self.leave()
        return value

    def _literal(self) -> tree.Expression:
        token = self.advance()
        try:
            if token.kind == TokenKind.INT:
                return tree.IntLiteral(token.start, token.end, int_value(token.text))
            if token.kind == TokenKind.FLOAT:
                return tree.FloatLiteral(token.start, token.end, float_value(token.text))
            value = string_value(token.text)
        except LiteralError as error:
            raise self.error(str(error), token.start, token.end) from error
        if token.kind == TokenKind.STRING:
            return tree.StringLiteral(token.start, token.end, value)
        if len(value) != 1:
            raise self.error("a character literal holds one byte", token.start, token.end)
        return tree.IntLiteral(token.start, token.end, value[0])

    def _parenthesised(self) -> tree.Expression:
        self.expect("(")
        value = self.expression()
        self.expect(")")
        return value

    def _anonymous(self) -> tree.Expression:
        return self.initializer(None, self.token.start)

    def _block_expression(self) -> tree.Expression:
        block = self.block()
        return tree.BlockExpression(block.start, block.end, block)

    def _if_expression(self) -> tree.Expression:
        start = self.expect("if").start
        condition = self._parenthesised()
        then = self.expression()
        otherwise = self.expression() if self.accept("else") else None
        end = (otherwise or then).end
        return tree.IfExpression(start, end, condition, then, otherwise)

    def switch(self) -> tree.Expression:
        """`switch`, as a value or a statement."""
        start = self.expect("switch").start
        operand = self._parenthesised()
        self.expect("{")
        cases: list[tree.SwitchCase] = []
        while not self.sees("}"):
            case = self._switch_case()
            if not case.values and any(not other.values for other in cases):
                raise self.error("a 'switch' has one 'else'", case.start, case.end)
            cases.append(case)
            if not self.accept(",") and not self.sees("}") and not self._ends_block(cases[-1]):
                break
        self.expect("}")
        return tree.SwitchExpression(start, self.previous_end(), operand, cases)

    def _ends_block(self, case: tree.SwitchCase) -> bool:
        return isinstance(case.body, tree.Block)

    def _switch_case(self) -> tree.SwitchCase:
        start = self.token.start
        values: list[tree.Expression] = []
        if not self.accept("else"):
            values.append(self.expression())
            while self.accept(",") and not self.sees("=>"):
                values.append(self.expression())
        self.expect("=>")
        body = self.case_body()
        return tree.SwitchCase(start, body.end, values, body)

    def _tensor_access(self) -> tree.Expression:
        start = self.expect("|").start
        variables = [self._variable()]
        while self.accept(","):
            variables.append(self._variable())
        self.expect("|")
        self.expect("{")
        extents = [self.expression()]
        while self.accept(",") and not self.sees("}"):
            extents.append(self.expression())
        self.expect("}")
        self.expect("->")
        operand = self.postfix(self.primary(), with_initializer=False)
        return tree.TensorAccess(start, operand.end, variables, extents, operand)

    def _variable(self) -> tree.Name:
        token = self.expect_name("the name of a variable")
        return tree.Name(token.start, token.end, token.text)

    # Types. They are expressions, except that `{` after one begins the body of a function.

    def type(self) -> tree.Expression:
        """A type, not followed by an initialiser."""
        self.enter()
        if self.token.text in _TYPE_PREFIXES and self.token.kind in (
            TokenKind.OPERATOR,
            TokenKind.KEYWORD,
        ):
            value = _PRIMARIES[self.token.text](self)
        else:
            value = self.postfix(self.primary(), with_initializer=False)
        self.leave()
        return value

    def _pointer_type(self) -> tree.Expression:
        start = self.expect("*").start
        const = self.accept("const")
        target = self.type()
        return tree.PointerType(start, target.end, const, target)

    def _array_type(self) -> tree.Expression:
        start = self.expect("[").start
        if self.accept("*"):
            self.expect("]")
            const = self.accept("const")
            element = self.type()
            return tree.ManyPointerType(start, element.end, const, element)
        dimensions = [self.expression()]
        while self.accept(",") and not self.sees("]"):
            dimensions.append(self.expression())
        self.expect("]")
        element = self.type()
        return tree.ArrayType(start, element.end, dimensions, element)

    def _function_type(self) -> tree.Expression:
        token = self.advance()
        self.expect("(")
        parameters: list[tree.Expression] = []
        while not self.sees(")"):
            if self.token.kind == TokenKind.NAME and self.peek().text == ":":
                self.advance()
                self.advance()
            parameters.append(self.type())
            if not self.accept(","):
                break
        self.expect(")")
        result = self.type()
        return tree.FunctionType(token.start, result.end, token.text == "task", parameters, result)

    def _aggregate(self) -> tree.Expression:
        start = self.token.start
        prefix = self.token.text
        packed = self.accept("packed")
        is_extern = not packed and self.accept("extern")  # the layout that every struct has
        kind = self.advance().text
        if kind not in ("struct", "union"):
            text = f"expected 'struct' or 'union' after '{prefix}'"
            raise self.error(text, start, start + len(prefix))
        self.expect("{")
        fields: list[tree.FieldType] = []
        while not self.sees("}"):
            name = self.expect_name("a field's name")
            self.expect(":")
            type_ = self.type()
            fields.append(tree.FieldType(name.start, type_.end, name.text, type_))
            if not self.accept(","):
                break
        self.expect("}")
        return tree.StructType(start, self.previous_end(), kind, packed, fields, is_extern)

    def _enum(self) -> tree.Expression:
        start = self.expect("enum").start
        base = None
        if self.accept("("):
            base = self.type()
            self.expect(")")
        self.expect("{")
        members: list[tree.EnumMember] = []
        while not self.sees("}"):
            name = self.expect_name("a member's name")
            value = self.expression() if self.accept("=") else None
            members.append(tree.EnumMember(name.start, self.previous_end(), name.text, value))
            if not self.accept(","):
                break
        self.expect("}")
        return tree.EnumType(start, self.previous_end(), base, members)

    def block(self) -> tree.Block:
        """A block; the upper half of the parser defines it."""
        raise NotImplementedError

    def case_body(self) -> tree.Statement | tree.Expression:
        """What follows `=>`; the upper half of the parser defines it."""
        raise NotImplementedError

    def is_assignment(self) -> bool:
        """Whether the current token is `=`, `+=` and so on."""
        return self.token.kind == TokenKind.OPERATOR and self.token.text in _ASSIGNMENTS

    def failed(self, error: CslError) -> None:
        """Keeps an error after which parsing goes on."""
        self.errors.append(error.diagnostic)


_LITERALS = frozenset((TokenKind.INT, TokenKind.FLOAT, TokenKind.STRING, TokenKind.CHARACTER))
_TYPE_PREFIXES = frozenset(("*", "[", "fn", "task", "struct", "union", "packed", "extern", "enum"))
_PRIMARIES = {
    "(": ExpressionParser._parenthesised,
    ".{": ExpressionParser._anonymous,
    "{": ExpressionParser._block_expression,
    "if": ExpressionParser._if_expression,
    "switch": ExpressionParser.switch,
    "|": ExpressionParser._tensor_access,
    "*": ExpressionParser._pointer_type,
    "[": ExpressionParser._array_type,
    "fn": ExpressionParser._function_type,
    "task": ExpressionParser._function_type,
    "struct": ExpressionParser._aggregate,
    "union": ExpressionParser._aggregate,
    "packed": ExpressionParser._aggregate,
    "extern": ExpressionParser._aggregate,
    "enum": ExpressionParser._enum,
}
