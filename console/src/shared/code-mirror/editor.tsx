import { indentWithTab } from '@codemirror/commands';
import { javascript } from '@codemirror/lang-javascript';
import { json } from '@codemirror/lang-json';
import { Compartment, EditorState, Prec } from '@codemirror/state';
import { EditorView, keymap } from '@codemirror/view';
import { Stack, Text, useComputedColorScheme } from '@mantine/core';
import { basicSetup } from 'codemirror';
import { useEffect, useId, useRef, useState } from 'react';
import type { CodeEditorProps } from '../code-editor.tsx';
import { EDITING_LOOK } from './editing-look.ts';
import { linting, setMarks } from './lint.ts';
import { codeTheme } from './theme.ts';

/** The editor itself, in a chunk of its own: pages use `CodeEditor`. */
export function Editor(props: CodeEditorProps) {
  const { language, label, value, onChange, onRun, marks, minHeight = '12rem', maxHeight = '32rem' } = props;
  const isReadOnly = onChange === undefined;
  const isDark = useComputedColorScheme('light', { getInitialValueInEffect: false }) === 'dark';
  const helpId = useId();
  const parent = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(undefined);
  const [look] = useState(() => new Compartment());
  // The view outlives renders: it calls the functions of the last render.
  const latest = useRef({ value, onChange, onRun, marks, isDark });
  latest.current = { value, onChange, onRun, marks, isDark };

  useEffect(() => {
    if (parent.current === null) return;
    const run = () => {
      latest.current.onRun?.();
      return latest.current.onRun !== undefined;
    };
    const created = new EditorView({
      parent: parent.current,
      doc: latest.current.value,
      extensions: [
        look.of(codeTheme(latest.current.isDark)),
        EDITING_LOOK,
        EditorView.theme({ '&': { maxHeight }, '.cm-scroller': { minHeight, overflow: 'auto' } }),
        Prec.high(keymap.of([{ key: 'Mod-Enter', run }])),
        basicSetup,
        // Escape, then Tab leaves the editor: CodeMirror lets Tab through for two seconds after Escape.
        keymap.of(isReadOnly ? [] : [indentWithTab]),
        language === 'json' ? json() : javascript(),
        isReadOnly ? EditorState.readOnly.of(true) : linting(language),
        EditorView.contentAttributes.of({
          'aria-label': label,
          tabindex: '0',
          ...(isReadOnly ? {} : { 'aria-describedby': helpId }),
        }),
        EditorView.updateListener.of(({ docChanged, state }) => {
          if (docChanged) latest.current.onChange?.(state.doc.toString());
        }),
      ],
    });
    view.current = created;
    if (latest.current.marks !== undefined) created.dispatch({ effects: setMarks.of(latest.current.marks) });
    return () => {
      created.destroy();
      view.current = undefined;
    };
  }, [language, label, isReadOnly, helpId, look, minHeight, maxHeight]);

  useEffect(() => {
    const current = view.current;
    if (current === undefined) return;
    const text = current.state.doc.toString();
    if (text !== value) current.dispatch({ changes: { from: 0, to: text.length, insert: value } });
  }, [value]);

  useEffect(() => {
    view.current?.dispatch({ effects: setMarks.of(marks ?? []) });
  }, [marks]);

  useEffect(() => {
    view.current?.dispatch({ effects: look.reconfigure(codeTheme(isDark)) });
  }, [look, isDark]);

  return (
    <Stack gap={4} miw={0}>
      <div ref={parent} />
      {!isReadOnly && (
        <Text id={helpId} size="xs" c="dimmed">
          Tab indents. Escape, then Tab leaves the editor.
        </Text>
      )}
    </Stack>
  );
}
