import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { engines } from '../../helpers/engines.ts';
import { ownEngines } from '../../helpers/own-engines.ts';
import { isAlive } from '../../helpers/processes.ts';
import type { RunningEngine } from '../index.ts';

const long = Boolean(process.env.TRIBUTARY_TEST_LONG);

// The default run starts and stops one in npm-run-engines.spec.ts.
describe.skipIf(engines() === undefined || !long)('an Elasticsearch of a test', () => {
  let engine: RunningEngine;
  beforeAll(async () => {
    engine = await ownEngines().elasticsearch.start();
  });
  afterAll(() => engine?.stop());

  it('keeps an acknowledged document over a kill and a restart', async () => {
    const document = `${engine.url}/kept/_doc/1`;
    const headers = { 'content-type': 'application/json' };
    const made = await fetch(document, { method: 'PUT', headers, body: '{"some":"thing"}' });
    expect(made.status).toBe(201);
    const { pid } = engine;
    await engine.kill();
    expect(isAlive(pid)).toBe(false);
    await engine.restart();
    const kept = await (await fetch(document)).json();
    expect(kept).toMatchObject({ found: true, _source: { some: 'thing' } });
  });
});
