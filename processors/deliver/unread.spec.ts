import { StoredDelivery } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { delivery, OK, setUp, setUpHanging, turn } from './samples.ts';

/** As a delivery begins, but none. */
const BROKEN = JSON.stringify(delivery('broken')).replace('"environment":', '"environment":,');
const arrivedAs = (text: string) => ({ stored: StoredDelivery.from(text), bytes: text.length, untold: true });

describe('a delivery that turns out to be none when it is read', () => {
  it('fails for what it is, and takes no other of its call with it', async () => {
    const { calls, soonDelivered } = setUp(() => OK, { size: () => 10 });
    const good = soonDelivered(arrivedAs(JSON.stringify(delivery('1'))));
    const broken = soonDelivered(arrivedAs(BROKEN));
    await expect(broken).rejects.toMatchObject({ code: 'invalid_input' });
    expect((await good).settlement.kind).toBe('delivered');
    expect(calls.map(({ ids }) => ids)).toEqual([['1']]);
  });

  it('fails as well where no call could begin for it in good time', async () => {
    const { calls, time, begin, deliverer, soonDelivered } = setUpHanging(1);
    void begin('1');
    await turn();
    const settled: string[] = [];
    const broken = soonDelivered(arrivedAs(BROKEN)).catch((error: { code: string }) =>
      settled.push(error.code),
    );
    await turn();
    time.elapsed += 501;
    await broken;
    expect(settled).toEqual(['invalid_input']);
    expect(calls).toHaveLength(1);
    expect(deliverer.health()).toMatchObject([{ waiting: 0, under_way: 1 }]);
  });
});
