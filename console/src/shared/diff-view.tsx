import { lazy, Suspense } from 'react';
import { type CodeLanguage, PlainCode } from './code-view.tsx';

export interface DiffViewProps {
  readonly before: string;
  readonly after: string;
  readonly language: CodeLanguage;
  /** Names the comparison for screen readers: `Version 3 compared with version 2`. */
  readonly label: string;
  /** CSS length of the height from which the text scrolls. */
  readonly maxHeight?: string;
}

const Differ = lazy(() => import('./code-mirror/differ.tsx').then(({ Differ }) => ({ default: Differ })));

/** Two texts in one, with removed and added parts marked; long equal parts are folded. */
export function DiffView({ maxHeight = '480px', ...props }: DiffViewProps) {
  return (
    <Suspense fallback={<PlainCode value={props.after} maxHeight={maxHeight} label={props.label} />}>
      <Differ {...props} maxHeight={maxHeight} />
    </Suspense>
  );
}
