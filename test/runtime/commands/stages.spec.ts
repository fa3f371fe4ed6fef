import { STAGE_NAMES } from '@tributary/processors';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { temporaryFolder } from '../../helpers/folder.ts';
import { ranHere } from '../../helpers/run-cli.ts';
import { drained } from '../../helpers/running-tributary.ts';
import { startTributary, type Tributary } from '../../helpers/tributary.ts';

interface Row {
  readonly stage: string;
  readonly lag_records: number;
  readonly lag_seconds: number | null;
  readonly of_topics: readonly {
    readonly topic: string;
    readonly lag_records: number;
    readonly furthest_behind: { readonly partition: number; readonly lag_records: number } | null;
  }[];
  readonly of_warehouses?: readonly {
    readonly destination_id: string;
    readonly workspace_id: string;
    readonly lag_events: number | null;
    readonly lag_seconds: number | null;
  }[];
}

describe('tributary stages', () => {
  let tributary: Tributary;
  beforeAll(async () => {
    tributary = await startTributary();
  });
  afterAll(() => tributary.remove());

  const rows = async () => {
    const { code, output } = await ranHere(['stages', '--json', '--over', '1'], tributary.environment);
    expect(code).toBe(0);
    return JSON.parse(output) as readonly Row[];
  };

  it('prints every stage beside a running process, and no lag once all is done', async () => {
    for (let n = 0; n < 20; n++)
      await tributary.producer.post('./events/track', { event: 'Seen', user_id: `u${n}` });
    await drained(tributary);
    const found = await rows();
    expect(found.map(({ stage }) => stage)).toEqual(STAGE_NAMES);
    expect(found.filter(({ lag_records }) => lag_records > 0)).toEqual([]);
    const { code, output } = await ranHere(['stages', '--over', '1'], tributary.environment);
    expect(code).toBe(0);
    const [head, ...lines] = output.trimEnd().split('\n');
    expect(head?.split(/ {2,}/)).toEqual([
      'stage',
      'topic',
      'partitions',
      'members',
      'lag',
      'age',
      'in/s',
      'out/s',
      'empty in',
      'wanted',
      'furthest behind',
    ]);
    expect(lines.find((line) => line.startsWith('route '))).toMatch(/^route +events\.accepted +4 +- +0 +0s /);
  });

  it('reports the same metrics, with one member of each stage', async () => {
    const text = await tributary.metrics();
    for (const stage of STAGE_NAMES) expect(text).toContain(`tributary_stage_members{stage="${stage}"} 1\n`);
    const seen = [...text.matchAll(/^tributary_stage_position\{stage="validate".*\} (\d+)$/gm)];
    expect(seen.reduce((sum, [, position]) => sum + Number(position), 0)).toBeGreaterThan(0);
  });

  it('shows what waits to be loaded into a warehouse, whose stage reads requests alone', async () => {
    const settings = { host: '127.0.0.1', port: 1, database: 'd', username: 'u', tls: false };
    const body = { name: 'Away', type: 'warehouse-postgresql', settings };
    const { id } = await tributary.owner.post<{ id: string }>('./destinations', body);
    for (let n = 0; n < 5; n++)
      await tributary.producer.post('./events/track', { event: 'Seen', user_id: `u${n}` });
    await drained(tributary);
    const load = (await rows()).find(({ stage }) => stage === 'load');
    expect(load).toMatchObject({
      of_warehouses: [{ destination_id: id, workspace_id: tributary.workspaceId, lag_seconds: null }],
    });
    // Estimated, as minutes are counted: a share of those that came before the warehouse was made counts too.
    expect(load?.of_warehouses?.[0]?.lag_events).toBeGreaterThan(0);
    const { output } = await ranHere(['stages', '--over', '1'], tributary.environment);
    expect(output).toMatch(new RegExp(`^ +warehouse ${id} +~\\d+ +-$`, 'm'));
  });

  it('shows the stages although the stores that know of warehouses do not answer', async () => {
    const nowhere = { REDIS_URL: 'redis://127.0.0.1:1', ELASTICSEARCH_URL: 'http://127.0.0.1:1' };
    const environment = { ...tributary.environment, ...nowhere };
    const { code, output } = await ranHere(['stages', '--json', '--over', '1'], environment);
    expect(code).toBe(0);
    const found = JSON.parse(output) as readonly Row[];
    expect(found.map(({ stage }) => stage)).toEqual(STAGE_NAMES);
    const ofWarehouses = found.find(({ stage }) => stage === 'load')?.of_warehouses;
    expect(ofWarehouses).toMatchObject([{ lag_events: null, lag_seconds: null }]);
  });

  it('prints waiting entries although no process runs', async () => {
    await tributary.kill();
    const [validate] = await rows();
    expect(validate).toMatchObject({ stage: 'validate', lag_records: 0, lag_seconds: 0 });
    expect(validate?.of_topics.map((topic) => topic.furthest_behind)).toEqual([null, null]);
  });

  it('states in one line the fault of its options, and that there is no log', async () => {
    const wrong = await ranHere(['stages', '--over', 'soon'], tributary.environment);
    expect(wrong).toMatchObject({ code: 2, output: '' });
    expect(wrong.log).toBe('tributary stages: --over is a number of seconds from 1 to 600\n');
    const folder = await temporaryFolder();
    const nothing = await ranHere(['stages'], { TRIBUTARY_DATA_DIR: folder.path });
    expect(nothing).toMatchObject({ code: 1, output: '' });
    expect(nothing.log).toBe(
      `tributary stages: there is no event log in ${folder.path}, and KAFKA_BROKERS is not set\n`,
    );
    await folder.remove();
  });
});
