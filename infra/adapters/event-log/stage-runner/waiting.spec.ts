import { describe, expect, it } from 'vitest';
import { sharedByCallers } from './waiting.ts';

/** A look-up whose runs end when the test says so. */
function lookUp() {
  const runs: PromiseWithResolvers<void>[] = [];
  const call = sharedByCallers(() => {
    const run = Promise.withResolvers<void>();
    runs.push(run);
    return run.promise;
  });
  const begun = () => new Promise(setImmediate);
  return { runs, call, begun };
}

describe('a look-up shared by its callers', () => {
  it('runs once for all that call before it begins', async () => {
    const { runs, call, begun } = lookUp();
    const calls = [call(), call(), call()];
    await begun();
    runs[0]?.resolve();
    await Promise.all(calls);
    expect(runs).toHaveLength(1);
  });

  it('runs once more for callers that arrive meanwhile: it may have passed their entries', async () => {
    const { runs, call, begun } = lookUp();
    const first = call();
    await begun();
    let isAnswered = false;
    const later = [call(), call()].map(async (each) => {
      await each;
      isAnswered = true;
    });
    runs[0]?.resolve();
    await first;
    await begun();
    expect(isAnswered).toBe(false);
    runs[1]?.resolve();
    await Promise.all(later);
    expect(runs).toHaveLength(2);
  });

  it('fails the callers of a failed run, and none of later ones', async () => {
    const { runs, call, begun } = lookUp();
    const first = call();
    await begun();
    const second = call();
    runs[0]?.reject(new Error('the broker is away'));
    await expect(first).rejects.toThrow('the broker is away');
    await begun();
    runs[1]?.resolve();
    await expect(second).resolves.toBeUndefined();
  });
});
