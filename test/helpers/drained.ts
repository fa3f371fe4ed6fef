import { waitingNow } from '../demo/drained.ts';
import { eventually } from './client.ts';

/** Resolves once no stage has a lag; fails with the remaining ones. */
export async function drained(server: { metrics(): Promise<string> }, timeoutMs?: number): Promise<void> {
  await eventually(
    () => waitingNow(() => server.metrics()),
    (left) => left.length === 0,
    timeoutMs,
  );
}
