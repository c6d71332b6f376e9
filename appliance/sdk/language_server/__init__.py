"""`csl_lsp`: a language server for CSL, which editors start and speak to over standard input.

    builtin_pages  what each builtin takes and does
    commands       the program of a file, found by the command that compiles it
    scopes         what names mean by the syntax alone, also in a file with errors
    workspace      open files, and the programs that they belong to, analysed
    declarations   what stands at a place of a file: a name and what declares it
    hover, completion, signatures, outline, renaming, coloring   answers to an editor's questions
    server         the protocol

All but `server` is plain values: offsets count characters, paths are strings.
"""
