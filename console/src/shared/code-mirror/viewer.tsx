import { EditorView } from '@codemirror/view';
import { useComputedColorScheme } from '@mantine/core';
import { useEffect, useRef } from 'react';
import type { CodeViewProps } from '../code-view.tsx';
import { markedLines, readOnlyCode } from './read-only.ts';

/** Loaded by `CodeView`. */
export function Viewer({ value, language, label, marks, maxHeight }: Required<CodeViewProps>) {
  const host = useRef<HTMLDivElement>(null);
  const isDark = useComputedColorScheme('light', { getInitialValueInEffect: false }) === 'dark';
  useEffect(() => {
    if (host.current === null) return;
    const view = new EditorView({
      parent: host.current,
      doc: value,
      extensions: [readOnlyCode({ language, label, maxHeight, isDark }), markedLines(marks)],
    });
    return () => view.destroy();
  }, [value, language, label, marks, maxHeight, isDark]);
  return <div ref={host} />;
}
