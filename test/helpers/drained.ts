import { waiting } from '../demo/drained.ts';
import { eventually } from './client.ts';

/** Resolves once no stage has anything before it; fails with what still waits. */
export async function drained(server: { metrics(): Promise<string> }, timeoutMs?: number): Promise<void> {
  await eventually(
    async () => {
      const since = Date.now();
      return waiting(await server.metrics(), since);
    },
    (left) => left.length === 0,
    timeoutMs,
  );
}
