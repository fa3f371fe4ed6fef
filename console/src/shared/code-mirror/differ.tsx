import { unifiedMergeView } from '@codemirror/merge';
import { EditorView } from '@codemirror/view';
import { useComputedColorScheme } from '@mantine/core';
import { useEffect, useRef } from 'react';
import type { DiffViewProps } from '../diff-view.tsx';
import { readOnlyCode } from './read-only.ts';

/** Time limit for the exact diff of large texts, after which it is coarser, ms. */
const DIFF_MS = 200;

/** Loaded by `DiffView`. */
export function Differ({ before, after, language, label, maxHeight }: Required<DiffViewProps>) {
  const host = useRef<HTMLDivElement>(null);
  const isDark = useComputedColorScheme('light', { getInitialValueInEffect: false }) === 'dark';
  useEffect(() => {
    if (host.current === null) return;
    const view = new EditorView({
      parent: host.current,
      doc: after,
      extensions: [
        readOnlyCode({ language, label, maxHeight, isDark }),
        unifiedMergeView({
          original: before,
          mergeControls: false,
          // A removed line alone is no JSON, and would be coloured as something else.
          syntaxHighlightDeletions: false,
          collapseUnchanged: { margin: 3, minSize: 6 },
          diffConfig: { timeout: DIFF_MS },
        }),
      ],
    });
    return () => view.destroy();
  }, [before, after, language, label, maxHeight, isDark]);
  return <div ref={host} />;
}
