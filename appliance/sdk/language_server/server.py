"""The protocol: `csl_lsp` answers an editor over standard input and output.

An analysis takes a moment, so it runs in a thread, one at a time, when typing has paused; questions
meanwhile are answered by the syntax and by the analysis before.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from appliance.core.errors import UserError
from appliance.csl.diagnostics import Diagnostic, Severity
from appliance.csl.sources import Span
from appliance.sdk.language_server.coloring import KINDS, colored
from appliance.sdk.language_server.completion import Entry, Kind, completion
from appliance.sdk.language_server.declarations import named_at
from appliance.sdk.language_server.hover import hover
from appliance.sdk.language_server.outline import outline
from appliance.sdk.language_server.renaming import Place, places_of, renamed
from appliance.sdk.language_server.signatures import signature_at
from appliance.sdk.language_server.workspace import Workspace

PAUSE_SECONDS = 0.2
"""Without a key before a changed program is analysed."""


class Server:
    """One editor's server.

    Args:
        protocol: Speaks to the editor.
        pause_seconds: Without a change before a program is analysed.
    """

    def __init__(self, protocol: LanguageServer, *, pause_seconds: float = PAUSE_SECONDS) -> None:
        self._protocol = protocol
        self._pause_seconds = pause_seconds
        self._workspace = Workspace(root=Path.cwd())
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="analysis")
        self._waiting: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._told: dict[str, set[str]] = {}
        for name, (answer, options) in self._answers().items():
            protocol.feature(name, options)(partial(answer))  # it marks what it is given

    # `Any`: each answer takes the parameters of its own question.
    def _answers(self) -> dict[str, tuple[Callable[[Any], Any], Any]]:
        """Return by the protocol's names what answers, and the options that it has."""
        legend = lsp.SemanticTokensLegend(token_types=list(KINDS), token_modifiers=[])
        members = lsp.CompletionOptions(trigger_characters=["@", ".", '"', "<"])
        arguments = lsp.SignatureHelpOptions(trigger_characters=["(", ","])
        return {
            lsp.INITIALIZE: (self._initialize, None),
            lsp.TEXT_DOCUMENT_DID_OPEN: (self._opened, None),
            lsp.TEXT_DOCUMENT_DID_CHANGE: (self._changed, None),
            lsp.TEXT_DOCUMENT_DID_SAVE: (self._saved, None),
            lsp.TEXT_DOCUMENT_DID_CLOSE: (self._closed, None),
            lsp.TEXT_DOCUMENT_HOVER: (self._hover, None),
            lsp.TEXT_DOCUMENT_DEFINITION: (self._definition, None),
            lsp.TEXT_DOCUMENT_REFERENCES: (self._references, None),
            lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL: (self._symbols, None),
            lsp.TEXT_DOCUMENT_RENAME: (self._rename, None),
            lsp.TEXT_DOCUMENT_COMPLETION: (self._completion, members),
            lsp.TEXT_DOCUMENT_SIGNATURE_HELP: (self._signature, arguments),
            lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL: (self._colors, legend),
        }

    # --- files

    def _initialize(self, params: lsp.InitializeParams) -> None:
        root = params.root_uri or next((each.uri for each in params.workspace_folders or ()), None)
        path = None if root is None else to_fs_path(root)
        if path is not None:
            self._workspace.root = Path(path)
        options = params.initialization_options
        commands = options.get("commands", ()) if isinstance(options, dict) else ()
        self._workspace.commands = [commands] if isinstance(commands, str) else list(commands)

    def _opened(self, params: lsp.DidOpenTextDocumentParams) -> None:
        self._take(params.text_document.uri, pause_seconds=0)

    def _changed(self, params: lsp.DidChangeTextDocumentParams) -> None:
        self._take(params.text_document.uri, pause_seconds=self._pause_seconds)

    def _saved(self, params: lsp.DidSaveTextDocumentParams) -> None:
        self._take(params.text_document.uri, pause_seconds=0)

    def _closed(self, params: lsp.DidCloseTextDocumentParams) -> None:
        self._workspace.texts.pop(_path(params.text_document.uri), None)

    def _take(self, uri: str, *, pause_seconds: float) -> None:
        """Take a file's text, and have its program analysed when there was no more for a while."""
        path = _path(uri)
        self._workspace.texts[path] = self._protocol.workspace.get_text_document(uri).source
        if path in self._waiting:
            self._waiting.pop(path).cancel()
        loop = asyncio.get_running_loop()
        self._waiting[path] = loop.call_later(pause_seconds, self._begin, path)

    def _begin(self, path: str) -> None:
        self._waiting.pop(path, None)
        task = asyncio.get_running_loop().create_task(self._analyse(path))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _analyse(self, path: str) -> None:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._thread, self._workspace.analyse, path)
        except UserError as error:
            shown = lsp.ShowMessageParams(type=lsp.MessageType.Error, message=str(error))
            self._protocol.window_show_message(shown)
            return
        former = self._told.pop(path, set()) - set(found)
        self._told[path] = {each for each, diagnostics in found.items() if diagnostics}
        for each in former:
            self._publish(each, [])
        for each, diagnostics in found.items():
            self._publish(each, diagnostics)

    def _publish(self, path: str, diagnostics: Sequence[Diagnostic]) -> None:
        self._protocol.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(
                uri=_uri(path), diagnostics=[self._diagnostic(each, path) for each in diagnostics]
            )
        )

    def _diagnostic(self, found: Diagnostic, path: str) -> lsp.Diagnostic:
        is_error = found.severity is Severity.ERROR
        spans = [found.span, *(note.span for note in found.notes)]
        place = next((each for each in spans if each and each.source.path == path), None)
        notes = [each for each in found.notes if each.span is not None]
        hidden = [each.text for each in found.notes if each.span is None]
        return lsp.Diagnostic(
            range=lsp.Range(lsp.Position(0, 0), lsp.Position(0, 0))
            if place is None
            else self._range_of(place),
            message="\n".join([found.text, *hidden]),
            severity=lsp.DiagnosticSeverity.Error if is_error else lsp.DiagnosticSeverity.Warning,
            source="cslc",
            related_information=[
                lsp.DiagnosticRelatedInformation(
                    lsp.Location(_uri(each.span.source.path), self._range_of(each.span)), each.text
                )
                for each in notes
                if each.span is not None and not each.span.source.path.startswith("<")
            ],
        )

    # --- questions

    def _hover(self, params: lsp.HoverParams) -> lsp.Hover | None:
        text = hover(self._workspace, *self._place(params))
        if text is None:
            return None
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text))

    def _definition(self, params: lsp.DefinitionParams) -> lsp.Location | None:
        named = named_at(self._workspace, *self._place(params))
        if named is None or not named.path or named.path.startswith("<"):
            return None
        if named.declared is None:
            return lsp.Location(_uri(named.path), lsp.Range(lsp.Position(0, 0), lsp.Position(0, 0)))
        return self._location(Place(named.path, named.declared.start, named.declared.end))

    def _references(self, params: lsp.ReferenceParams) -> list[lsp.Location]:
        return [self._location(each) for each in places_of(self._workspace, *self._place(params))]

    def _rename(self, params: lsp.RenameParams) -> lsp.WorkspaceEdit:
        path, offset = self._place(params)
        try:
            places = renamed(self._workspace, path, offset, params.new_name)
        except UserError as error:
            raise JsonRpcInvalidParams(message=str(error)) from error
        changes: dict[str, list[lsp.TextEdit]] = {}
        for each in places:
            edit = lsp.TextEdit(self._location(each).range, params.new_name)
            changes.setdefault(_uri(each.path), []).append(edit)
        return lsp.WorkspaceEdit(changes=changes)

    def _symbols(self, params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        path = _path(params.text_document.uri)
        return [
            lsp.DocumentSymbol(
                name=each.declared.name,
                kind=_SYMBOLS.get(each.declared.kind, lsp.SymbolKind.Variable),
                range=self._range(path, each.start, each.end),
                selection_range=self._range(path, each.declared.start, each.declared.end),
                detail=each.detail,
            )
            for each in outline(self._workspace, path)
        ]

    def _completion(self, params: lsp.CompletionParams) -> lsp.CompletionList:
        path, offset = self._place(params)
        entries = completion(self._workspace, path, offset)
        return lsp.CompletionList(
            is_incomplete=False, items=[self._item(each, path, offset) for each in entries]
        )

    def _item(self, entry: Entry, path: str, offset: int) -> lsp.CompletionItem:
        """Return an entry; it takes the place of what is written of it, `@` and `<` too."""
        text = self._workspace.read(path) or ""
        start = offset
        while start and (text[start - 1].isalnum() or text[start - 1] in "_@</"):
            start -= 1
        while start < offset and not entry.label.startswith(text[start]) and text[start] in "@</":
            start += 1
        return lsp.CompletionItem(
            label=entry.label,
            kind=_ITEMS[entry.kind],
            detail=entry.detail or None,
            documentation=entry.text or None,
            text_edit=lsp.TextEdit(self._range(path, start, offset), entry.label),
        )

    def _signature(self, params: lsp.SignatureHelpParams) -> lsp.SignatureHelp | None:
        found = signature_at(self._workspace, *self._place(params))
        if found is None:
            return None
        parameters = [lsp.ParameterInformation(each) for each in found.parameters]
        signature = lsp.SignatureInformation(found.label, found.text or None, parameters)
        return lsp.SignatureHelp([signature], 0, found.active)

    def _colors(self, params: lsp.SemanticTokensParams) -> lsp.SemanticTokens:
        path = _path(params.text_document.uri)
        file = self._workspace.parsed(path)
        data: list[int] = []
        line = column = 0
        for token, kind in () if file is None else colored(file):
            place = self._range(path, token.start, token.end)
            start, end = place.start, place.end
            data += [start.line - line, start.character - (column if start.line == line else 0)]
            data += [end.character - start.character, kind, 0]
            line, column = start.line, start.character
        return lsp.SemanticTokens(data)

    # --- places

    # `Any`: the parameters of one of many questions, all with a place.
    def _place(self, params: Any) -> tuple[str, int]:  # noqa: ANN401
        """Return path and offset of a question."""
        path = _path(params.text_document.uri)
        lines = (self._workspace.read(path) or "").splitlines(keepends=True)
        codec = self._protocol.workspace.position_codec
        at = codec.position_from_client_units(lines, params.position)
        return path, sum(map(len, lines[: at.line])) + at.character

    def _location(self, place: Place) -> lsp.Location:
        return lsp.Location(_uri(place.path), self._range(place.path, place.start, place.end))

    def _range_of(self, span: Span) -> lsp.Range:
        return self._lines_range(span.source.text, span.start, span.end)

    def _range(self, path: str, start: int, end: int) -> lsp.Range:
        return self._lines_range(self._workspace.read(path) or "", start, end)

    def _lines_range(self, text: str, start: int, end: int) -> lsp.Range:
        codec = self._protocol.workspace.position_codec
        lines = text.splitlines(keepends=True)
        inside = lsp.Range(_position(text, start), _position(text, end))
        found: lsp.Range = codec.range_to_client_units(lines, inside)
        return found


def _position(text: str, offset: int) -> lsp.Position:
    offset = min(offset, len(text))
    return lsp.Position(text.count("\n", 0, offset), offset - text.rfind("\n", 0, offset) - 1)


def _path(uri: str) -> str:
    path: str = to_fs_path(uri) or uri
    return path


def _uri(path: str) -> str:
    uri: str = from_fs_path(path) or path
    return uri


_ITEMS = {
    Kind.BUILTIN: lsp.CompletionItemKind.Function,
    Kind.FUNCTION: lsp.CompletionItemKind.Function,
    Kind.VARIABLE: lsp.CompletionItemKind.Variable,
    Kind.CONSTANT: lsp.CompletionItemKind.Constant,
    Kind.FIELD: lsp.CompletionItemKind.Field,
    Kind.TYPE: lsp.CompletionItemKind.Class,
    Kind.KEYWORD: lsp.CompletionItemKind.Keyword,
    Kind.MODULE: lsp.CompletionItemKind.Module,
}
_SYMBOLS = {
    "fn": lsp.SymbolKind.Function,
    "task": lsp.SymbolKind.Event,
    "const": lsp.SymbolKind.Constant,
    "param": lsp.SymbolKind.Constant,
    "block": lsp.SymbolKind.Namespace,
}
"""Of what else is declared: a variable."""


def serve() -> None:
    """Answer an editor until it ends the server."""
    protocol = LanguageServer("csl_lsp", "1")
    Server(protocol)
    protocol.start_io()
