import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Child } from '../../../helpers/child.ts';
import { engines } from '../../../helpers/engines.ts';
import { SOURCE, TARGET } from '../suite/harness.ts';
import { eventually, numbered, readAll } from '../suite/log-contents.ts';
import { copyStage } from '../suite/stages.ts';
import { type Installation, install, timed } from './installation/installation.ts';

const PARTITIONS = 4;
const SESSION_MS = 2_000;

describe.skipIf(engines() === undefined)('killed group members on Kafka', () => {
  let installed: Installation;
  let killed: Child;
  beforeEach(async () => {
    installed = await install(engines()?.kafkaBrokers ?? '', PARTITIONS);
    const script = new URL('../programs/kafka-child.ts', import.meta.url);
    killed = new Child(script, [installed.brokers, installed.prefix, String(PARTITIONS)]);
  });
  afterEach(async () => {
    await killed.kill();
    await installed.dispose();
  });

  it('a killed member is replaced within its session and two seconds', async () => {
    const { log } = await installed.open();
    await log.append(SOURCE, numbered('k', 5));
    await eventually(() => killed.lines.length === 1, 'it got nothing', 30_000);
    await log.run(copyStage());
    await killed.kill();
    const took = await timed(() =>
      eventually(async () => (await readAll(log, TARGET)).length === 5, 'nobody takes over'),
    );
    console.log(`a killed member (session ${SESSION_MS} ms) was replaced after ${took.toFixed()} ms`);
    expect(took).toBeLessThan(SESSION_MS + 2_000);
  });
});
