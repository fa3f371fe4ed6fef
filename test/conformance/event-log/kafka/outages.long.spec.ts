import { setTimeout } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { RunningKafka } from '../../../engines/index.ts';
import { engines } from '../../../helpers/engines.ts';
import { ownEngines } from '../../../helpers/own-engines.ts';
import { SOURCE } from '../suite/harness.ts';
import { numbered } from '../suite/log-contents.ts';
import { caughtUp, copyStage } from '../suite/stages.ts';
import { type Installation, install, timed } from './installation/installation.ts';

describe.skipIf(engines() === undefined)('Kafka does not answer', () => {
  let kafka: RunningKafka;
  let installed: Installation;
  beforeAll(async () => {
    kafka = await ownEngines().kafka.start();
  });
  afterAll(() => kafka?.stop());
  beforeEach(async () => {
    installed = await install(kafka.url);
  });
  afterEach(() => installed.dispose());

  it('stops within seconds while no broker answers', async () => {
    const { log } = await installed.open({ stopGraceMs: 1_000 });
    const run = await log.run(copyStage());
    await log.append(SOURCE, numbered('k', 5));
    await caughtUp(run);
    await kafka.pause();
    try {
      expect(await timed(() => log.close())).toBeLessThan(6_000);
    } finally {
      await kafka.resume();
    }
  });

  it('stops within seconds when no broker answered from the beginning', async () => {
    await kafka.pause();
    try {
      const { log } = await installed.open({ stopGraceMs: 1_000 });
      await log.run(copyStage());
      await setTimeout(500);
      expect(await timed(() => log.close())).toBeLessThan(6_000);
    } finally {
      await kafka.resume();
    }
  });
});
