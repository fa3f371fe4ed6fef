import type { Catalog } from '@tributary/core';

/**
 * The catalog's `catchUp`, one at a time however many ask: whoever comes while it looks shares the next look, which
 * begins after they asked and so sees what they hope for. They wait for two looks at most.
 */
export function shareCatchUps(catalog: Pick<Catalog, 'catchUp'>, timeoutMs: number): () => Promise<void> {
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;

  function begin(): Promise<void> {
    running = catalog.catchUp(timeoutMs).finally(() => {
      running = undefined;
    });
    return running;
  }

  return () => {
    if (next !== undefined) return next;
    if (running === undefined) return begin();
    const after = () => {
      next = undefined;
      return begin();
    };
    next = running.then(after, after);
    return next;
  };
}
