import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../helpers/client.ts';
import { onCluster, startTributary, type Tributary } from '../../helpers/tributary.ts';

interface System {
  readonly stages: readonly {
    readonly stage: string;
    readonly lag_records: number;
    readonly topics: readonly {
      readonly topic: string;
      readonly partitions: readonly { readonly lag: number; readonly process: string | null }[];
    }[];
  }[];
  readonly processes: readonly {
    readonly process: string;
    readonly role: string;
    readonly state: string;
    readonly version: string;
    readonly checks: Readonly<Record<string, string>>;
    readonly stages: readonly { readonly stage: string }[];
  }[];
  readonly engines: readonly {
    readonly engine: string;
    readonly version: string | null;
    readonly state: string;
  }[];
}

/** Kafka's protocol has none, and the documented rights on Elasticsearch do not include the question. */
const TELLS_NO_VERSION = ['kafka', 'elasticsearch'];

const OPERATORS = { TRIBUTARY_OPERATORS: 'dev@tributary.localhost' };

/** Operators see the whole installation: stages, partitions, processes and engines, of all tenants at once. */
describe('An operator', () => {
  let tributary: Tributary;
  beforeAll(async () => {
    tributary = await startTributary({ env: OPERATORS });
  });
  afterAll(() => tributary.remove());

  const owners = ({ stages }: System) =>
    stages.flatMap(({ topics }) => topics.flatMap(({ partitions }) => partitions.map((of) => of.process)));
  const whole = () =>
    eventually(
      () => tributary.owner.get<System>('/system'),
      (system) =>
        system.processes.length === (onCluster ? 2 : 1) &&
        system.processes.every(({ state }) => state === 'ready') &&
        owners(system).every((owner) => owner !== null) &&
        system.engines.every(({ engine, version }) => TELLS_NO_VERSION.includes(engine) || version !== null),
    );

  it('sees each stage with its lag, and which process owns each of its partitions', async () => {
    const messages = 20;
    for (let n = 0; n < messages; n++)
      await tributary.producer.post('./events/track', { event: 'Seen', user_id: `u${n}` });
    const system = await whole();
    const ids = system.processes.map(({ process }) => process);
    for (const owner of owners(system)) expect(ids).toContain(owner);
    expect(system.stages.map(({ stage }) => stage)).toEqual(
      expect.arrayContaining(['validate', 'route', 'deliver', 'history']),
    );
    const done = await eventually(
      () => tributary.owner.get<System>('/system'),
      ({ stages }) => stages.every(({ lag_records }) => lag_records === 0),
    );
    expect(done.stages.length).toBeGreaterThan(10);
  });

  it('sees each process with its stages, and the engines with their versions', async () => {
    const { processes, engines } = await whole();
    expect(processes.map(({ role }) => role).sort()).toEqual(onCluster ? ['gateway', 'processor'] : ['dev']);
    for (const { version, checks } of processes) {
      expect(version).toMatch(/^\d+\.\d+\.\d+$/);
      expect(checks).toMatchObject({ catalog: 'caught up' });
    }
    expect(engines.map(({ engine }) => engine).sort()).toEqual(
      onCluster ? ['elasticsearch', 'kafka', 'redis'] : ['sqlite'],
    );
    for (const { state } of engines) expect(state).toBe('answers');
  });

  it('sees the same at the admin port', async () => {
    const response = await fetch(`${tributary.adminUrl}/system`);
    expect(response.status).toBe(200);
    const system = (await response.json()) as System;
    expect(system.processes.map(({ process }) => process).sort()).toEqual(
      (await whole()).processes.map(({ process }) => process).sort(),
    );
  });
});
