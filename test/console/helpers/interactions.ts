import type { Page } from 'playwright-core';

/** One click or key, as the browser's Event Timing saw it. */
export interface Interaction {
  /** The longest of its events, e.g. `pointerup`. */
  readonly name: string;
  /** From the input to the next frame, ms, in steps of 8. */
  readonly duration: number;
}

const OBSERVE = `
  globalThis.interactions = new Map();
  const note = ({ interactionId, name, duration }) => {
    if (interactionId === 0 || duration <= (interactions.get(interactionId)?.duration ?? 0)) return;
    interactions.set(interactionId, { name, duration });
  };
  globalThis.observer = new PerformanceObserver((list) => list.getEntries().forEach(note));
  globalThis.finish = () => { observer.takeRecords().forEach(note); return [...interactions.values()] };
  observer.observe({ type: 'event', durationThreshold: 16 });
`;

/** From now on the interactions of this page are timed, until it is loaded anew. Shorter ones than 16 ms are not reported. */
export async function timeInteractions(page: Page): Promise<() => Promise<readonly Interaction[]>> {
  await page.evaluate(OBSERVE);
  return () => page.evaluate('finish()');
}

/** JavaScript objects of the page that are still referenced, MiB. */
export async function heapMiB(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  await session.detach();
  return usedSize / 2 ** 20;
}
