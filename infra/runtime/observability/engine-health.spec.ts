import { InvalidInput, type Metrics, NO_METRICS, Unavailable } from '@tributary/core';
import { describe, expect, it, onTestFinished } from 'vitest';
import { EngineHealth, reportingCalls, watchEngines } from './engine-health.ts';

const SILENT = { read: () => new Promise(() => {}) };

describe('the probes of engines', () => {
  it('report the last result of each engine, and a silent one delays none', async () => {
    let down = false;
    let asked = 0;
    const moody = {
      read: async () => {
        asked++;
        if (down) throw new Unavailable('gone');
      },
    };
    const health = new EngineHealth({ metrics: NO_METRICS, part: 'main' });
    const watch = watchEngines({ silent: SILENT, moody }, health, 5);
    onTestFinished(() => watch.close());
    const askedAgain = async () => {
      const before = asked;
      while (asked < before + 2) await new Promise((resolve) => setTimeout(resolve, 5));
    };
    expect(health.status()).toEqual({ silent: 'not asked yet', moody: 'not asked yet' });
    await askedAgain();
    expect(health.status()).toEqual({ silent: 'not asked yet', moody: 'answers' });
    down = true;
    await askedAgain();
    expect(health.status()).toEqual({ silent: 'not asked yet', moody: 'does not answer: gone' });
  });

  it('reported an engine as healthy that answered reads and refused writes', async () => {
    let isFull = true;
    const full = {
      read: async () => {},
      write: async () => {
        if (isFull) throw new Unavailable("Redis: OOM command not allowed when used memory > 'maxmemory'.");
      },
    };
    const health = new EngineHealth({ metrics: NO_METRICS, part: 'main' });
    const watch = watchEngines({ redis: full }, health, 5);
    onTestFinished(() => watch.close());
    await expect.poll(() => health.status().redis).toMatch(/^refuses writes: Redis: OOM command not allowed/);
    isFull = false;
    await expect.poll(() => health.status().redis).toBe('answers');
  });
});

describe('the health of an engine', () => {
  const opened = () => {
    const gauges = new Map<string, number>();
    const metrics: Metrics = {
      ...NO_METRICS,
      gauge: (name, value) => void gauges.set(name, value),
    };
    let now = 0;
    const health = new EngineHealth({ metrics, part: 'stages', now: () => now });
    const pass = (ms: number) => {
      now += ms;
      health.refresh();
    };
    return { health, gauges, pass };
  };

  it('stayed at the last good result while a probe was pending', () => {
    const { health, gauges, pass } = opened();
    health.probed('kafka');
    health.answered('kafka');
    expect(gauges.get('tributary_engine_up')).toBe(1);
    health.probed('kafka');
    pass(9_000);
    expect(health.status()).toEqual({ kafka: 'answers' });
    pass(3_000);
    expect(health.status()).toEqual({ kafka: 'does not answer: silent for 12 s' });
    expect(gauges.get('tributary_engine_up')).toBe(0);
  });

  it('was good again when a read succeeded after a refused write', () => {
    const { health, gauges, pass } = opened();
    health.answered('elasticsearch');
    health.wrote('elasticsearch', new Unavailable('Elasticsearch answered 403 (cluster_block_exception)'));
    health.answered('elasticsearch');
    expect(health.status().elasticsearch).toBe(
      'refuses writes: Elasticsearch answered 403 (cluster_block_exception)',
    );
    expect(gauges.get('tributary_engine_up')).toBe(0);
    // There were no writes for a while, so the failed write no longer counts.
    pass(61_000);
    expect(health.status().elasticsearch).toBe('answers');
    expect(gauges.get('tributary_engine_up')).toBe(1);
  });

  it('blamed the engine for an invalid write', () => {
    const { health } = opened();
    health.answered('kafka');
    health.wrote('kafka', new InvalidInput('too large'));
    expect(health.status().kafka).toBe('answers');
  });
});

it('reports the calls of a port, and leaves results and errors unchanged', async () => {
  class Port {
    #fails = false;
    readonly topics = new Map([['a', 1]]);
    async append(fails: boolean) {
      this.#fails = fails;
      if (this.#fails) throw new Unavailable('gone');
      return 7;
    }
    async read() {
      return this.#fails;
    }
  }
  const reported: unknown[] = [];
  const port = reportingCalls(new Port(), ['append'], (error) => reported.push(error));
  expect(await port.append(false)).toBe(7);
  await expect(port.append(true)).rejects.toThrow('gone');
  expect(await port.read()).toBe(true);
  expect(port.topics.get('a')).toBe(1);
  expect(reported).toEqual([undefined, expect.any(Unavailable)]);
});
