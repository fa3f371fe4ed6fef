import { type ReactNode, useDeferredValue } from 'react';

/**
 * What takes longer to draw than the frame in which a click has to be seen, such as a table with many rows. It stays as it was
 * in that frame, at first empty, and is drawn after it, piece by piece. Nothing in it may be a field whose value comes from
 * outside: what is typed would come back late.
 */
export function Deferred({ children }: { readonly children: ReactNode }) {
  return useDeferredValue(children, null);
}
