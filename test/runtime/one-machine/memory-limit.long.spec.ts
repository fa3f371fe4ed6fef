import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import { inherited } from '../../helpers/child.ts';
import { Client, eventually } from '../../helpers/client.ts';
import { welcomed } from '../../helpers/embedded.ts';
import { temporaryFolder } from '../../helpers/folder.ts';

const MAIN = fileURLToPath(new URL('../../../infra/runtime/main.ts', import.meta.url));
const GIB = 1024 ** 3;
const EVENTS = 200_000;
const BATCH = 1_000;
const SENDERS = 32;

interface MemoryGroup {
  readonly folder: string;
  /** The file of the limit, bytes. */
  readonly limit: string;
  /** The file that counts the processes which the kernel killed. */
  readonly events: string;
}

const group = memoryGroup();

/** The kernel ends a process at once, without a log line, when its control group cannot get more memory. */
it.skipIf(group === undefined).each([
  { limit: 1, transformed: false },
  { limit: 1.5, transformed: true },
])(
  'with a limit of $limit GiB, tributary dev was killed for its memory by events as fast as it takes them; transformed: $transformed',
  { timeout: 900_000 },
  async ({ limit, transformed }) => {
    if (group === undefined) return;
    const folder = await temporaryFolder();
    onTestFinished(() => folder.remove());
    mkdirSync(group.folder);
    writeFileSync(join(group.folder, group.limit), String(limit * GIB));
    const joinAndRun = `echo $$ > ${join(group.folder, 'cgroup.procs')} && exec "$@"`;
    const child = spawn('/bin/sh', ['-c', joinAndRun, 'sh', process.execPath, MAIN, 'dev'], {
      env: {
        ...inherited(),
        HOST: '127.0.0.1',
        PORT: '0',
        TRIBUTARY_DATA_DIR: folder.path,
        TRIBUTARY_DRAIN: '0s',
        LOG_LEVEL: 'error',
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const exit = once(child, 'exit');
    onTestFinished(async () => {
      child.kill('SIGTERM');
      await exit;
      // The processes of transformations end a moment later.
      await eventually(
        () => readFileSync(join(group.folder, 'cgroup.procs'), 'utf8'),
        (pids) => pids === '',
      );
      rmdirSync(group.folder);
    });
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString('utf8');
    });
    await eventually(
      () => output,
      (text) => text.includes('Stop with Ctrl-C'),
      150_000,
    );
    const { url, workspaceId, writeKey, idToken } = welcomed(output);
    const owner = new Client(url, idToken, workspaceId);
    const producer = owner.with({ token: writeKey });
    const transformation_id = transformed ? await makeTransformation(owner) : null;
    const files = { name: 'files', type: 'ndjson', settings: { folder: 'files' } };
    const { id: destination_id } = await owner.post<{ id: string }>('./destinations', files);
    await owner.post('./event-forwarding-rules', {
      name: 'all',
      destination_id,
      event_types: ['track'],
      event_names: [],
      transformation_id,
      enabled: true,
    });

    let next = 0;
    const send = async () => {
      while (next < EVENTS) {
        const from = next;
        next += BATCH;
        const batch = Array.from({ length: BATCH }, (_, i) => ({
          type: 'track',
          event: 'Paid',
          message_id: `m${from + i}`,
          user_id: `u${(from + i) % 5_000}`,
          properties: { n: i, filling: 'x'.repeat(300) },
        }));
        while ((await producer.call('POST', './events/batch', { batch })).status !== 202) await sleep(50);
      }
    };
    await Promise.all(Array.from({ length: SENDERS }, send));
    const from = new Date(Date.now() - 6 * 3_600_000).toISOString();
    // Deliveries may be deferred for longer: their stages keep no more in memory for it.
    const routed = async () => {
      const { totals } = await owner.get<{ totals: { created?: number } }>(
        `./funnel?interval=hour&from=${from}`,
      );
      await sleep(500);
      return totals.created ?? 0;
    };
    await eventually(routed, (count) => count >= EVENTS, 700_000);
    const { exitCode, signalCode } = child;
    const killed = /^oom_kill (\d+)$/m.exec(readFileSync(join(group.folder, group.events), 'utf8'))?.[1];
    expect({ exitCode, signalCode, killed }).toEqual({ exitCode: null, signalCode: null, killed: '0' });
  },
);

async function makeTransformation(owner: Client): Promise<string> {
  const event = (properties: object) => ({ type: 'track', event: 'E', user_id: 'u', properties });
  const { id } = await owner.post<{ id: string }>('./event-transformations', {
    name: 't',
    source_code:
      'function transform(event) { event.properties.twice = event.properties.n * 2; return event; }',
    test_input: event({ n: 1 }),
    test_output: event({ n: 1, twice: 2 }),
  });
  return id;
}

/** A control group for this test, of either version; undefined where this process may not create one. */
function memoryGroup(): MemoryGroup | undefined {
  const name = `tributary-${process.pid}`;
  const [root, limit, events] = existsSync('/sys/fs/cgroup/memory')
    ? ['/sys/fs/cgroup/memory', 'memory.limit_in_bytes', 'memory.oom_control']
    : ['/sys/fs/cgroup', 'memory.max', 'memory.events'];
  const folder = join(root, name);
  try {
    mkdirSync(folder);
    const isThere = existsSync(join(folder, limit));
    rmdirSync(folder);
    if (isThere) return { folder, limit, events };
  } catch {
    // No rights, or no control groups at all.
  }
  console.warn('NO CONTROL GROUP of memory can be created: the test of a memory limit is SKIPPED');
  return undefined;
}
