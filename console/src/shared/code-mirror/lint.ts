import { jsonParseLinter } from '@codemirror/lang-json';
import { syntaxTree } from '@codemirror/language';
import { type Diagnostic, linter, lintGutter } from '@codemirror/lint';
import { type EditorState, type Extension, StateEffect, StateField } from '@codemirror/state';
import type { EditorView } from '@codemirror/view';
import type { CodeLanguage } from '../code-view.tsx';
import { rangeOf, type TextLocation } from './text-location.ts';

/** A fault that the server found, shown at its location. */
export interface EditorMark {
  readonly at: TextLocation;
  readonly message: string;
  readonly severity?: 'error' | 'warning';
}

export const setMarks = StateEffect.define<readonly EditorMark[]>();

/** Marks from the server stay at their text while it is edited around them. */
const marked = StateField.define<readonly Diagnostic[]>({
  create: () => [],
  update(current, { changes, docChanged, effects, newDoc }) {
    const set = effects.find((effect) => effect.is(setMarks));
    if (set !== undefined)
      return (set.value as readonly EditorMark[]).map(({ at, message, severity = 'error' }) => ({
        ...rangeOf(newDoc, at),
        message,
        severity,
      }));
    if (!docChanged) return current;
    return current.map((mark) => ({
      ...mark,
      from: changes.mapPos(mark.from),
      to: changes.mapPos(mark.to, 1),
    }));
  },
});

/** Shows faults of syntax while the text is typed, and the marks from the server. */
export function linting(language: CodeLanguage): Extension {
  const syntaxFaults = language === 'json' ? jsonFaults : javascriptFaults;
  return [
    marked,
    lintGutter(),
    linter((view) => [...syntaxFaults(view), ...view.state.field(marked)], {
      delay: 300,
      needsRefresh: ({ transactions }) =>
        transactions.some(({ effects }) => effects.some((effect) => effect.is(setMarks))),
    }),
  ];
}

const parseJson = jsonParseLinter();

function jsonFaults(view: EditorView): readonly Diagnostic[] {
  return view.state.doc.length === 0 ? [] : parseJson(view);
}

/** The first syntax error of JavaScript. The sandbox reports it exactly, once the source is run. */
function javascriptFaults({ state }: EditorView): readonly Diagnostic[] {
  const at = firstSyntaxError(state);
  if (at === undefined) return [];
  const to = Math.min(at + 1, state.doc.length);
  return [{ from: Math.min(at, to), to, severity: 'error', message: 'This is no valid JavaScript.' }];
}

function firstSyntaxError(state: EditorState): number | undefined {
  let found: number | undefined;
  syntaxTree(state).iterate({
    enter({ type, from }) {
      if (type.isError) found ??= from;
      return found === undefined;
    },
  });
  return found;
}
