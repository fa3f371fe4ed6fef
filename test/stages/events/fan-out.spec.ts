import { type SandboxResult, TOPIC } from '@tributary/core';
import { expect, it } from 'vitest';
import { entryOf, event, setUp, until } from '../harness.ts';
import { openLog, runOn } from '../on-log.ts';

const EVENTS = 30;
const OUTPUTS = 100;
const TEXT = 'x'.repeat(31_000);
const MIB = 1024 * 1024;

it("one transformation's outputs filled memory: events wait until what was made of others is committed", async () => {
  const { world, catalog, stages } = setUp();
  catalog.addDestination('place');
  catalog.addTransformation('tx');
  catalog.addRule('rule', 'place', { transformation_id: 'tx' });
  const log = await openLog();
  let made = 0;
  let mostInFlight = 0;
  world.transform = async (_source, input): Promise<SandboxResult> => {
    const output = JSON.stringify({ ...JSON.parse(input.event), properties: { text: TEXT } });
    made += OUTPUTS;
    const committed = await log.end(TOPIC.deliveries, 0);
    mostInFlight = Math.max(mostInFlight, (made - committed) * output.length);
    return { ok: true, outputs: Array(OUTPUTS).fill(output), logs: [], durationMs: 1, loadMs: 0 };
  };
  const entries = Array.from({ length: EVENTS }, (_, i) => entryOf(TOPIC.accepted, i, event(`m${i}`)));
  await log.append(TOPIC.accepted, entries);
  await runOn(log, stages, ['route', 'route.slow']);
  await until(async () => (await log.end(TOPIC.deliveries, 0)) >= EVENTS * OUTPUTS);
  expect(await log.end(TOPIC.deliveries, 0)).toBe(EVENTS * OUTPUTS);
  expect(mostInFlight).toBeLessThan(24 * MIB);
});
