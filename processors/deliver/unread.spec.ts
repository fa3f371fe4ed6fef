import { type Connector, type DeliveryResult, StoredDelivery } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { delivery, OK, setUp, turn } from './samples.ts';

const NONE: DeliveryResult = { outcome: 'dead', reason: 'no delivery' };
/** As it begins, but not what it says it is. */
const BROKEN = JSON.stringify(delivery('broken')).replace('"environment":', '"environment":,');

/** A connector that takes deliveries as the log has them. */
function setUpUnread(answer: (texts: readonly string[]) => Promise<readonly DeliveryResult[]>) {
  const set = setUp(() => OK, { size: () => 10 });
  const taken: (readonly string[])[] = [];
  const connector: Connector = {
    batchLimits: () => ({ events: 10 }),
    deliver: () => Promise.reject(new Error('it would have to be read')),
    deliverStored(_, texts) {
      taken.push(texts);
      return answer(texts);
    },
    test: async () => ({ ok: true }),
    async close() {},
  };
  Object.assign(set.dependencies.connectors, { connector: () => connector });
  const soon = (text: string, untold = true) => {
    const stored = StoredDelivery.from(text);
    return set.soonDelivered({ stored, bytes: text.length, untold });
  };
  return { ...set, taken, soon };
}

describe('deliveries that are passed on unread', () => {
  it('go as the log has them, and are settled as any', async () => {
    const { taken, soon } = setUpUnread(async (texts) => texts.map(() => OK));
    const texts = ['1', '2'].map((id) => JSON.stringify(delivery(id)));
    const settled = await Promise.all(texts.map((text) => soon(text)));
    expect(taken).toEqual([texts]);
    expect(settled.map(({ settlement }) => settlement.kind)).toEqual(['delivered', 'delivered']);
  });

  it('what turns out to be none fails alone, for what it is', async () => {
    const { soon } = setUpUnread(async (texts) => texts.map((text) => (text === BROKEN ? NONE : OK)));
    const [good, broken] = [soon(JSON.stringify(delivery('1'))), soon(BROKEN)];
    await expect(broken).rejects.toMatchObject({ code: 'invalid_input' });
    expect((await good).settlement.kind).toBe('delivered');
  });

  it('what takes long and turns out to be none ended all stages: it fails', async () => {
    const { soon, time } = setUpUnread(() => new Promise(() => {}));
    const broken = soon(BROKEN);
    await turn();
    time.elapsed += 501;
    await expect(broken).rejects.toMatchObject({ code: 'invalid_input' });
  });

  it('where a connector has to be given them read, one that cannot be takes no other with it', async () => {
    const { calls, soonDelivered } = setUp(() => OK, { size: () => 10 });
    const arrivedAs = (text: string) => ({ stored: StoredDelivery.from(text), bytes: text.length });
    const [good, broken] = [
      soonDelivered(arrivedAs(JSON.stringify(delivery('1')))),
      soonDelivered(arrivedAs(BROKEN)),
    ];
    await expect(broken).rejects.toMatchObject({ code: 'invalid_input' });
    expect((await good).settlement.kind).toBe('delivered');
    expect(calls.map(({ ids }) => ids)).toEqual([['1']]);
  });
});
