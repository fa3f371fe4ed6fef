import { Code } from '@mantine/core';
import { lazy, Suspense } from 'react';

export type CodeLanguage = 'json' | 'javascript';

export interface CodeMark {
  /** From 1. */
  readonly line: number;
  readonly message: string;
  readonly severity: 'error' | 'warning';
}

export interface CodeViewProps {
  readonly value: string;
  readonly language: CodeLanguage;
  /** Names the text for screen readers: `Event as received`. */
  readonly label: string;
  /** Keep the same array while nothing changes: another one rebuilds the view. */
  readonly marks?: readonly CodeMark[];
  /** CSS length of the height from which the text scrolls. */
  readonly maxHeight?: string;
}

const Viewer = lazy(() => import('./code-mirror/viewer.tsx').then(({ Viewer }) => ({ default: Viewer })));

const NO_MARKS: readonly CodeMark[] = [];

/** A text of code to read, with marked lines. The plain text is shown until CodeMirror is loaded. */
export function CodeView({ marks = NO_MARKS, maxHeight = '480px', ...props }: CodeViewProps) {
  return (
    <Suspense fallback={<PlainCode value={props.value} maxHeight={maxHeight} label={props.label} />}>
      <Viewer {...props} marks={marks} maxHeight={maxHeight} />
    </Suspense>
  );
}

interface PlainProps {
  readonly value: string;
  readonly label: string;
  readonly maxHeight: string;
}

export function PlainCode({ value, label, maxHeight }: PlainProps) {
  return (
    <Code block mah={maxHeight} tabIndex={0} role="region" aria-label={label}>
      {value}
    </Code>
  );
}
