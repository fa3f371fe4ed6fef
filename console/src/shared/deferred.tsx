import { type ReactNode, useDeferredValue } from 'react';

interface Props {
  readonly children: ReactNode;
}

/**
 * What takes longer to draw than the frame in which a click has to be seen, such as a table with many rows. It stays as it was
 * in that frame, at first empty, and is drawn after it, piece by piece. Nothing in it may be a field whose value comes from
 * outside, as what is typed would come back late: see `DeferredMount`.
 */
export function Deferred({ children }: Props) {
  return useDeferredValue(children, null);
}

/** The same for what takes long only when it appears, such as a form: its changes are drawn at once. */
export function DeferredMount({ children }: Props) {
  return useDeferredValue(true, false) ? children : null;
}
