import { Skeleton } from '@mantine/core';
import { lazy, Suspense } from 'react';
import type { EditorMark } from './code-mirror/lint.ts';
import type { CodeLanguage } from './code-view.tsx';

export type { EditorMark } from './code-mirror/lint.ts';

export interface CodeEditorProps {
  readonly language: CodeLanguage;
  /** Names the text for screen readers: `Schema of the contract`. */
  readonly label: string;
  readonly value: string;
  /** Absent: the text is only shown. */
  readonly onChange?: ((value: string) => void) | undefined;
  /** Called on Ctrl-Enter in the editor. */
  readonly onRun?: (() => void) | undefined;
  /** Faults that the server found. Keep the same array while nothing changes. */
  readonly marks?: readonly EditorMark[] | undefined;
  /** CSS length. */
  readonly minHeight?: string;
  /** CSS length of the height from which the text scrolls. */
  readonly maxHeight?: string;
}

const Editor = lazy(() => import('./code-mirror/editor.tsx').then(({ Editor }) => ({ default: Editor })));

/** An editor for JavaScript or JSON that marks syntax errors. Escape, then Tab leaves it. Loaded when first shown. */
export function CodeEditor(props: CodeEditorProps) {
  return (
    <Suspense
      fallback={
        <Skeleton height={props.minHeight ?? '12rem'} role="status" aria-label="Loading the editor" />
      }
    >
      <Editor {...props} />
    </Suspense>
  );
}
