import { checkSchema, createContractEvaluator, MAX_EVENT_BYTES } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { hostileContract, hostileEvent } from '../../bench/hostile-contract-row.ts';
import { HOSTILE_CONTRACTS } from '../../bench/hostile-contracts.ts';

/** Many times what the bench sees: other code runs beside it, and nothing is warm here. A minute was usual once. */
const MOST_MS = 100;

/** Made to be slow, and within what a contract may be or could be once: an event costs little, and gets one verdict. */
describe('A hostile contract', () => {
  const used = createContractEvaluator();

  it.each(HOSTILE_CONTRACTS)('$name', (hostile) => {
    // Some take too much work to compile for a new contract; an earlier release may have taken them.
    const faults = checkSchema(hostile.definition);
    expect(faults.filter(({ message }) => !/take too much work to compile/.test(message))).toEqual([]);
    const contract = hostileContract(hostile);
    const event = hostileEvent(hostile.subject);
    expect(Buffer.byteLength(JSON.stringify(event))).toBeLessThanOrEqual(MAX_EVENT_BYTES);
    const first = used.evaluate(contract, event);
    const before = process.threadCpuUsage();
    const again = used.evaluate(contract, event);
    const { user, system } = process.threadCpuUsage(before);
    expect((user + system) / 1_000).toBeLessThan(MOST_MS);
    // The result is the same after earlier evaluations, in this process or another.
    expect(again).toEqual(first);
    expect(createContractEvaluator().evaluate(contract, event)).toEqual(first);
  });
});
