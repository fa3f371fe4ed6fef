"""Analyzes scripts by Google's own analyzer of GoogleSQL (ZetaSQL).

Reads lines of JSON `{ "sql", "tables": { name: { column: type } } }`, and writes a line for each statement that is refused.
What the analyzer has no statement for (variables, conditions of scripts) is parsed as a script, and its conditions are analyzed.
"""

import json
import re
import sys

from zetasql.api import Analyzer, CatalogBuilder, Parser, TableBuilder
from zetasql.types import AnalyzerOptions, LanguageOptions, TypeKind, ZetaSQLBuiltinFunctionOptions

TYPES = {
    "STRING": TypeKind.TYPE_STRING,
    "INTEGER": TypeKind.TYPE_INT64,
    "BIGNUMERIC": TypeKind.TYPE_BIGNUMERIC,
    "FLOAT": TypeKind.TYPE_DOUBLE,
    "BOOLEAN": TypeKind.TYPE_BOOL,
    "TIMESTAMP": TypeKind.TYPE_TIMESTAMP,
}
language = LanguageOptions.maximum_features()
builtin = ZetaSQLBuiltinFunctionOptions(language_options=language)
options = AnalyzerOptions(language_options=language, allow_undeclared_parameters=True)


def catalog_of(tables):
    builder = CatalogBuilder("project").with_builtin_functions(builtin)
    for name, columns in tables.items():
        table = TableBuilder(name)
        for column, kind in columns.items():
            table.add_column(column, TYPES[kind])
        builder.add_table(table.build())
    return builder.build()


def refusals(sql, tables):
    tables = dict(tables)
    try:
        Parser.parse_script_static(sql + ";")
    except Exception as error:
        yield "script", str(error)
    for statement in sql.split(";\n"):
        if re.match(r"declare |set |begin |commit |raise |alter ", statement):
            added = re.findall(r"add column if not exists `([^`]*)` string", statement)
            table = re.match(r"alter table `([^`]*)`", statement)
            if added and table:
                tables[table[1]] = tables[table[1]] | {column: "STRING" for column in added}
            continue
        condition = re.match(r"if (.*) then raise using message = '.*'; end if$", statement)
        analyzed = f"select {condition[1]}" if condition else statement
        # Both are of scripts alone.
        analyzed = analyzed.replace("@@row_count", "1").replace("to_json_string(counts)", "to_json_string([1])")
        try:
            Analyzer.analyze_statement_static(analyzed, options, catalog_of(tables))
        except Exception as error:
            yield statement, str(error)
        made = re.match(r"create temp table (\w+) \((.*)\)$", statement)
        if made:
            tables[made[1]] = {column.split(" ")[0]: "STRING" for column in made[2].split(", ")}


seen = set()
for line in sys.stdin:
    script = json.loads(line)
    for statement, error in refusals(script["sql"], script["tables"]):
        if statement not in seen:
            seen.add(statement)
            print(json.dumps({"statement": statement, "error": error[:500]}))
