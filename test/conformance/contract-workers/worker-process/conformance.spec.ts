import { NO_LOGGER } from '@tributary/core';
import { openContractWorkers } from '@tributary/infra';
import { afterEach, describe, expect, it } from 'vitest';
import { contractOf, contractWorkersConformance, paid } from '../suite/contract-workers.conformance.ts';

contractWorkersConformance({
  name: 'worker processes',
  open: (bounds) => openContractWorkers({ logger: NO_LOGGER, ...bounds }),
});

describe('a task that exceeds the bounds of its process', () => {
  let close = async () => {};
  afterEach(() => close());

  function open(bounds: { readonly taskMs?: number; readonly heapMib?: number }) {
    const workers = openContractWorkers({ logger: NO_LOGGER, ...bounds });
    close = () => workers.close();
    return workers;
  }

  const heavy = {
    properties: Object.fromEntries(Array.from({ length: 990 }, (_, at) => [`f${at}`, { type: 'string' }])),
  };

  it('is a fault of the definition if it takes too long, and the process that replaces it answers the next', async () => {
    const workers = open({ taskMs: 5 });
    const faults = await workers.check('w', heavy);
    expect(faults).toEqual([{ path: '', message: 'takes too much time or memory to compile' }]);
    await expect(workers.evaluate(contractOf('w', heavy), [paid('w', { f1: 1 })])).rejects.toMatchObject({
      code: 'unavailable',
    });
    await close();
    expect(await open({}).check('w', heavy)).toEqual([]);
  });

  it('ended the process of its caller by its memory use: the next task is answered', async () => {
    const workers = open({ heapMib: 48 });
    const contract = contractOf('w', { type: 'object' });
    const list = Array.from({ length: 30_000 }, () => ({}));
    const large = Array.from({ length: 64 }, () => paid('w', { list }));
    await expect(workers.evaluate(contract, large)).rejects.toMatchObject({ code: 'unavailable' });
    const [verdict] = await workers.evaluate(contract, [paid('w', {})]);
    expect(verdict?.outcome).toBe('accepted');
  });
});
