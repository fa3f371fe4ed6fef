import { type ReactNode, useDeferredValue } from 'react';

interface Props {
  readonly children: ReactNode;
}

/**
 * Content that takes longer to draw than the frame in which a click must be visible, such as a table with many rows. That
 * frame still shows the earlier content (at first none); the new content is drawn afterwards, piece by piece. It must not
 * contain a field with a value from outside, as typed text would appear late: see `DeferredMount`.
 */
export function Deferred({ children }: Props) {
  return useDeferredValue(children, null);
}

/** The same for content that is slow only when it appears, such as a form: its changes are drawn at once. */
export function DeferredMount({ children }: Props) {
  return useDeferredValue(true, false) ? children : null;
}
